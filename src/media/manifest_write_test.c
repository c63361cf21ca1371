/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing values: what was given is read again, equal texts are kept once, and a failure leaves nothing behind.
 */
#include "media/manifest_fixture.h"

static struct stk_manifest_value values[3];

static stoker_status give(void *user, uint64_t index, struct stk_manifest_value *out, stoker_error *err)
{
    (void)err;
    if (user && index == 2) return STOKER_ERR_CANCELED;
    *out = values[index];
    return STOKER_OK;
}

static void fill(void)
{
    static const uint8_t table[] = {0x10, 0, 0, 0x21, 2, 2};
    memset(values, 0, sizeof values);
    values[0] = (struct stk_manifest_value){.path = "s.tar",
                                            .member = "0.mp4",
                                            .codec = "h264",
                                            .table = table,
                                            .record = {.bytes = 10,
                                                       .mtime_ns = -5,
                                                       .offset = 512,
                                                       .table_size = 6,
                                                       .packets = 2,
                                                       .key_packets = 1,
                                                       .frames = 2,
                                                       .frames_exact = 1,
                                                       .width = 4,
                                                       .height = 6,
                                                       .rotation = 90,
                                                       .duration_s = 0.5,
                                                       .time_base = 0.25}};
    values[0].record.table_sum = stk_manifest_table_sum(table, 6);
    values[1] = values[0];
    values[1].member = "1.mp4";
    values[1].record.frames_exact = STK_MANIFEST_UNKNOWN;
    values[2] =
        (struct stk_manifest_value){.path = "/bad.mp4", .error = "it is bad", .record = {.status = STOKER_ERR_CORRUPT}};
}

static void test_values_are_read_as_they_were_given(void **state)
{
    (void)state;
    stoker_packet packets[2];
    fill();
    assert_int_equal(stk_manifest_write(inside("m"), 3, give, NULL, NULL), STOKER_OK);
    stoker_manifest *manifest = fixture_open("m");
    stoker_manifest_facts facts;
    stoker_manifest_get_facts(manifest, &facts);
    assert_int_equal(facts.entries, 3);
    assert_int_equal(facts.bad, 1);
    assert_int_equal(facts.packet_bytes, 12);
    assert_int_equal(facts.text_bytes, 1 + 6 + 6 + 5 + 6 + 9 + 10); /* path and codec of two members once */
    stoker_manifest_entry entry = fixture_entry(manifest, 1);
    assert_string_equal(entry.path, "s.tar");
    assert_string_equal(entry.member, "1.mp4");
    assert_string_equal(entry.codec, "h264");
    assert_null(entry.error);
    assert_int_equal(entry.offset, 512);
    assert_true(entry.mtime_ns == -5);
    assert_int_equal(entry.frames_exact, STOKER_FRAMES_UNKNOWN);
    assert_int_equal(fixture_entry(manifest, 0).frames_exact, 1);
    assert_int_equal(stoker_manifest_get_packets(manifest, 1, packets, NULL), STOKER_OK);
    assert_int_equal(packets[0].size, 1);
    assert_int_equal(packets[1].flags, STOKER_PACKET_KEY);
    assert_int_equal(packets[1].dts, 1);
    assert_int_equal(packets[1].pts, 2);
    entry = fixture_entry(manifest, 2);
    assert_int_equal(entry.status, STOKER_ERR_CORRUPT);
    assert_string_equal(entry.error, "it is bad");
    assert_null(entry.codec);
    assert_null(entry.member);
    stoker_manifest_close(manifest);
}

static void test_a_manifest_without_entries_is_one(void **state)
{
    (void)state;
    assert_int_equal(stk_manifest_write(inside("m"), 0, give, NULL, NULL), STOKER_OK);
    stoker_manifest *manifest = fixture_open("m");
    stoker_manifest_facts facts;
    stoker_manifest_get_facts(manifest, &facts);
    assert_int_equal(facts.entries, 0);
    assert_int_equal(facts.bytes, STK_MANIFEST_HEADER_BYTES + 1);
    stoker_manifest_close(manifest);
}

static void test_a_failure_leaves_what_was_there(void **state)
{
    (void)state;
    int failing = 1;
    stoker_error err;
    fill();
    assert_int_equal(stk_manifest_write(inside("m"), 2, give, NULL, NULL), STOKER_OK);
    assert_int_equal(stk_manifest_write(inside("m"), 3, give, &failing, &err), STOKER_ERR_CANCELED);
    stoker_manifest *manifest = fixture_open("m");
    assert_int_equal(manifest->header.entry_count, 2);
    stoker_manifest_close(manifest);
    values[0].path = "";
    assert_int_equal(stk_manifest_write(inside("m"), 1, give, NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stk_manifest_write(inside("absent/m"), 0, give, NULL, &err), STOKER_ERR_NOT_FOUND);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_values_are_read_as_they_were_given, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_a_manifest_without_entries_is_one, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_a_failure_leaves_what_was_there, fixture_begin, fixture_end),
    };
    return stk_run_tests(tests);
}
