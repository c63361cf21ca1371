/* SPDX-License-Identifier: Apache-2.0
 *
 * Speeds between hosts: a bounded table of the pairs that carried payload, oldest out (rule D3). Estimates follow what
 * is measured by a quarter of the difference; a pair that is not in the table has the default.
 *
 * Pure: one block of the caller.
 */
#ifndef STK_SCHED_LINK_H
#define STK_SCHED_LINK_H

#include <stddef.h>
#include <stdint.h>

#define STK_LINK_BYTES_PER_S_MIN UINT64_C(1000000) /* slower links count as this */

struct stk_speed {
    uint64_t bytes_per_s, latency_ns;
};

struct stk_links;

/* Bytes of the block, aligned to 16, for `pairs` pairs of hosts (1...2^24). */
size_t stk_links_bytes(uint32_t pairs);
struct stk_links *stk_links_init(void *block, size_t size, uint32_t pairs, const struct stk_speed *otherwise);

/* Host numbers are ordered: from, to. */
struct stk_speed stk_links_get(const struct stk_links *links, uint32_t from, uint32_t to);
/* A measurement; values of 0 say nothing. */
void stk_links_learn(struct stk_links *links, uint32_t from, uint32_t to, const struct stk_speed *measured);
/* Pairs of a host that left. */
void stk_links_forget(struct stk_links *links, uint32_t host);
uint32_t stk_links_count(const struct stk_links *links);

/* Time on the wire, without latency. */
uint64_t stk_speed_transfer_ns(const struct stk_speed *speed, uint64_t bytes);

#endif
