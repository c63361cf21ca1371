/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens/format.h"

#include "tokens/files_fixture.h"

static uint8_t bytes[4096];

static stoker_status decode(size_t size, stoker_error *err)
{
    struct stk_index_layout layout = {0};
    stoker_status status = stk_index_header_decode(bytes, size, "x.idx", &layout, err);
    return status == STOKER_OK ? stk_index_place(&layout, size, "x.idx", err) : status;
}

static void expect_refusal(size_t size, stoker_status status, const char *text, const char *more)
{
    stoker_error err = {0};
    assert_int_equal(decode(size, &err), status);
    assert_non_null(strstr(err.message, "x.idx"));
    assert_non_null(strstr(err.message, text));
    assert_non_null(strstr(err.message, more));
}

static void test_sizes_of_types(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 1, 2, 4, 8, 8, 4, 2};
    for (int code = 1; code <= 8; code++) assert_int_equal(stoker_token_dtype_size(code), sizes[code - 1]);
    assert_int_equal(stoker_token_dtype_size(0), 0);
    assert_int_equal(stoker_token_dtype_size(9), 0);
    assert_int_equal(stoker_token_dtype_size(-1), 0);
}

static void test_header_is_the_same_both_ways(void **state)
{
    (void)state;
    size_t size = fixture_encode(&fixture_three, bytes);
    struct stk_index_layout layout = {0};
    uint8_t again[STK_INDEX_HEADER_BYTES];
    assert_int_equal(stk_index_header_decode(bytes, size, "x.idx", &layout, NULL), STOKER_OK);
    assert_int_equal(layout.dtype_code, 8);
    assert_int_equal(layout.sequences, 3);
    assert_int_equal(layout.document_entries, 3);
    stk_index_header_encode(&layout, again);
    assert_memory_equal(again, bytes, sizeof again);
    assert_int_equal(stk_index_place(&layout, size, "x.idx", NULL), STOKER_OK);
    assert_int_equal(layout.end, size);
    assert_int_equal(stk_index_place(&layout, size + 9, "x.idx", NULL), STOKER_OK); /* trailing bytes are ignored */
    struct stk_index_view view = stk_index_view_of(&layout, bytes);
    assert_int_equal(stk_index_length(&view, 2), 7);
    assert_int_equal(stk_index_offset(&view, 2), 12);
    assert_int_equal(stk_index_document(&view, 1), 2);
    assert_null(view.modes);
}

static void test_bad_headers_name_field_offset_and_value(void **state)
{
    (void)state;
    size_t size = fixture_encode(&fixture_three, bytes);
    for (size_t cut = 0; cut < 9; cut++) expect_refusal(cut, STOKER_ERR_CORRUPT, "magic", "offset 0");
    for (size_t cut = 9; cut < 34; cut++) expect_refusal(cut, STOKER_ERR_CORRUPT, "inside its header", "34 bytes");
    expect_refusal(34, STOKER_ERR_CORRUPT, "sequence lengths", "offset 34");
    expect_refusal(45, STOKER_ERR_CORRUPT, "sequence lengths", "(45 bytes)");
    expect_refusal(46, STOKER_ERR_CORRUPT, "sequence offsets", "offset 46");
    expect_refusal(size - 1, STOKER_ERR_CORRUPT, "document index", "offset 70");
    bytes[3] ^= 1;
    expect_refusal(size, STOKER_ERR_CORRUPT, "magic", "offset 0");
    bytes[3] ^= 1;
    bytes[9] = 2;
    expect_refusal(size, STOKER_ERR_UNSUPPORTED, "version is 2", "offset 9");
    bytes[9] = 0, bytes[16] = 1;
    expect_refusal(size, STOKER_ERR_UNSUPPORTED, "big-endian", "offset 9");
    bytes[9] = 1, bytes[16] = 0;
    bytes[17] = 9;
    expect_refusal(size, STOKER_ERR_UNSUPPORTED, "type is 9", "offset 17");
    bytes[17] = 0;
    expect_refusal(size, STOKER_ERR_UNSUPPORTED, "type is 0", "offset 17");
}

static void test_hostile_counts_do_not_wrap(void **state)
{
    (void)state;
    size_t size = fixture_encode(&fixture_three, bytes);
    const uint64_t counts[] = {4,
                               UINT64_C(1) << 61,
                               UINT64_C(1) << 62,
                               (UINT64_C(1) << 62) + 3,
                               UINT64_C(1) << 63,
                               UINT64_MAX / 8,
                               UINT64_MAX / 4,
                               UINT64_MAX - 33,
                               UINT64_MAX};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "%llu elements", (unsigned long long)counts[i]);
        memcpy(bytes + 18, &counts[i], 8);
        expect_refusal(size, STOKER_ERR_CORRUPT, i == 0 ? "document index" : "sequence lengths",
                       i == 0 ? "3 elements" : text);
        memcpy(bytes + 18, &fixture_three.sequences, 8);
        memcpy(bytes + 26, &counts[i], 8);
        expect_refusal(size, STOKER_ERR_CORRUPT, "document index", text);
        memcpy(bytes + 26, &fixture_three.entries, 8);
    }
    uint64_t none = 0;
    memcpy(bytes + 26, &none, 8);
    expect_refusal(size, STOKER_ERR_CORRUPT, "offset 26", "no entry");
}

static void test_modes_are_placed_when_asked_for(void **state)
{
    (void)state;
    static const int8_t modes[] = {0, 5, -1};
    struct fixture_index index = fixture_three;
    index.modes = modes;
    size_t size = fixture_encode(&index, bytes);
    struct stk_index_layout layout = {.sequences = 3, .document_entries = 3, .dtype_code = 8, .multimodal = true};
    stoker_error err = {0};
    assert_int_equal(stk_index_place(&layout, size, "x.idx", &err), STOKER_OK);
    assert_memory_equal(stk_index_view_of(&layout, bytes).modes, modes, 3);
    assert_int_equal(stk_index_place(&layout, size - 1, "x.idx", &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "sequence modes"));
}

static stoker_status check(const struct fixture_index *index, uint64_t bin_bytes, bool exact, uint64_t *out_sequence,
                           stoker_error *err)
{
    size_t size = fixture_encode(index, bytes);
    struct stk_index_layout layout = {0};
    assert_int_equal(stk_index_header_decode(bytes, size, "x.idx", &layout, NULL), STOKER_OK);
    assert_int_equal(stk_index_place(&layout, size, "x.idx", NULL), STOKER_OK);
    struct stk_index_view view = stk_index_view_of(&layout, bytes);
    struct stk_index_bounds bounds = {bin_bytes, "x.idx", "x.bin", exact};
    return stk_index_check(&view, &bounds, out_sequence, err);
}

static void test_values_that_are_good(void **state)
{
    (void)state;
    static const int64_t shuffled[] = {16, 0, 2};
    struct fixture_index index = fixture_three;
    assert_int_equal(check(&index, 26, true, NULL, NULL), STOKER_OK);
    assert_int_equal(check(&index, 1000, false, NULL, NULL), STOKER_OK);
    index.offsets = shuffled; /* read as they say */
    assert_int_equal(check(&index, 26, false, NULL, NULL), STOKER_OK);
    static const int64_t zero[] = {0};
    struct fixture_index empty = {4, 0, 1, NULL, NULL, zero, NULL};
    assert_int_equal(check(&empty, 0, true, NULL, NULL), STOKER_OK);
    static const int32_t nothing[] = {0};
    static const int64_t at_end[] = {8}, ends[] = {0, 0, 1, 1};
    struct fixture_index edge = {5, 1, 4, nothing, at_end, ends, NULL};
    assert_int_equal(check(&edge, 8, false, NULL, NULL), STOKER_OK);
}

static void test_bad_sequences_name_the_first(void **state)
{
    (void)state;
    enum { COUNT = 19 }; /* more than a vector, and a rest */
    static const struct {
        int32_t length;
        int64_t offset;
        const char *text;
    } faults[] = {
        {-1, 0, "length of sequence"},
        {INT32_MIN, 0, "length of sequence"},
        {1, -1, "offset of sequence"},
        {1, INT64_MIN, "offset of sequence"},
        {1, INT64_MAX, "past the end"},
        {0, 77, "past the end"},
        {INT32_MAX, INT64_MAX, "past the end"},
        {INT32_MAX, INT64_MAX - 7, "past the end"},
        {20, 0, "inside sequence"},
        {INT32_MAX, 0, "inside sequence"},
        {1, 76, "inside sequence"},
        {1, 73, "inside sequence"},
    };
    static int32_t lengths[COUNT];
    static int64_t offsets[COUNT], documents[2] = {0, COUNT};
    for (size_t fault = 0; fault < sizeof faults / sizeof faults[0]; fault++)
        for (uint64_t bad = 0; bad < COUNT; bad++) {
            for (int64_t i = 0; i < COUNT; i++) lengths[i] = 1, offsets[i] = i * 4;
            lengths[bad] = faults[fault].length;
            offsets[bad] = faults[fault].offset;
            if (bad + 1 < COUNT) lengths[COUNT - 1] = -5; /* a later one is not named */
            struct fixture_index index = {4, COUNT, 2, lengths, offsets, documents, NULL};
            uint64_t sequence = 99;
            char number[32];
            stoker_error err = {0};
            assert_int_equal(check(&index, (uint64_t)COUNT * 4, false, &sequence, &err), STOKER_ERR_CORRUPT);
            assert_int_equal(sequence, bad);
            (void)snprintf(number, sizeof number, "sequence %llu", (unsigned long long)bad);
            assert_non_null(strstr(err.message, faults[fault].text));
            assert_non_null(strstr(err.message, number));
            assert_non_null(strstr(err.message, "x.idx"));
        }
}

static void test_bad_documents_name_entry_and_value(void **state)
{
    (void)state;
    static const struct {
        int64_t entries[4];
        const char *text;
    } faults[] = {
        {{1, 1, 2, 3}, "begins with 1"},   {{-1, 1, 2, 3}, "begins with -1"}, {{0, 2, 1, 3}, "entry 2"},
        {{0, -1, 2, 3}, "entry 1"},        {{0, INT64_MIN, 2, 3}, "entry 1"}, {{0, 1, 2, 2}, "ends with 2"},
        {{0, 1, 2, 4}, "ends with 4"},     {{0, 4, 4, 3}, "entry 3"},         {{0, INT64_MAX, 2, 3}, "entry 2"},
        {{0, 1, 2, INT64_MIN}, "entry 3"},
    };
    for (size_t i = 0; i < sizeof faults / sizeof faults[0]; i++) {
        struct fixture_index index = {8, 3, 4, fixture_lengths, NULL, faults[i].entries, NULL};
        uint64_t sequence = 5;
        stoker_error err = {0};
        assert_int_equal(check(&index, 26, false, &sequence, &err), STOKER_ERR_CORRUPT);
        assert_true(sequence == UINT64_MAX);
        assert_non_null(strstr(err.message, faults[i].text));
        assert_non_null(strstr(err.message, "offset "));
    }
}

static void test_exact_means_running_sum_and_size(void **state)
{
    (void)state;
    static const int64_t gap[] = {0, 10, 14}, swapped[] = {2, 0, 12};
    struct fixture_index index = fixture_three;
    uint64_t sequence = 9;
    stoker_error err = {0};
    assert_int_equal(check(&index, 27, true, &sequence, &err), STOKER_ERR_CORRUPT);
    assert_true(sequence == UINT64_MAX);
    assert_non_null(strstr(err.message, "'x.bin' has 27 bytes"));
    assert_non_null(strstr(err.message, "end at 26"));
    index.offsets = gap;
    assert_int_equal(check(&index, 28, true, &sequence, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(sequence, 2);
    assert_non_null(strstr(err.message, "is 14, but the sequences before it end at 12"));
    index.offsets = swapped; /* ends where it should */
    assert_int_equal(check(&index, 26, true, &sequence, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(sequence, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sizes_of_types),
        cmocka_unit_test(test_header_is_the_same_both_ways),
        cmocka_unit_test(test_bad_headers_name_field_offset_and_value),
        cmocka_unit_test(test_hostile_counts_do_not_wrap),
        cmocka_unit_test(test_modes_are_placed_when_asked_for),
        cmocka_unit_test(test_values_that_are_good),
        cmocka_unit_test(test_bad_sequences_name_the_first),
        cmocka_unit_test(test_bad_documents_name_entry_and_value),
        cmocka_unit_test(test_exact_means_running_sum_and_size),
    };
    return stk_run_tests(tests);
}
