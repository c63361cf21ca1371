/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing against Megatron-LM's own answers: every case of megatron/packing, made by its original code.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "tests/support/packing.h"
#include "tests/support/unit.h"

static json_t *load(const char *name)
{
    char path[4096];
    json_error_t error;
    assert_true(snprintf(path, sizeof path, "%s/%s", STK_GOLDEN_PACKING, name) < (int)sizeof path);
    json_t *root = json_load_file(path, 0, &error);
    if (!root) fail_msg("%s: %s", path, error.text);
    return root;
}

static json_t *member(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    if (!value) fail_msg("no %s", name);
    return value;
}

static uint32_t number(json_t *object, const char *name)
{
    json_t *value = json_object_get(object, name);
    return json_is_integer(value) ? (uint32_t)json_integer_value(value) : 0; /* null: the default */
}

/* Lists of the file as private arrays, one entry longer so that none is NULL. */
static uint32_t *numbers(json_t *list, size_t *out_count)
{
    assert_true(json_is_array(list));
    size_t count = json_array_size(list);
    uint32_t *result = calloc(count + 1, sizeof *result);
    assert_non_null(result);
    for (size_t i = 0; i < count; i++) result[i] = (uint32_t)json_integer_value(json_array_get(list, i));
    if (out_count) *out_count = count;
    return result;
}

/* cells[micro-batch][rank] = list of ids */
static void check_cells(const stoker_pack_schedule *schedule, json_t *groups, size_t case_number)
{
    assert_int_equal(schedule->microbatches, json_array_size(groups));
    for (uint32_t m = 0; m < schedule->microbatches; m++) {
        json_t *ranks = json_array_get(groups, m);
        assert_int_equal(schedule->ranks, json_array_size(ranks));
        for (uint32_t r = 0; r < schedule->ranks; r++) {
            json_t *ids = json_array_get(ranks, r);
            const stoker_pack_span *span = packing_cell(schedule, m, r);
            assert_non_null(span);
            if (span->count != json_array_size(ids))
                fail_msg("case %zu, micro-batch %u, rank %u: %u samples, expected %zu", case_number, m, r, span->count,
                         json_array_size(ids));
            for (uint32_t k = 0; k < span->count; k++)
                assert_int_equal(schedule->samples[span->first + k], json_integer_value(json_array_get(ids, k)));
        }
    }
}

static void test_dp_balanced_schedules(void **state)
{
    (void)state;
    json_t *root = load("dp_balanced.json"), *entry;
    size_t i, count;
    json_array_foreach(root, i, entry)
    {
        uint32_t *lengths = numbers(member(entry, "lengths"), &count);
        stoker_pack_options options = STOKER_PACK_OPTIONS_INIT;
        options.tokens_per_rank = number(entry, "max_seqlen_per_dp_cp_rank");
        options.data_ranks = number(entry, "dp_size");
        options.context_ranks = number(entry, "cp_size");
        options.stage_group = number(entry, "microbatch_group_size_per_vp_stage");
        struct packing packing;
        stoker_error err;
        stoker_status status = packing_make(&packing, STOKER_PACK_DP_BALANCED, lengths, count, &options, &err);
        json_t *error = json_object_get(entry, "error");
        if (error) {
            assert_int_equal(status, STOKER_ERR_INVALID_ARGUMENT);
            assert_non_null(strstr(err.message, json_string_value(json_object_get(error, "message"))));
        } else {
            assert_int_equal(status, STOKER_OK);
            check_cells(&packing.schedule, member(entry, "groups"), i);
        }
        packing_drop(&packing);
        free(lengths);
    }
    assert_int_equal(i, 9);
    json_decref(root);
}

static void check_needs(json_t *entry, const uint32_t *lengths, uint32_t tokens_per_rank)
{
    json_t *needs = member(entry, "gpus_needed"), *work = member(entry, "workload");
    for (size_t k = 0; k < json_array_size(needs); k++) {
        uint32_t ranks = stoker_pack_ranks_needed(lengths[k], tokens_per_rank);
        assert_int_equal(ranks, json_integer_value(json_array_get(needs, k)));
        double expected = json_real_value(json_array_get(work, k));
        assert_true((double)((uint64_t)lengths[k] * lengths[k]) / ranks == expected);
    }
}

static void test_balanced_cp_schedules(void **state)
{
    (void)state;
    json_t *root = load("balanced_cp.json"), *entry;
    size_t i, count, failures = 0;
    json_array_foreach(member(root, "schedules"), i, entry)
    {
        uint32_t *lengths = numbers(member(entry, "lengths"), &count);
        stoker_pack_options options = STOKER_PACK_OPTIONS_INIT;
        options.tokens_per_rank = number(entry, "max_seq_len_per_rank");
        options.data_ranks = number(entry, "total_gpus");
        check_needs(entry, lengths, options.tokens_per_rank);
        struct packing packing;
        stoker_error err;
        stoker_status status = packing_make(&packing, STOKER_PACK_BALANCED_CP, lengths, count, &options, &err);
        if (json_object_get(entry, "error")) {
            assert_int_equal(status, STOKER_ERR_INVALID_ARGUMENT);
            assert_non_null(strstr(err.message, "ranks"));
            failures++;
        } else {
            assert_int_equal(status, STOKER_OK);
            check_cells(&packing.schedule, member(entry, "sample_id_groups"), i);
        }
        packing_drop(&packing);
        free(lengths);
    }
    assert_int_equal(i, 12);
    assert_int_equal(failures, 1);
    json_decref(root);
}

static void test_buckets(void **state)
{
    (void)state;
    json_t *root = load("balanced_cp.json"), *entry;
    size_t i, count, made;
    json_array_foreach(member(root, "buckets"), i, entry)
    {
        uint32_t *lengths = numbers(member(entry, "lengths"), &count), *ends = calloc(count, sizeof *ends);
        json_t *buckets = member(entry, "buckets");
        assert_int_equal(stoker_pack_buckets(lengths, count, number(entry, "max_seq_len_per_rank"), ends, &made, NULL),
                         STOKER_OK);
        assert_int_equal(made, json_array_size(buckets));
        uint32_t end = 0;
        for (size_t b = 0; b < made; b++) {
            end += (uint32_t)json_array_size(json_array_get(buckets, b));
            assert_int_equal(ends[b], end);
        }
        free(ends);
        free(lengths);
    }
    assert_int_equal(i, 4);
    json_decref(root);
}

static void check_cu(json_t *expected, const uint32_t *lengths, size_t count, int64_t longest)
{
    int32_t *cu = calloc(count + 1, sizeof *cu), most;
    assert_int_equal(stoker_pack_cumulate(lengths, count, cu, &most, NULL), STOKER_OK);
    assert_int_equal(json_array_size(expected), count + 1);
    for (size_t k = 0; k <= count; k++) assert_int_equal(cu[k], json_integer_value(json_array_get(expected, k)));
    if (longest >= 0) assert_int_equal(most, longest);
    free(cu);
}

static void test_packed_sequences(void **state)
{
    (void)state;
    json_t *root = load("pack_unpack.json");
    json_t *unpacked = member(root, "unpacked"), *packed = member(root, "packed");
    json_t *override = member(root, "original_len_override");
    size_t at = 0;
    for (size_t p = 0; p < json_array_size(packed); p++) {
        json_t *pack = json_array_get(packed, p);
        size_t count = json_array_size(member(pack, "cu_seqlens")) - 1;
        uint32_t padded[8], original[8];
        for (size_t k = 0; k < count; k++, at++) {
            char key[16];
            json_t *sample = json_array_get(unpacked, at);
            padded[k] = (uint32_t)json_integer_value(json_array_get(member(sample, "padded_seq_len"), 0));
            original[k] = (uint32_t)json_integer_value(json_array_get(member(sample, "original_seq_len"), 0));
            (void)snprintf(key, sizeof key, "%zu", at);
            if (json_object_get(override, key)) original[k] = number(override, key);
        }
        check_cu(member(pack, "cu_seqlens_padded"), padded, count, number(pack, "max_seqlen"));
        check_cu(member(pack, "cu_seqlens"), original, count, -1);
    }
    assert_int_equal(at, json_array_size(unpacked));
    json_decref(root);
}

static void test_padding_masks(void **state)
{
    (void)state;
    json_t *root = load("pack_unpack.json"), *entry;
    size_t i, count, padded_count;
    json_array_foreach(member(root, "padding_masks"), i, entry)
    {
        uint32_t *cu = numbers(member(entry, "cu_seqlens"), &count);
        uint32_t *padded = numbers(member(entry, "cu_seqlens_padded"), &padded_count);
        json_t *expected = member(entry, "padding_mask");
        assert_int_equal(count, padded_count);
        uint8_t *mask = calloc(padded[count - 1] + 1, 1);
        assert_int_equal(stoker_pack_padding_mask((int32_t *)cu, (int32_t *)padded, count, mask, NULL), STOKER_OK);
        assert_int_equal(json_array_size(expected), padded[count - 1]);
        for (size_t k = 0; k < padded[count - 1]; k++)
            assert_int_equal(mask[k], json_integer_value(json_array_get(expected, k)));
        free(mask);
        free(padded);
        free(cu);
    }
    assert_int_equal(i, 5);
    json_decref(root);
}

static void test_sequence_indices(void **state)
{
    (void)state;
    json_t *root = load("pack_unpack.json"), *entry;
    size_t i, count, made;
    json_array_foreach(member(root, "seq_idx"), i, entry)
    {
        json_t *padded = member(entry, "cu_seqlens_q_padded");
        uint32_t *cu = numbers(json_is_array(padded) ? padded : member(entry, "cu_seqlens_q"), &count);
        json_t *expected = json_array_get(member(entry, "seq_idx"), 0);
        int32_t *index = calloc(json_array_size(expected), sizeof *index);
        int64_t total = json_integer_value(member(entry, "total_tokens"));
        assert_int_equal(stoker_pack_sequence_index((int32_t *)cu, count, total, NULL, &made, NULL), STOKER_OK);
        assert_int_equal(made, json_array_size(expected));
        assert_int_equal(stoker_pack_sequence_index((int32_t *)cu, count, total, index, &made, NULL), STOKER_OK);
        for (size_t k = 0; k < made; k++) assert_int_equal(index[k], json_integer_value(json_array_get(expected, k)));
        free(index);
        free(cu);
    }
    assert_int_equal(i, 4);
    json_decref(root);
}

/* ---- routes ---- */

struct loaded {
    uint32_t dp, cp;
    uint32_t lengths[64], count;
    uint32_t offsets[16];
};

static void check_list(const uint32_t *ids, size_t count, json_t *expected)
{
    assert_int_equal(count, json_array_size(expected));
    for (size_t k = 0; k < count; k++) assert_int_equal(ids[k], json_integer_value(json_array_get(expected, k)));
}

static void check_sum(const uint64_t *tokens, uint32_t ranks, json_t *expected)
{
    assert_int_equal(ranks, json_array_size(expected));
    for (size_t k = 0; k < ranks; k++) assert_int_equal(tokens[k], json_integer_value(json_array_get(expected, k)));
}

static void check_counts(const uint32_t *samples, uint32_t ranks, json_t *expected)
{
    assert_int_equal(ranks, json_array_size(expected));
    for (size_t k = 0; k < ranks; k++) assert_int_equal(samples[k], json_integer_value(json_array_get(expected, k)));
}

typedef void (*check_route_fn)(const struct loaded *loaded, const stoker_pack_route *route, json_t *expected);

static void route_of(const struct loaded *loaded, const stoker_pack_schedule *schedule, uint32_t rank,
                     check_route_fn check_fn, json_t *expected)
{
    uint32_t members[16];
    for (uint32_t i = 0; i < loaded->dp; i++) members[i] = i * loaded->cp + rank % loaded->cp;
    stoker_pack_owners owners = {
        .members = members, .member_count = loaded->dp, .offsets = loaded->offsets, .rank = rank};
    size_t size = stoker_pack_route_bytes(schedule, &owners);
    void *memory = aligned_alloc(16, (size + 15) / 16 * 16);
    assert_non_null(memory);
    stoker_pack_route route;
    stoker_error err;
    assert_int_equal(stoker_pack_route_make(schedule, loaded->lengths, &owners, memory, size, &route, &err), STOKER_OK);
    check_fn(loaded, &route, expected);
    free(memory);
}

static void check_dp_route(const struct loaded *loaded, const stoker_pack_route *route, json_t *expected)
{
    uint32_t ranks = loaded->dp * loaded->cp;
    json_t *tokens = member(expected, "a2a_tokens"), *counts = json_array_get(member(expected, "a2a_counts"), 0);
    check_list(route->receive_ids, route->receive_count, member(expected, "received_ids_in_order"));
    check_sum(route->send_tokens, ranks, member(tokens, "send"));
    check_sum(route->receive_tokens, ranks, member(tokens, "recv"));
    check_counts(route->send_samples, ranks, member(counts, "send"));
    check_counts(route->receive_samples, ranks, member(counts, "recv"));
    check_list(loaded->offsets, loaded->dp + 1, member(expected, "offsets"));
    json_t *pairs = member(expected, "global_id_seqlens");
    assert_int_equal(json_array_size(pairs), loaded->count);
    for (size_t i = 0; i < loaded->count; i++)
        assert_int_equal(json_integer_value(json_array_get(json_array_get(pairs, i), 1)), loaded->lengths[i]);
}

static void test_reroute_plans(void **state)
{
    (void)state;
    json_t *root = load("reroute.json"), *entry, *expected;
    size_t i;
    json_array_foreach(root, i, entry)
    {
        struct loaded loaded = {.dp = number(entry, "dp"), .cp = number(entry, "cp")};
        uint32_t counts[16];
        for (uint32_t d = 0; d < loaded.dp; d++) {
            char key[16];
            size_t count;
            (void)snprintf(key, sizeof key, "%u", d);
            uint32_t *lengths = numbers(member(member(entry, "lengths_per_dp_rank"), key), &count);
            counts[d] = (uint32_t)count;
            memcpy(loaded.lengths + loaded.count, lengths, count * sizeof *lengths);
            loaded.count += counts[d];
            free(lengths);
        }
        assert_int_equal(stoker_pack_offsets(counts, loaded.dp, loaded.offsets, NULL), STOKER_OK);
        stoker_pack_options options = STOKER_PACK_OPTIONS_INIT;
        options.tokens_per_rank = number(entry, "max_seqlen_per_dp_cp_rank");
        options.data_ranks = loaded.dp;
        options.context_ranks = loaded.cp;
        struct packing packing;
        assert_int_equal(packing_make(&packing, STOKER_PACK_DP_BALANCED, loaded.lengths, loaded.count, &options, NULL),
                         STOKER_OK);
        const char *rank;
        json_object_foreach(member(entry, "ranks"), rank, expected)
        {
            check_cells(&packing.schedule, member(expected, "groups"), i);
            route_of(&loaded, &packing.schedule, (uint32_t)strtoul(rank, NULL, 10), check_dp_route, expected);
        }
        packing_drop(&packing);
    }
    assert_int_equal(i, 3);
    json_decref(root);
}

/* Token k of the j-th sample of data-parallel rank d is d * 1000 + its place in what that rank loaded. */
static void check_hybrid_route(const struct loaded *loaded, const stoker_pack_route *route, json_t *expected)
{
    uint32_t ranks = loaded->dp * loaded->cp;
    json_t *tokens = json_array_get(member(expected, "a2a"), 0), *received = member(expected, "received");
    check_sum(route->send_tokens, ranks, member(tokens, "send"));
    check_sum(route->receive_tokens, ranks, member(tokens, "recv"));
    assert_int_equal(route->receive_count, json_object_size(received));
    for (size_t k = 0; k < route->receive_count; k++) {
        char key[16];
        uint32_t id = route->receive_ids[k], owner = 0, first = 0;
        (void)snprintf(key, sizeof key, "%u", id);
        json_t *values = member(received, key);
        while (loaded->offsets[owner + 1] <= id) owner++;
        for (uint32_t i = loaded->offsets[owner]; i < id; i++) first += loaded->lengths[i];
        assert_int_equal(json_array_size(values), loaded->lengths[id]);
        assert_int_equal(json_integer_value(json_array_get(values, 0)), owner * 1000 + first);
    }
}

static void test_hybrid_routes(void **state)
{
    (void)state;
    json_t *root = load("hybrid_wrapper.json"), *entry, *expected;
    size_t i;
    json_array_foreach(root, i, entry)
    {
        struct loaded loaded = {.dp = number(entry, "dp"), .cp = number(entry, "cp")};
        uint32_t counts[16] = {0};
        for (uint32_t d = 0; d < loaded.dp; d++) {
            size_t borders;
            uint32_t *cu = numbers(json_array_get(member(entry, "cu_seqlens_per_dp_rank"), d), &borders);
            for (size_t k = 0; k + 1 < borders; k++) loaded.lengths[loaded.count++] = cu[k + 1] - cu[k];
            counts[d] = (uint32_t)borders - 1;
            free(cu);
        }
        assert_int_equal(stoker_pack_offsets(counts, loaded.dp, loaded.offsets, NULL), STOKER_OK);
        stoker_pack_options options = STOKER_PACK_OPTIONS_INIT;
        options.tokens_per_rank = number(entry, "max_seqlen_per_dp_cp_rank");
        options.data_ranks = loaded.dp;
        options.context_ranks = loaded.cp;
        struct packing packing;
        assert_int_equal(packing_make(&packing, STOKER_PACK_BALANCED_CP, loaded.lengths, loaded.count, &options, NULL),
                         STOKER_OK);
        const char *rank;
        json_object_foreach(member(entry, "ranks"), rank, expected)
        {
            check_cells(&packing.schedule, member(expected, "sample_id_groups"), i);
            route_of(&loaded, &packing.schedule, (uint32_t)strtoul(rank, NULL, 10), check_hybrid_route, expected);
        }
        packing_drop(&packing);
    }
    assert_int_equal(i, 3);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dp_balanced_schedules),
        cmocka_unit_test(test_balanced_cp_schedules),
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_packed_sequences),
        cmocka_unit_test(test_padding_masks),
        cmocka_unit_test(test_sequence_indices),
        cmocka_unit_test(test_reroute_plans),
        cmocka_unit_test(test_hybrid_routes),
    };
    return stk_run_tests(tests);
}
