/* SPDX-License-Identifier: Apache-2.0
 *
 * The time that the ranks of a group compute on one step, learned as the running median of the last intervals. An
 * interval above five medians is a pause (validation, checkpoint) and is not learned (rule D1). Several such intervals
 * in a row from one rank are no pauses but another pace: the owner starts the window anew, or a first guess that was
 * far too low would stay for ever.
 *
 * Pure: integers only.
 */
#ifndef STK_SCHED_WINDOW_H
#define STK_SCHED_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "sched/engine.h"

#define STK_WINDOW_PAUSES_MAX 5u                 /* in a row, of one rank */
#define STK_WINDOW_NS_MAX (3600 * STK_SECOND_NS) /* longer steps are taken for this: keeps products small */

struct stk_window {
    uint64_t samples[STK_WINDOW_SAMPLES]; /* a ring */
    uint32_t count, next;
    uint64_t median_ns;
};

void stk_window_init(struct stk_window *window);
/* False, with nothing changed, for a pause. */
bool stk_window_learn(struct stk_window *window, uint64_t interval_ns);

#endif
