/* SPDX-License-Identifier: Apache-2.0
 *
 * Schedules in tests: memory of the exact size that is asked for (so that a sanitizer sees one byte too many), and what
 * one rank of one micro-batch holds.
 */
#ifndef STK_TESTS_PACKING_H
#define STK_TESTS_PACKING_H

#include <stdlib.h>

#include <stoker/pack.h>

struct packing {
    void *memory;
    stoker_pack_schedule schedule;
};

static inline stoker_status packing_make(struct packing *packing, stoker_pack_kind kind, const uint32_t *lengths,
                                         size_t count, const stoker_pack_options *options, stoker_error *err)
{
    size_t size = stoker_pack_schedule_bytes(kind, count);
    packing->memory = aligned_alloc(16, (size + 15) / 16 * 16);
    if (!packing->memory) abort();
    return stoker_pack_schedule_make(kind, lengths, count, options, packing->memory, size, &packing->schedule, err);
}

static inline void packing_drop(struct packing *packing)
{
    free(packing->memory);
    packing->memory = NULL;
}

/* The span that a rank belongs to; NULL if none covers it. */
static inline const stoker_pack_span *packing_cell(const stoker_pack_schedule *schedule, uint32_t microbatch,
                                                   uint32_t rank)
{
    for (size_t i = 0; i < schedule->span_count; i++) {
        const stoker_pack_span *span = &schedule->spans[i];
        if (span->microbatch == microbatch && rank >= span->first_rank && rank - span->first_rank < span->ranks)
            return span;
    }
    return NULL;
}

/* The cost that best fit levels, of one span. */
static inline uint64_t packing_cost(const stoker_pack_schedule *schedule, const stoker_pack_span *span,
                                    const uint32_t *lengths, uint64_t linear)
{
    uint64_t cost = 0;
    for (uint32_t k = span->first; k < span->first + span->count; k++) {
        uint64_t length = lengths[schedule->samples[k]];
        cost += length * (length + linear);
    }
    return cost;
}

/* Sum over micro-batches of the dearest span. */
static inline uint64_t packing_time(const stoker_pack_schedule *schedule, const uint32_t *lengths, uint64_t linear)
{
    uint64_t time = 0, most = 0;
    for (size_t i = 0; i < schedule->span_count; i++) {
        uint64_t cost = packing_cost(schedule, &schedule->spans[i], lengths, linear);
        if (cost > most) most = cost;
        if (i + 1 < schedule->span_count && schedule->spans[i + 1].microbatch == schedule->spans[i].microbatch)
            continue;
        time += most;
        most = 0;
    }
    return time;
}

#endif
