/* SPDX-License-Identifier: Apache-2.0
 *
 * Running median of a rank group's step intervals: see window.h. With an even count the lower of the two middle samples
 * counts, so that one slow first step (a compiler's, say) is forgotten with the second.
 */
#include "sched/window.h"

#include <string.h>

static uint64_t median(const struct stk_window *window)
{
    uint64_t sorted[STK_WINDOW_SAMPLES];
    for (uint32_t i = 0; i < window->count; i++) {
        uint32_t at = i;
        for (; at > 0 && sorted[at - 1] > window->samples[i]; at--) sorted[at] = sorted[at - 1];
        sorted[at] = window->samples[i];
    }
    return sorted[(window->count - 1) / 2];
}

void stk_window_init(struct stk_window *window)
{
    memset(window, 0, sizeof *window);
    window->median_ns = STK_WINDOW_DEFAULT_NS;
}

bool stk_window_learn(struct stk_window *window, uint64_t interval_ns)
{
    if (interval_ns > STK_WINDOW_NS_MAX) interval_ns = STK_WINDOW_NS_MAX;
    if (window->count > 0 && interval_ns > STK_WINDOW_PAUSE_FACTOR * window->median_ns) return false;
    window->samples[window->next] = interval_ns;
    window->next = (window->next + 1) % STK_WINDOW_SAMPLES;
    if (window->count < STK_WINDOW_SAMPLES) window->count++;
    window->median_ns = median(window);
    return true;
}
