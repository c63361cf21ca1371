/* SPDX-License-Identifier: Apache-2.0
 *
 * Who sends which sample to whom, so that every rank holds what a schedule gives it.
 *
 * Ranks of one context-parallel group loaded the same samples, so a rank exchanges with the ranks of its own
 * data-parallel group only; the entries of all others are zero. What a rank loaded is one range of ids, and ids are
 * visited in rising order, so nothing is sorted: one mark a sample is enough.
 */
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "sched/pack.h"

struct router {
    const stoker_pack_schedule *schedule;
    const stoker_pack_owners *owners;
    uint8_t *marks; /* of each id: this rank gets it */
    uint32_t *send_ids, *receive_ids;
    uint64_t *send_tokens, *receive_tokens;
    uint32_t *send_samples, *receive_samples;
};

stoker_status stoker_pack_offsets(const uint32_t *counts, size_t count, uint32_t *out_offsets, stoker_error *err)
{
    uint64_t sum = 0;
    out_offsets[0] = 0;
    for (size_t i = 0; i < count; i++) {
        sum += counts[i];
        if (sum > STK_PACK_SAMPLES_MAX)
            return stk_fail(err, STOKER_ERR_LIMIT, "data-parallel ranks 0 to %zu loaded %llu samples, at most %u", i,
                            (unsigned long long)sum, STK_PACK_SAMPLES_MAX);
        out_offsets[i + 1] = (uint32_t)sum;
    }
    return STOKER_OK;
}

static bool holds(const stoker_pack_span *span, uint32_t rank)
{
    return rank >= span->first_rank && rank - span->first_rank < span->ranks;
}

/* Samples that the schedule gives to one rank, over all micro-batches: a bound for the lists of that rank. */
static size_t given_to(const stoker_pack_schedule *schedule, uint32_t rank)
{
    size_t result = 0;
    for (size_t i = 0; i < schedule->span_count; i++)
        if (holds(&schedule->spans[i], rank)) result += schedule->spans[i].count;
    return result;
}

static bool take_memory(struct router *r, struct stk_pack_memory *memory)
{
    const stoker_pack_schedule *schedule = r->schedule;
    const stoker_pack_owners *owners = r->owners;
    if (owners->member_count == 0 || owners->member_count > STK_PACK_RANKS_MAX || schedule->ranks > STK_PACK_RANKS_MAX)
        return false;
    uint64_t sent = 0, mine = 0, all = owners->offsets[owners->member_count];
    for (size_t i = 0; i < owners->member_count; i++) {
        size_t given = given_to(schedule, owners->members[i]);
        sent += given;
        if (owners->members[i] == owners->rank) mine = given;
    }
    if (all > STK_PACK_SAMPLES_MAX || sent > (uint64_t)STK_PACK_SAMPLES_MAX * 64) return false;
    r->marks = stk_pack_take(memory, all, 1);
    r->send_ids = stk_pack_take(memory, sent, sizeof *r->send_ids);
    r->receive_ids = stk_pack_take(memory, mine, sizeof *r->receive_ids);
    r->send_tokens = stk_pack_take(memory, schedule->ranks, sizeof *r->send_tokens);
    r->receive_tokens = stk_pack_take(memory, schedule->ranks, sizeof *r->receive_tokens);
    r->send_samples = stk_pack_take(memory, schedule->ranks, sizeof *r->send_samples);
    r->receive_samples = stk_pack_take(memory, schedule->ranks, sizeof *r->receive_samples);
    return true;
}

size_t stoker_pack_route_bytes(const stoker_pack_schedule *schedule, const stoker_pack_owners *owners)
{
    struct router r = {.schedule = schedule, .owners = owners};
    struct stk_pack_memory memory = {0};
    return take_memory(&r, &memory) ? memory.used + 16 : 0;
}

static stoker_status check(const stoker_pack_schedule *schedule, const stoker_pack_owners *owners, stoker_error *err)
{
    bool member = false;
    for (size_t i = 0; i < owners->member_count; i++) {
        if (owners->offsets[i] > owners->offsets[i + 1] || owners->offsets[0] != 0)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                            "offsets %zu and %zu are %u and %u, expected to rise from 0", i, i + 1, owners->offsets[i],
                            owners->offsets[i + 1]);
        if (owners->members[i] >= schedule->ranks)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "member %zu is rank %u, the schedule has %u ranks", i,
                            owners->members[i], schedule->ranks);
        member |= owners->members[i] == owners->rank;
    }
    if (!member)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "rank %u is not in its data-parallel group", owners->rank);
    for (size_t i = 0; i < schedule->span_count; i++) {
        const stoker_pack_span *span = &schedule->spans[i];
        if (span->first > schedule->sample_count || span->count > schedule->sample_count - span->first)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "span %zu ends at sample %llu of %zu", i,
                            (unsigned long long)span->first + span->count, schedule->sample_count);
    }
    uint32_t all = owners->offsets[owners->member_count];
    for (size_t i = 0; i < schedule->sample_count; i++)
        if (schedule->samples[i] >= all)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the schedule names sample %u, %u were loaded",
                            schedule->samples[i], all);
    return STOKER_OK;
}

static stoker_status mark(struct router *r, uint32_t rank, stoker_error *err)
{
    memset(r->marks, 0, r->owners->offsets[r->owners->member_count]);
    for (size_t i = 0; i < r->schedule->span_count; i++) {
        const stoker_pack_span *span = &r->schedule->spans[i];
        if (!holds(span, rank)) continue;
        for (uint32_t k = span->first; k < span->first + span->count; k++) {
            uint32_t sample = r->schedule->samples[k];
            if (r->marks[sample])
                return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the schedule gives sample %u to rank %u twice",
                                sample, rank);
            r->marks[sample] = 1;
        }
    }
    return STOKER_OK;
}

static size_t send_to(struct router *r, uint32_t rank, size_t member, const uint32_t *lengths, size_t at)
{
    for (uint32_t id = r->owners->offsets[member]; id < r->owners->offsets[member + 1]; id++) {
        if (!r->marks[id]) continue;
        r->send_ids[at++] = id;
        r->send_tokens[rank] += lengths[id];
        r->send_samples[rank]++;
    }
    return at;
}

/* Sources by rising rank, which need not be their order in the group. */
static size_t receive_all(struct router *r, const uint32_t *lengths)
{
    const stoker_pack_owners *owners = r->owners;
    size_t at = 0;
    for (uint32_t source = 0; source < r->schedule->ranks; source++) {
        for (size_t member = 0; member < owners->member_count; member++) {
            if (owners->members[member] != source) continue;
            for (uint32_t id = owners->offsets[member]; id < owners->offsets[member + 1]; id++) {
                if (!r->marks[id]) continue;
                r->receive_ids[at++] = id;
                r->receive_tokens[source] += lengths[id];
                r->receive_samples[source]++;
            }
        }
    }
    return at;
}

stoker_status stoker_pack_route_make(const stoker_pack_schedule *schedule, const uint32_t *lengths,
                                     const stoker_pack_owners *owners, void *memory, size_t size,
                                     stoker_pack_route *out_route, stoker_error *err)
{
    STK_TRY(check(schedule, owners, err));
    struct router r = {.schedule = schedule, .owners = owners};
    size_t needed = stoker_pack_route_bytes(schedule, owners);
    if (needed == 0 || size < needed || ((uintptr_t)memory & 15) != 0)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "the memory of a route has %zu bytes at %p, expected %zu at a multiple of 16", size, memory,
                        needed);
    struct stk_pack_memory block = {.base = memory};
    STK_ASSERT(take_memory(&r, &block));
    memset(r.send_tokens, 0, schedule->ranks * sizeof *r.send_tokens);
    memset(r.receive_tokens, 0, schedule->ranks * sizeof *r.receive_tokens);
    memset(r.send_samples, 0, schedule->ranks * sizeof *r.send_samples);
    memset(r.receive_samples, 0, schedule->ranks * sizeof *r.receive_samples);

    size_t mine = 0, sent = 0;
    while (owners->members[mine] != owners->rank) mine++;
    for (size_t i = 0; i < owners->member_count; i++) {
        STK_TRY(mark(&r, owners->members[i], err));
        sent = send_to(&r, owners->members[i], mine, lengths, sent);
    }
    STK_TRY(mark(&r, owners->rank, err));
    size_t received = receive_all(&r, lengths);
    *out_route = (stoker_pack_route){.send_ids = r.send_ids,
                                     .send_count = sent,
                                     .receive_ids = r.receive_ids,
                                     .receive_count = received,
                                     .send_tokens = r.send_tokens,
                                     .receive_tokens = r.receive_tokens,
                                     .send_samples = r.send_samples,
                                     .receive_samples = r.receive_samples};
    return STOKER_OK;
}
