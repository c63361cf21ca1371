/* SPDX-License-Identifier: Apache-2.0
 *
 * Verifying: files that changed, packets that are others, frames that do not come, and a damaged manifest.
 */
#include "media/manifest_entry.h"
#include "media/manifest_fixture.h"

static const char *const names[] = {"a.mp4", "bad.mp4", "cut.tar", "absent.mp4"};

struct told {
    uint64_t indices[8];
    char messages[8][256];
    size_t count;
};

static void tell(void *user, uint64_t index, const char *message)
{
    struct told *told = user;
    assert_true(told->count < 8);
    told->indices[told->count] = index;
    (void)snprintf(told->messages[told->count++], sizeof told->messages[0], "%s", message);
}

static int begin(void **state)
{
    if (fixture_begin(state) != 0) return -1;
    fixture_clip("h264_bframes_g12.mp4", "a.mp4");
    fixture_write(inside("bad.mp4"), "nothing", 7);
    fixture_write(inside("cut.tar"), "nothing", 7);
    (void)fixture_build("m", names, 4, NULL);
    return 0;
}

static uint64_t verify(const stoker_manifest *manifest, stoker_manifest_depth depth, struct told *told)
{
    stoker_manifest_verify_options options = STOKER_MANIFEST_VERIFY_OPTIONS_INIT;
    uint64_t faults = 99;
    stoker_error err;
    memset(told, 0, sizeof *told);
    options.depth = depth;
    options.jobs = 3;
    options.fault_fn = tell;
    options.fault_user = told;
    if (stoker_manifest_verify(manifest, &options, &faults, &err) != STOKER_OK) fail_msg("%s", err.message);
    assert_int_equal(faults, told->count);
    return faults;
}

static void test_unchanged_files_are_good_at_every_depth(void **state)
{
    (void)state;
    struct told told;
    stoker_manifest *manifest = fixture_open("m");
    for (int depth = STOKER_MANIFEST_FACTS; depth <= STOKER_MANIFEST_FRAMES; depth++)
        assert_int_equal(verify(manifest, (stoker_manifest_depth)depth, &told), 0);
    stoker_manifest_close(manifest);
}

static void test_changed_files_are_told_in_order(void **state)
{
    (void)state;
    struct told told;
    stoker_manifest *manifest = fixture_open("m");
    fixture_write(inside("absent.mp4"), "x", 1);
    assert_int_equal(unlink(inside("bad.mp4")), 0);
    assert_int_equal(truncate(inside("a.mp4"), 10), 0);
    assert_int_equal(verify(manifest, STOKER_MANIFEST_FACTS, &told), 3);
    assert_int_equal(told.indices[0], 0);
    assert_non_null(strstr(told.messages[0], "the file has 10 bytes, its entry says"));
    assert_int_equal(told.indices[1], 1);
    assert_non_null(strstr(told.messages[1], "No such file"));
    assert_int_equal(told.indices[2], 3);
    stoker_manifest_close(manifest);
}

/* Value 0 of a manifest, changed. */
struct changed {
    const stoker_manifest *manifest;
    struct stk_manifest_value value;
};

static stoker_status give(void *user, uint64_t index, struct stk_manifest_value *out, stoker_error *err)
{
    const struct changed *changed = user;
    (void)err;
    if (index == 0)
        *out = changed->value;
    else
        stk_manifest_value_at(changed->manifest, index, out);
    return STOKER_OK;
}

static void expect(const struct changed *changed, stoker_manifest_depth depth, const char *said)
{
    struct told told;
    struct changed copy = *changed;
    assert_int_equal(stk_manifest_write(inside("n"), 1, give, &copy, NULL), STOKER_OK);
    stoker_manifest *manifest = fixture_open("n");
    assert_int_equal(verify(manifest, STOKER_MANIFEST_FACTS, &told), 0);
    assert_int_equal(verify(manifest, depth, &told), 1);
    if (!strstr(told.messages[0], said)) fail_msg("'%s' does not say '%s'", told.messages[0], said);
    stoker_manifest_close(manifest);
}

static void test_entries_that_are_wrong_are_found_by_a_scan(void **state)
{
    (void)state;
    stoker_manifest *manifest = fixture_open("m");
    struct changed good = {.manifest = manifest};
    stk_manifest_value_at(manifest, 0, &good.value);
    struct changed changed = good;
    changed.value.record.width++;
    expect(&changed, STOKER_MANIFEST_PACKETS, "the file is h264 of 320x240, its entry says h264 of 321x240");
    changed = good;
    changed.value.record.frames--;
    expect(&changed, STOKER_MANIFEST_PACKETS, "60 packets for 60 frames, its entry says 60 for 59");
    changed = good;
    changed.value.table =
        (const uint8_t *)memset(malloc(changed.value.record.table_size), 0, changed.value.record.table_size);
    expect(&changed, STOKER_MANIFEST_PACKETS, "the packets of the file are others");
    free((void *)(uintptr_t)changed.value.table);
    changed = good;
    changed.value.record.frames_exact = 59;
    expect(&changed, STOKER_MANIFEST_FRAMES, "60 frames come out of the file, its entry says 59");
    changed = good;
    changed.value.error = "no";
    changed.value.record.status = STOKER_ERR_CORRUPT;
    expect(&changed, STOKER_MANIFEST_PACKETS, "the file can be used now, its entry says: no");
    stoker_manifest_close(manifest);
}

static void test_a_damaged_manifest_is_no_answer(void **state)
{
    (void)state;
    size_t size = 0;
    uint8_t *data = fixture_read(inside("m"), &size);
    uint64_t faults = 99;
    stoker_error err;
    data[size - 1] ^= 1; /* of the packets, which open does not look at */
    fixture_write(inside("n"), data, size);
    free(data);
    stoker_manifest *manifest = fixture_open("n");
    assert_int_equal(stoker_manifest_verify(manifest, NULL, &faults, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "the packets at offset"));
    assert_int_equal(faults, 99);
    assert_int_equal(stoker_manifest_verify(NULL, NULL, &faults, &err), STOKER_ERR_INVALID_ARGUMENT);
    stoker_manifest_close(manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_unchanged_files_are_good_at_every_depth, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_changed_files_are_told_in_order, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_entries_that_are_wrong_are_found_by_a_scan, begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_a_damaged_manifest_is_no_answer, begin, fixture_end),
    };
    return stk_run_tests(tests);
}
