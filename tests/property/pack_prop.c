/* SPDX-License-Identifier: Apache-2.0
 *
 * Laws of packing: no sample is lost or doubled, the budget is exceeded by single samples only, micro-batches are
 * whole, the same input gives the same schedule; best fit is never behind DP-balanced; what one rank sends is what the
 * other expects; slices of a context-parallel group are a partition.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/property/prop.h"
#include "tests/support/packing.h"

enum { SAMPLES = 96, RANKS = 16, TOKENS = 4096 };

static uint32_t lengths[SAMPLES], count;
static stoker_pack_options options;
static struct packing first, second, in_order; /* static: a failed check leaves by longjmp */
static uint64_t linear;

/* Batches of several kinds, some over the budget, some far under it, many with equal lengths. */
static void draw(struct prop_random *rnd, uint32_t ranks_max)
{
    options = (stoker_pack_options)STOKER_PACK_OPTIONS_INIT;
    options.tokens_per_rank = 1 + prop_below(rnd, 200);
    options.data_ranks = 1 + prop_below(rnd, ranks_max);
    options.context_ranks = 1 + prop_below(rnd, 4);
    options.stage_group = prop_below(rnd, 4);
    options.linear_tokens = prop_once_in(rnd, 2) ? 0 : 1 + prop_below(rnd, 1000);
    count = prop_below(rnd, SAMPLES + 1);
    uint32_t budget = options.tokens_per_rank * options.context_ranks;
    uint32_t longest = prop_once_in(rnd, 3) ? 2 * budget : 1 + budget / (1 + prop_below(rnd, 8));
    bool equal = prop_once_in(rnd, 8);
    uint64_t tokens = 0, squares = 0;
    for (uint32_t i = 0; i < count; i++) {
        lengths[i] = equal ? longest : 1 + prop_below(rnd, longest);
        if (prop_once_in(rnd, 4)) lengths[i] = 1 + lengths[i] / 8;
        tokens += lengths[i];
        squares += (uint64_t)lengths[i] * lengths[i];
    }
    linear = options.linear_tokens ? options.linear_tokens : count ? squares / tokens : 1;
}

/* Spans cover every rank of every micro-batch once, in order, and hold every sample once. */
static void check_whole(const stoker_pack_schedule *schedule, bool may_be_empty)
{
    static uint8_t seen[SAMPLES];
    memset(seen, 0, sizeof seen);
    uint32_t microbatch = 0, rank = 0, held = 0;
    for (size_t i = 0; i < schedule->span_count; i++) {
        const stoker_pack_span *span = &schedule->spans[i];
        PROP_CHECK(span->microbatch == microbatch);
        PROP_CHECK(span->first_rank == rank);
        PROP_CHECK(span->ranks > 0);
        PROP_CHECK(span->count > 0 || may_be_empty);
        rank += span->ranks;
        if (rank == schedule->ranks) {
            rank = 0;
            microbatch++;
        }
        for (uint32_t k = span->first; k < span->first + span->count; k++) {
            PROP_CHECK(schedule->samples[k] < count);
            PROP_CHECK(!seen[schedule->samples[k]]++);
            held++;
        }
    }
    PROP_CHECK(rank == 0);
    PROP_CHECK(microbatch == schedule->microbatches);
    PROP_CHECK(held == count);
}

static void check_budget(const stoker_pack_schedule *schedule)
{
    uint64_t budget = (uint64_t)options.tokens_per_rank * options.context_ranks;
    for (size_t i = 0; i < schedule->span_count; i++) {
        const stoker_pack_span *span = &schedule->spans[i];
        uint64_t tokens = 0;
        for (uint32_t k = span->first; k < span->first + span->count; k++) tokens += lengths[schedule->samples[k]];
        PROP_CHECK(tokens <= budget || span->count == 1);
        PROP_CHECK(span->ranks == options.context_ranks);
    }
    PROP_CHECK(schedule->microbatches % (options.stage_group ? options.stage_group : 1) == 0);
}

static bool equal(const stoker_pack_schedule *a, const stoker_pack_schedule *b)
{
    return a->microbatches == b->microbatches && a->span_count == b->span_count &&
           memcmp(a->spans, b->spans, a->span_count * sizeof *a->spans) == 0 &&
           memcmp(a->samples, b->samples, a->sample_count * sizeof *a->samples) == 0;
}

/* Makes the schedule twice, in memory of other contents; false if it is refused, which must be so twice. */
static bool make(stoker_pack_kind kind, struct packing *packing)
{
    stoker_error err;
    packing_drop(packing);
    packing_drop(&second);
    stoker_status status = packing_make(packing, kind, lengths, count, &options, &err);
    stoker_status again = packing_make(&second, kind, lengths, count, &options, &err);
    PROP_CHECK(status == again);
    PROP_CHECK(status == STOKER_OK || status == STOKER_ERR_INVALID_ARGUMENT || status == STOKER_ERR_UNSUPPORTED);
    PROP_CHECK(status == STOKER_OK || err.message[0] != 0);
    if (status < 0) return false;
    if (count > 0) PROP_CHECK(equal(&packing->schedule, &second.schedule));
    return true;
}

static void dp_balanced_keeps_samples_and_budget(uint64_t seed)
{
    struct prop_random rnd = prop_seed(seed);
    draw(&rnd, 6);
    if (!make(STOKER_PACK_DP_BALANCED, &first)) return;
    check_whole(&first.schedule, true);
    check_budget(&first.schedule);
}

static void best_fit_keeps_samples_and_budget(uint64_t seed)
{
    struct prop_random rnd = prop_seed(seed);
    draw(&rnd, 6);
    bool made = make(STOKER_PACK_BEST_FIT, &first);
    uint32_t multiple = options.data_ranks * (options.stage_group ? options.stage_group : 1);
    PROP_CHECK(made || count % multiple != 0); /* one sample a pack is always possible */
    if (count == 0 || !made) return;
    check_whole(&first.schedule, false);
    check_budget(&first.schedule);
}

static void best_fit_is_never_behind_dp_balanced(uint64_t seed)
{
    struct prop_random rnd = prop_seed(seed);
    draw(&rnd, 6);
    bool made = make(STOKER_PACK_BEST_FIT, &first), reference = make(STOKER_PACK_DP_BALANCED, &in_order);
    if (!reference || count == 0) return;
    for (size_t i = 0; i < in_order.schedule.span_count; i++)
        if (in_order.schedule.spans[i].count == 0) return; /* a rank without work: no comparison */
    PROP_CHECK(made);
    PROP_CHECK(first.schedule.microbatches <= in_order.schedule.microbatches);
    PROP_CHECK(packing_time(&first.schedule, lengths, linear) <= packing_time(&in_order.schedule, lengths, linear));
}

static void best_fit_keeps_its_bounds(uint64_t seed)
{
    struct prop_random rnd = prop_seed(seed);
    draw(&rnd, 6);
    options.stage_group = 0;
    if (!make(STOKER_PACK_BEST_FIT, &first) || count == 0) return;
    uint64_t budget = (uint64_t)options.tokens_per_rank * options.context_ranks;
    uint64_t tokens = 0, over = 0, total = 0, dearest = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t length = lengths[i], cost = length * (length + linear);
        if (length > budget)
            over++;
        else
            tokens += length;
        total += cost;
        if (cost > dearest) dearest = cost;
    }
    uint64_t packs = 2 * tokens / budget + 1 + over, data = options.data_ranks;
    PROP_CHECK(first.schedule.microbatches <= (packs + data - 1) / data);
    uint64_t time = packing_time(&first.schedule, lengths, linear);
    PROP_CHECK(time >= (total + data - 1) / data); /* what no schedule is below */
    /* With a budget that refuses nothing, one micro-batch holds all. */
    options.tokens_per_rank = SAMPLES * TOKENS;
    if (!make(STOKER_PACK_BEST_FIT, &first)) return;
    PROP_CHECK(first.schedule.microbatches == 1);
    PROP_CHECK(packing_time(&first.schedule, lengths, linear) <= total / data + dearest);
}

static void balanced_cp_keeps_samples_and_memory(uint64_t seed)
{
    struct prop_random rnd = prop_seed(seed);
    draw(&rnd, 1);
    options.context_ranks = 1u << prop_below(&rnd, 5);
    if (prop_once_in(&rnd, 10)) options.context_ranks = 1 + prop_below(&rnd, RANKS); /* any number: may be refused */
    uint32_t longest = 0, ranks = options.context_ranks;
    for (uint32_t i = 0; i < count; i++)
        if (lengths[i] > longest) longest = lengths[i];
    bool fits = count == 0 || stoker_pack_ranks_needed(longest, options.tokens_per_rank) <= ranks;
    bool made = make(STOKER_PACK_BALANCED_CP, &first);
    PROP_CHECK(fits || !made);
    PROP_CHECK(made || !fits || (ranks & (ranks - 1)) != 0);
    if (!made) return;
    check_whole(&first.schedule, false);
    for (size_t i = 0; i < first.schedule.span_count; i++) {
        const stoker_pack_span *span = &first.schedule.spans[i];
        for (uint32_t k = span->first; k < span->first + span->count; k++)
            PROP_CHECK(stoker_pack_ranks_needed(lengths[first.schedule.samples[k]], options.tokens_per_rank) <=
                       span->ranks);
    }
}

/* ---- exchange ---- */

static struct {
    void *memory;
    stoker_pack_route route;
    uint32_t members[RANKS];
} routes[RANKS];

static void make_route(const stoker_pack_schedule *schedule, const uint32_t *offsets, uint32_t rank)
{
    uint32_t data = options.data_ranks, context = options.context_ranks;
    for (uint32_t i = 0; i < data; i++) routes[rank].members[i] = i * context + rank % context;
    stoker_pack_owners owners = {
        .members = routes[rank].members, .member_count = data, .offsets = offsets, .rank = rank};
    size_t size = stoker_pack_route_bytes(schedule, &owners);
    PROP_CHECK(size > 0);
    free(routes[rank].memory);
    routes[rank].memory = aligned_alloc(16, (size + 15) / 16 * 16);
    if (!routes[rank].memory) abort();
    PROP_CHECK(stoker_pack_route_make(schedule, lengths, &owners, routes[rank].memory, size, &routes[rank].route,
                                      NULL) == STOKER_OK);
}

/* Ids that `from` puts into its buffer for `to`: the lists lie in group order, which is rank order here. */
static const uint32_t *sent(uint32_t from, uint32_t to, uint32_t *out_count)
{
    const stoker_pack_route *route = &routes[from].route;
    size_t at = 0;
    for (uint32_t rank = 0; rank < to; rank++) at += route->send_samples[rank];
    *out_count = route->send_samples[to];
    return route->send_ids + at;
}

static void check_arrival(const stoker_pack_schedule *schedule, uint32_t rank)
{
    static uint8_t wanted[SAMPLES];
    const stoker_pack_route *route = &routes[rank].route;
    memset(wanted, 0, sizeof wanted);
    for (uint32_t m = 0; m < schedule->microbatches; m++) {
        const stoker_pack_span *span = packing_cell(schedule, m, rank);
        for (uint32_t k = span->first; k < span->first + span->count; k++) wanted[schedule->samples[k]] = 1;
    }
    size_t at = 0;
    for (uint32_t source = 0; source < schedule->ranks; source++) {
        uint32_t arriving;
        const uint32_t *ids = sent(source, rank, &arriving);
        PROP_CHECK(arriving == route->receive_samples[source]);
        PROP_CHECK(routes[source].route.send_tokens[rank] == route->receive_tokens[source]);
        for (uint32_t k = 0; k < arriving; k++, at++) {
            PROP_CHECK(ids[k] == route->receive_ids[at]);
            PROP_CHECK(wanted[ids[k]]--);
        }
    }
    PROP_CHECK(at == route->receive_count);
    for (uint32_t i = 0; i < count; i++) PROP_CHECK(wanted[i] == 0);
}

static void what_is_sent_is_what_is_expected(uint64_t seed)
{
    static const stoker_pack_kind kinds[] = {STOKER_PACK_DP_BALANCED, STOKER_PACK_BALANCED_CP, STOKER_PACK_BEST_FIT};
    struct prop_random rnd = prop_seed(seed);
    draw(&rnd, 4);
    if (!make(kinds[prop_below(&rnd, 3)], &first) || count == 0) return;
    uint32_t counts[RANKS] = {0}, offsets[RANKS + 1], rest = count;
    for (uint32_t i = 0; i < options.data_ranks; i++) {
        counts[i] = i + 1 == options.data_ranks ? rest : prop_below(&rnd, rest + 1); /* some load nothing */
        rest -= counts[i];
    }
    PROP_CHECK(stoker_pack_offsets(counts, options.data_ranks, offsets, NULL) == STOKER_OK);
    for (uint32_t rank = 0; rank < first.schedule.ranks; rank++) make_route(&first.schedule, offsets, rank);
    for (uint32_t rank = 0; rank < first.schedule.ranks; rank++) check_arrival(&first.schedule, rank);
}

/* ---- arrays ---- */

static void slices_are_a_partition(uint64_t seed)
{
    static uint32_t padded[SAMPLES];
    static int32_t cu[SAMPLES + 1], cu_padded[SAMPLES + 1];
    static uint8_t mask[SAMPLES * TOKENS], taken[SAMPLES * TOKENS];
    static int64_t places[SAMPLES * TOKENS];
    struct prop_random rnd = prop_seed(seed);
    uint32_t parts = 1 + prop_below(&rnd, 6), sequences = prop_below(&rnd, 20), total = 0, padding = 0;
    for (uint32_t i = 0; i < sequences; i++) {
        lengths[i] = prop_below(&rnd, 60);
        padded[i] = (lengths[i] + 2 * parts - 1) / (2 * parts) * (2 * parts) + 2 * parts * prop_below(&rnd, 2);
        total += padded[i];
        padding += padded[i] - lengths[i];
    }
    PROP_CHECK(stoker_pack_cumulate(lengths, sequences, cu, NULL, NULL) == STOKER_OK);
    PROP_CHECK(stoker_pack_cumulate(padded, sequences, cu_padded, NULL, NULL) == STOKER_OK);
    PROP_CHECK(stoker_pack_padding_mask(cu, cu_padded, sequences + 1, mask, NULL) == STOKER_OK);
    memset(taken, 0, total);
    uint32_t masked = 0, all = 0;
    for (uint32_t part = 0; part < parts; part++) {
        stoker_pack_part me = {.rank = part, .ranks = parts};
        PROP_CHECK(stoker_pack_slice(cu_padded, sequences + 1, me, places, NULL) == STOKER_OK);
        for (uint32_t k = 0; k < total / parts; k++, all++) {
            PROP_CHECK(!taken[places[k]]++);
            masked += mask[places[k]];
        }
    }
    PROP_CHECK(all == total);
    PROP_CHECK(masked == padding);
}

int main(int argc, char **argv)
{
    static const struct prop props[] = {
        {"prop_pack_dp_balanced_keeps_samples_and_budget", dp_balanced_keeps_samples_and_budget, 10000},
        {"prop_pack_best_fit_keeps_samples_and_budget", best_fit_keeps_samples_and_budget, 10000},
        {"prop_pack_best_fit_is_never_behind_dp_balanced", best_fit_is_never_behind_dp_balanced, 10000},
        {"prop_pack_best_fit_keeps_its_bounds", best_fit_keeps_its_bounds, 10000},
        {"prop_pack_balanced_cp_keeps_samples_and_memory", balanced_cp_keeps_samples_and_memory, 10000},
        {"prop_pack_what_is_sent_is_what_is_expected", what_is_sent_is_what_is_expected, 10000},
        {"prop_pack_slices_are_a_partition", slices_are_a_partition, 10000},
    };
    int status = prop_main(props, sizeof props / sizeof *props, argc, argv);
    packing_drop(&first);
    packing_drop(&second);
    packing_drop(&in_order);
    for (uint32_t rank = 0; rank < RANKS; rank++) free(routes[rank].memory);
    return status;
}
