/* SPDX-License-Identifier: Apache-2.0
 *
 * Redistribution between ranks: include/stoker/balance.h is the interface. Pure, integers only, ties by number.
 */
#ifndef STK_SCHED_BALANCE_H
#define STK_SCHED_BALANCE_H

#include <stoker/balance.h>

#define STK_BALANCE_COST_MAX (UINT64_C(1) << 40)

#endif
