/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes of a manifest: whatever is put is got, and a table of packets has one spelling.
 */
#include "media/manifest_format.h"

#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

static uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return *seed >> 16 ^ *seed << 40;
}

static void check(const struct stk_packet *packets, size_t count)
{
    uint8_t *bytes = malloc(count * STK_MANIFEST_PACKET_BYTES_MAX + 1);
    struct stk_packet *got = calloc(count + 1, sizeof *got);
    assert_non_null(bytes);
    assert_non_null(got);
    size_t size = stk_manifest_put_table(bytes, packets, count);
    assert_in_range(size, count * STK_MANIFEST_PACKET_BYTES_MIN, count * STK_MANIFEST_PACKET_BYTES_MAX);
    assert_true(stk_manifest_get_table(bytes, size, got, count));
    for (size_t i = 0; i < count; i++) {
        assert_true(got[i].pts == packets[i].pts && got[i].dts == packets[i].dts);
        assert_int_equal(got[i].size, packets[i].size);
        assert_int_equal(got[i].flags, packets[i].flags);
    }
    assert_false(size > 0 && stk_manifest_get_table(bytes, size - 1, got, count));
    assert_false(count > 0 && stk_manifest_get_table(bytes, size, got, count - 1));
    bytes[size] = 0;
    assert_false(stk_manifest_get_table(bytes, size + 1, got, count));
    free(bytes);
    free(got);
}

static void test_a_plain_stream_takes_few_bytes(void **state)
{
    (void)state;
    struct stk_packet packets[100];
    uint8_t bytes[100 * STK_MANIFEST_PACKET_BYTES_MAX];
    for (int i = 0; i < 100; i++)
        packets[i] = (struct stk_packet){(i + 2) * 512, i * 512, 900, i % 12 == 0 ? STK_PACKET_KEY : 0, 0};
    assert_in_range(stk_manifest_put_table(bytes, packets, 100), 300, 520);
    check(packets, 100);
    check(packets, 0);
}

static void prop_every_table_is_got_as_it_was_put(void **state)
{
    (void)state;
    uint64_t seed = 7;
    for (int round = 0; round < 2000; round++) {
        struct stk_packet packets[40];
        size_t count = next_random(&seed) % 40;
        for (size_t i = 0; i < count; i++) {
            uint64_t kind = next_random(&seed);
            packets[i].pts = kind & 1 ? (int64_t)next_random(&seed) : (int64_t)(next_random(&seed) % 100000);
            packets[i].dts = kind & 2 ? (int64_t)next_random(&seed) : (int64_t)(i * 1001);
            if ((kind & 0x70) == 0x70) packets[i].pts = STK_TIME_NONE;
            if ((kind & 0x380) == 0x380) packets[i].dts = STK_TIME_NONE;
            packets[i].size = (uint32_t)(kind & 4 ? next_random(&seed) & STK_MANIFEST_PACKET_SIZE_MAX : kind >> 50);
            packets[i].flags = (uint32_t)(kind >> 3 & 3);
        }
        check(packets, count);
    }
}

static void test_the_ends_of_time_have_a_difference(void **state)
{
    (void)state;
    const struct stk_packet packets[] = {{INT64_MAX, INT64_MIN + 1, 1, 0, 0},
                                         {INT64_MIN + 1, INT64_MAX, STK_MANIFEST_PACKET_SIZE_MAX, 3, 0},
                                         {0, -1, 0, 2, 0},
                                         {STK_TIME_NONE, STK_TIME_NONE, 5, 1, 0},
                                         {-1, STK_TIME_NONE, 5, 0, 0}};
    check(packets, sizeof packets / sizeof packets[0]);
}

static void prop_accepted_bytes_are_the_only_spelling(void **state)
{
    (void)state;
    uint64_t seed = 11;
    int accepted = 0;
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[24], again[4 * STK_MANIFEST_PACKET_BYTES_MAX];
        struct stk_packet packets[4];
        size_t count = 1 + next_random(&seed) % 4, size = 3 * count + (round % 4 == 3) * (next_random(&seed) % 9);
        for (size_t i = 0; i < size; i++) bytes[i] = (uint8_t)(next_random(&seed) & (round % 2 ? 0x7f : 0xff));
        if (!stk_manifest_get_table(bytes, size, packets, count)) continue;
        accepted++;
        assert_int_equal(stk_manifest_put_table(again, packets, count), size);
        assert_memory_equal(again, bytes, size);
    }
    assert_true(accepted > 500);
}

static void test_numbers_that_are_too_long_are_refused(void **state)
{
    (void)state;
    static const struct {
        uint8_t bytes[16];
        size_t size;
    } cases[] = {
        {{0x80, 0x00, 0, 0}, 4},                                                           /* a zero more than needed */
        {{0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02, 0}, 12},       /* 65 bits */
        {{0x10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, 13}, /* eleven bytes */
        {{0xff, 0xff, 0xff, 0xff, 0x7f, 0, 0}, 7},                                         /* a size above the limit */
        {{0x1c, 2, 0}, 3}, /* no time, yet a difference */
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stk_packet packet;
        assert_false(stk_manifest_get_table(cases[i].bytes, cases[i].size, &packet, 1));
    }
}

static void test_header_and_records_are_got_as_they_were_put(void **state)
{
    (void)state;
    const struct stk_manifest_header header = {.size = 1,
                                               .entry_count = 2,
                                               .entries_at = 3,
                                               .text_at = 4,
                                               .text_size = 5,
                                               .tables_at = 6,
                                               .tables_size = 7,
                                               .bad_count = 8,
                                               .entries_sum = 9,
                                               .text_sum = 10,
                                               .tables_sum = UINT64_MAX};
    const struct stk_manifest_record record = {1,  2,  3,  -4,  5,  6,  7,   8, 9,   10,    11,          12,
                                               13, 14, 15, -16, 17, 18, 270, 3, 1.5, 29.97, 1.0 / 90000, 3003};
    uint8_t bytes[STK_MANIFEST_ENTRY_BYTES + 1];
    struct stk_manifest_header got_header;
    struct stk_manifest_record got;
    bytes[STK_MANIFEST_HEADER_BYTES] = bytes[STK_MANIFEST_ENTRY_BYTES] = 0x5a;
    stk_manifest_put_header(bytes, &header);
    assert_int_equal(bytes[STK_MANIFEST_HEADER_BYTES], 0x5a);
    stk_manifest_get_header(bytes, &got_header);
    assert_int_equal(got_header.id, stk_manifest_header_id(bytes));
    got_header.id = 0;
    assert_memory_equal(&got_header, &header, sizeof header);
    stk_manifest_put_record(bytes, &record);
    assert_int_equal(bytes[STK_MANIFEST_ENTRY_BYTES], 0x5a);
    stk_manifest_get_record(bytes, &got);
    assert_memory_equal(&got, &record, sizeof record);
}

static void test_the_checksum_is_fnv(void **state)
{
    (void)state;
    /* Published values of FNV-1a, 64 bits. */
    assert_true(stk_manifest_sum(STK_MANIFEST_SUM_INIT, (const uint8_t *)"", 0) == UINT64_C(0xcbf29ce484222325));
    assert_true(stk_manifest_sum(STK_MANIFEST_SUM_INIT, (const uint8_t *)"a", 1) == UINT64_C(0xaf63dc4c8601ec8c));
    assert_true(stk_manifest_sum(STK_MANIFEST_SUM_INIT, (const uint8_t *)"foobar", 6) == UINT64_C(0x85944171f73967e8));
    assert_int_equal(stk_manifest_table_sum((const uint8_t *)"a", 1), 0xaf63dc4cu ^ 0x8601ec8cu);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_plain_stream_takes_few_bytes),
        cmocka_unit_test(prop_every_table_is_got_as_it_was_put),
        cmocka_unit_test(test_the_ends_of_time_have_a_difference),
        cmocka_unit_test(prop_accepted_bytes_are_the_only_spelling),
        cmocka_unit_test(test_numbers_that_are_too_long_are_refused),
        cmocka_unit_test(test_header_and_records_are_got_as_they_were_put),
        cmocka_unit_test(test_the_checksum_is_fnv),
    };
    return stk_run_tests(tests);
}
