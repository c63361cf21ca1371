/* SPDX-License-Identifier: Apache-2.0
 *
 * Monotonic time.
 */
#ifndef STK_SYS_CLOCK_H
#define STK_SYS_CLOCK_H

#include <stdint.h>

uint64_t stk_clock_now_ns(void);        /* monotonic */
uint64_t stk_clock_thread_cpu_ns(void); /* CPU time of the calling thread */
uint64_t stk_clock_process_cpu_ns(void); /* CPU time of the calling process */

#endif
