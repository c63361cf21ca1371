/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening: no damage is taken, whatever it is; entries, paths and packets of a real manifest.
 */
#include "media/manifest_fixture.h"

static const char *const names[] = {"a.mp4", "bad.mp4", "v.webm"};

static stoker_manifest *make(void)
{
    fixture_clip("h264_bframes_g12.mp4", "a.mp4");
    fixture_clip("vp9_odd227x171.webm", "v.webm");
    fixture_write(inside("bad.mp4"), "nothing", 7);
    (void)fixture_build("m", names, 3, NULL);
    return fixture_open("m");
}

static void test_entries_paths_and_packets(void **state)
{
    (void)state;
    stoker_manifest *manifest = make();
    stoker_error err;
    char path[4096];
    stoker_manifest_entry entry = fixture_entry(manifest, 0);
    assert_string_equal(entry.path, "a.mp4");
    assert_string_equal(entry.codec, "h264");
    assert_int_equal(entry.frames, 60);
    assert_int_equal(entry.width, 320);
    assert_int_equal(entry.frames_exact, STOKER_FRAMES_UNKNOWN);
    assert_int_equal(stoker_manifest_get_path(manifest, 0, path, sizeof path, &err), STOKER_OK);
    assert_string_equal(path, inside("a.mp4"));
    assert_int_equal(stoker_manifest_get_path(manifest, 0, path, 5, &err), STOKER_ERR_LIMIT);

    stoker_packet *packets = calloc((size_t)entry.packets, sizeof *packets);
    assert_non_null(packets);
    assert_int_equal(stoker_manifest_get_packets(manifest, 0, packets, &err), STOKER_OK);
    uint64_t bytes = 0, keys = 0;
    for (uint64_t i = 0; i < entry.packets; i++) bytes += packets[i].size, keys += packets[i].flags & STOKER_PACKET_KEY;
    assert_int_equal(bytes, entry.packet_bytes);
    assert_int_equal(keys, entry.key_packets);
    assert_in_range(bytes, 1, entry.bytes);
    free(packets);

    struct stk_scan scan;
    assert_int_equal(stk_manifest_scan(manifest, 1, &scan, &err), STOKER_ERR_CORRUPT);
    assert_string_equal(err.message, fixture_entry(manifest, 1).error);
    assert_int_equal(stoker_manifest_get_entry(manifest, 3, &entry, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_string_equal(err.message, "entry 3 is asked for, the manifest has 3");
    stoker_manifest_close(manifest);
}

static void test_a_scan_from_a_manifest_is_a_scan_of_the_file(void **state)
{
    (void)state;
    static const char *const clips[] = {"rot90.mp4",  "vfr.mp4",          "mpeg4_bframes_nopts.avi",
                                        "ptswrap.ts", "editlist_cut.mp4", "truncated_faststart.mp4"};
    for (size_t i = 0; i < sizeof clips / sizeof clips[0]; i++) {
        struct stk_scan kept, now;
        fixture_clip(clips[i], clips[i]);
        (void)fixture_build("one", &clips[i], 1, NULL);
        stoker_manifest *manifest = fixture_open("one");
        struct stk_file file = open_clip(clips[i]);
        assert_int_equal(stk_manifest_scan(manifest, 0, &kept, NULL), STOKER_OK);
        assert_int_equal(stk_scan_file(&file, &now, NULL), STOKER_OK);
        assert_int_equal(kept.count, now.count);
        assert_int_equal(kept.frames, now.frames);
        assert_int_equal(kept.broken, now.broken);
        assert_true(kept.duration_s == now.duration_s && kept.last_duration == now.last_duration);
        assert_string_equal(kept.facts.codec, now.facts.codec);
        assert_int_equal(kept.facts.width, now.facts.width);
        assert_int_equal(kept.facts.rotation, now.facts.rotation);
        for (size_t p = 0; p < now.count; p++) {
            assert_true(kept.packets[p].pts == now.packets[p].pts && kept.packets[p].dts == now.packets[p].dts);
            assert_int_equal(kept.packets[p].size, now.packets[p].size);
            assert_int_equal(kept.packets[p].flags, now.packets[p].flags);
        }
        stk_scan_fini(&kept);
        stk_scan_fini(&now);
        stk_file_close(&file);
        stoker_manifest_close(manifest);
    }
}

/* Every text and table of what was accepted is used. */
static void use(const uint8_t *data, size_t size)
{
    struct stk_manifest_header header;
    if (stk_manifest_check(data, size, &header, NULL) < 0) return;
    stoker_manifest manifest = {.data = data, .header = header, .folder = (char[]){"/"}, .bytes = size};
    for (uint64_t i = 0; i < header.entry_count; i++) {
        struct stk_manifest_value value;
        struct stk_scan scan;
        stk_manifest_value_at(&manifest, i, &value);
        assert_true(strlen(value.path) > 0);
        if (value.member) assert_true(strlen(value.member) < size);
        if (stk_manifest_scan(&manifest, i, &scan, NULL) == STOKER_OK) stk_scan_fini(&scan);
    }
}

static void test_no_damage_is_taken(void **state)
{
    (void)state;
    stoker_manifest_close(make());
    size_t size = 0;
    uint8_t *data = fixture_read(inside("m"), &size);
    struct stk_manifest_header header;
    assert_int_equal(stk_manifest_check(data, size, &header, NULL), STOKER_OK);
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *exact = malloc(cut ? cut : 1);
        assert_non_null(exact);
        memcpy(exact, data, cut);
        assert_true(stk_manifest_check(exact, cut, &header, NULL) < 0);
        free(exact);
    }
    uint8_t *exact = malloc(size ? size : 1);
    assert_non_null(exact);
    for (size_t at = 0; at < size; at++)
        for (unsigned flip = 1; flip < 256; flip <<= 1) {
            memcpy(exact, data, size);
            exact[at] ^= (uint8_t)flip;
            if (at < STK_MANIFEST_HEADER_BYTES) assert_true(stk_manifest_check(exact, size, &header, NULL) < 0);
            if (at >= 24 && at < STK_MANIFEST_HEADER_BYTES) /* as one who means it */
                stk_manifest_put64(exact + 16, stk_manifest_header_id(exact));
            use(exact, size);
        }
    free(exact);
    free(data);
}

static void test_files_that_are_no_manifest_are_named(void **state)
{
    (void)state;
    stoker_manifest *manifest = NULL;
    stoker_error err;
    fixture_write(inside("text"), "hello, world", 12);
    assert_int_equal(stoker_manifest_open(inside("text"), &manifest, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "no manifest: 12 bytes"));
    assert_non_null(strstr(err.context, "text"));
    fixture_write(inside("text"), "", 0);
    assert_int_equal(stoker_manifest_open(inside("text"), &manifest, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(stoker_manifest_open(inside("absent"), &manifest, &err), STOKER_ERR_NOT_FOUND);
    stoker_manifest_close(make());
    size_t size = 0;
    uint8_t *data = fixture_read(inside("m"), &size);
    data[4] = 2;
    fixture_write(inside("newer"), data, size);
    assert_int_equal(stoker_manifest_open(inside("newer"), &manifest, &err), STOKER_ERR_UNSUPPORTED);
    assert_string_equal(err.message, "manifest: version 2, expected 1");
    free(data);
    stoker_manifest *whole = fixture_open("m");
    assert_int_equal(stk_manifest_open_id(inside("m"), whole->header.id ^ 1, &manifest, &err), STOKER_ERR_MISMATCH);
    assert_null(manifest);
    stoker_manifest_close(whole);
}

static void test_rule_A8_a_changed_file_is_a_mismatch(void **state)
{
    (void)state;
    stoker_manifest *manifest = make();
    struct stk_file file;
    stoker_error err;
    assert_int_equal(stk_manifest_open_entry(manifest, 0, NULL, &file, &err), STOKER_OK);
    stk_file_close(&file);
    assert_int_equal(truncate(inside("a.mp4"), 1000), 0);
    assert_int_equal(stk_manifest_open_entry(manifest, 0, NULL, &file, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "the file has 1000 bytes, its entry says"));
    assert_int_equal(unlink(inside("a.mp4")), 0);
    assert_int_equal(stk_manifest_open_entry(manifest, 0, NULL, &file, &err), STOKER_ERR_NOT_FOUND);
    const struct timespec times[2] = {{1, 0}, {1, 0}};
    assert_int_equal(utimensat(AT_FDCWD, inside("v.webm"), times, 0), 0);
    assert_int_equal(stk_manifest_open_entry(manifest, 2, NULL, &file, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "the file was changed at 1000000000 ns"));
    stoker_manifest_close(manifest);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_entries_paths_and_packets, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_a_scan_from_a_manifest_is_a_scan_of_the_file, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_no_damage_is_taken, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_files_that_are_no_manifest_are_named, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_rule_A8_a_changed_file_is_a_mismatch, fixture_begin, fixture_end),
    };
    return stk_run_tests(tests);
}
