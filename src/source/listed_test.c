/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources from manifests: the samples of the files themselves, members of shards in place, changed files, manifests
 * that are gone, and blobs that are damaged.
 */
#include "source/listed.h"

#include "media/manifest_fixture.h"
#include "source/source_fixture.h"
#include "store/tar_fixture.h"

enum { SAMPLE_BYTES = 4 * 3 * 16 * 24 };

static struct archive archive;
static const char *const names[] = {"rot90.mp4", "bad.mp4", "s.tar"};

static void fill(void)
{
    size_t size = 0;
    uint8_t *data = fixture_read(clip_path("vfr.mp4"), &size);
    fixture_clip("rot90.mp4", "rot90.mp4");
    fixture_write(inside("bad.mp4"), "nothing", 7);
    /* Larger than the archive of the fixture: written by hand. */
    FILE *out = fopen(inside("s.tar"), "wb");
    assert_non_null(out);
    archive.size = 0;
    archive_sum(archive_header(&archive, "x/v.mp4", '0', size));
    assert_int_equal(fwrite(archive.data, 1, archive.size, out), archive.size);
    assert_int_equal(fwrite(data, 1, size, out), size);
    static const uint8_t zeros[1536];
    assert_int_equal(fwrite(zeros, 1, 512 - size % 512 + 1024, out), 512 - size % 512 + 1024);
    assert_int_equal(fclose(out), 0);
    free(data);
    stoker_manifest_build_options options = STOKER_MANIFEST_BUILD_OPTIONS_INIT;
    options.exact = 1;
    (void)fixture_build("m", names, 3, &options);
}

static struct stoker_source *create(const char *path)
{
    const stoker_path_list list = {.paths = &path, .count = 1};
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    struct stoker_source *source = NULL;
    stoker_error err;
    spec.frames = 4, spec.width = 16, spec.height = 24;
    if (stoker_source_create_video(&list, &spec, &source, &err) != STOKER_OK) fail_msg("%s", err.message);
    return source;
}

static void test_a_manifest_stands_for_its_files(void **state)
{
    (void)state;
    uint8_t expected[SAMPLE_BYTES], got[SAMPLE_BYTES];
    stoker_error err;
    fill();
    struct stoker_source *source = create(inside("m")), *worker = reopen(source);
    assert_int_equal(stoker_source_count(source), 2); /* the bad one is left out */
    stoker_descriptor d;
    assert_int_equal(stoker_source_describe(worker, 1, &d, &err), STOKER_OK);
    assert_non_null(strstr(d.path, "/s.tar::x/v.mp4"));
    const char *clips[] = {"rot90.mp4", "vfr.mp4"};
    for (uint64_t i = 0; i < 2; i++) {
        struct stoker_source *plain = create(clip_path(clips[i]));
        assert_int_equal(stoker_source_materialise(plain, 0, expected, &err), STOKER_OK);
        assert_int_equal(stoker_source_materialise(source, i, got, &err), STOKER_OK);
        assert_memory_equal(got, expected, sizeof got);
        memset(got, 0, sizeof got);
        assert_int_equal(stoker_source_materialise(worker, i, got, &err), STOKER_OK);
        assert_memory_equal(got, expected, sizeof got);
        stoker_source_close(plain);
    }
    /* Gone, or another one in its place: the samples stay. */
    assert_int_equal(unlink(inside("m")), 0);
    struct stoker_source *late = reopen(source);
    assert_int_equal(stoker_source_materialise(late, 1, got, &err), STOKER_OK);
    assert_memory_equal(got, expected, sizeof got);
    stoker_source_close(late);
    (void)fixture_build("m", names, 1, NULL);
    late = reopen(source);
    assert_int_equal(stoker_source_materialise(late, 1, got, &err), STOKER_OK);
    assert_memory_equal(got, expected, sizeof got);
    stoker_source_close(late);
    stoker_source_close(worker);
    stoker_source_close(source);
}

static void test_rule_A8_changed_files_and_shards_are_a_mismatch(void **state)
{
    (void)state;
    uint8_t got[SAMPLE_BYTES];
    stoker_error err;
    fill();
    struct stoker_source *source = create(inside("m"));
    assert_int_equal(truncate(inside("rot90.mp4"), 30000), 0);
    assert_int_equal(stoker_source_materialise(source, 0, got, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "30000 bytes, it had 30055"));
    const struct timespec times[2] = {{5, 0}, {5, 0}};
    assert_int_equal(utimensat(AT_FDCWD, inside("s.tar"), times, 0), 0);
    assert_int_equal(stoker_source_materialise(source, 1, got, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "the shard was changed at 5000000000 ns"));
    assert_non_null(strstr(err.context, "s.tar::x/v.mp4"));
    stoker_source_close(source);
}

/* Copied with its time, as archives often are: what now lies at the member's place is another one. */
static void test_rule_A8_a_shard_of_the_same_time_is_a_mismatch(void **state)
{
    (void)state;
    uint8_t got[SAMPLE_BYTES], name = 'w';
    stoker_error err;
    struct stat facts;
    fill();
    struct stoker_source *source = create(inside("m"));
    assert_int_equal(stoker_source_materialise(source, 1, got, &err), STOKER_OK);
    assert_int_equal(stat(inside("s.tar"), &facts), 0);
    int fd = open(inside("s.tar"), O_RDWR);
    uint8_t header[512];
    assert_int_equal(pread(fd, header, sizeof header, 0), sizeof header);
    header[2] = name;
    archive_sum(header);
    assert_int_equal(pwrite(fd, header, sizeof header, 0), sizeof header);
    assert_int_equal(close(fd), 0);
    const struct timespec times[2] = {facts.st_atim, facts.st_mtim};
    assert_int_equal(utimensat(AT_FDCWD, inside("s.tar"), times, 0), 0);
    assert_int_equal(stoker_source_materialise(source, 1, got, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "'x/v.mp4'"));
    stoker_source_close(source);
}

static void test_counts_of_a_decode_are_known_before_the_next(void **state)
{
    (void)state;
    static const char *const clip[] = {"corrupt_bytes.mp4"};
    uint64_t known = 0;
    fixture_clip("corrupt_bytes.mp4", "corrupt_bytes.mp4");
    FILE *damaged = fopen(inside("corrupt_bytes.mp4"), "r+b");
    static const uint8_t zeros[20000];
    assert_non_null(damaged);
    assert_int_equal(fseek(damaged, 60000, SEEK_SET), 0);
    assert_int_equal(fwrite(zeros, 1, sizeof zeros, damaged), sizeof zeros);
    assert_int_equal(fclose(damaged), 0);
    stoker_manifest_build_options options = STOKER_MANIFEST_BUILD_OPTIONS_INIT;
    options.exact = 1;
    (void)fixture_build("m", clip, 1, &options);
    stoker_manifest *manifest = fixture_open("m");
    stoker_manifest_entry entry = fixture_entry(manifest, 0);
    assert_true(entry.frames_exact > 0 && (uint64_t)entry.frames_exact < entry.frames);
    const uint8_t places[16] = {0};
    const struct stk_files files = {.count = 1, .places = places};
    struct stk_scan scan;
    assert_true(stk_listed_scan(&files, manifest, 0, &scan, &known));
    assert_int_equal(known, entry.frames_exact);
    stk_scan_fini(&scan);
    known = 7; /* what this run found stays */
    assert_true(stk_listed_scan(&files, manifest, 0, &scan, &known));
    assert_int_equal(known, 7);
    stk_scan_fini(&scan);
    assert_false(stk_listed_scan(&files, NULL, 0, &scan, &known));
    stoker_manifest_close(manifest);

    uint8_t expected[SAMPLE_BYTES], got[SAMPLE_BYTES];
    struct stoker_source *plain = create(inside("corrupt_bytes.mp4")), *listed = create(inside("m"));
    assert_int_equal(stoker_source_materialise(plain, 0, expected, NULL), STOKER_OK);
    assert_int_equal(stoker_source_materialise(listed, 0, got, NULL), STOKER_OK);
    assert_memory_equal(got, expected, sizeof got);
    stoker_source_close(plain);
    stoker_source_close(listed);
}

static void test_what_workers_cannot_read_is_refused(void **state)
{
    (void)state;
    char path[256];
    const char *text = path;
    const stoker_path_list list = {.paths = &text, .count = 1};
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    struct stoker_source *source = NULL;
    stoker_error err;
    spec.frames = 4, spec.width = 16, spec.height = 24;
    fill();
    (void)snprintf(path, sizeof path, "%s", inside("m"));
    assert_int_equal(truncate(path, 1000), 0);
    assert_int_equal(stoker_source_create_video(&list, &spec, &source, &err), STOKER_ERR_CORRUPT);
    assert_true(stk_listed_is_manifest(path));
    assert_false(stk_listed_is_manifest(inside("rot90.mp4")));
    assert_false(stk_listed_is_manifest(inside("absent")));
}

/* As damage() of the fixture, but for the one cut that leaves a whole list of paths. */
static void test_listed_blobs_are_checked(void **state)
{
    (void)state;
    const void *data = NULL;
    size_t size = 0, accepted = 0;
    stoker_error err;
    fill();
    struct stoker_source *source = create(inside("m"));
    assert_int_equal(stk_shmem_blob_map(source->blob_fd, &data, &size, &err), STOKER_OK);
    assert_int_equal(stk_media_source_check(data, size, &err), STOKER_OK);
    for (size_t cut = STK_BLOB_HEADER_BYTES; cut < size; cut++) {
        uint8_t *copy = malloc(cut);
        assert_non_null(copy);
        memcpy(copy, data, cut);
        stk_blob_put64(copy + 8, cut);
        accepted += stk_media_source_check(copy, cut, &err) == STOKER_OK;
        free(copy);
    }
    assert_int_equal(accepted, 1);
    uint8_t *copy = malloc(size);
    assert_non_null(copy);
    for (size_t at = 0; at < size; at++)
        for (unsigned value = 0; value < 256; value += 51) {
            memcpy(copy, data, size);
            copy[at] = (uint8_t)value;
            (void)stk_media_source_check(copy, size, &err);
        }
    free(copy);
    stk_shmem_blob_unmap(data, size);
    stoker_source_close(source);
}

static struct stoker_source *create_parts(const stoker_path_list *list, stoker_status expected, stoker_error *err)
{
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    struct stoker_source *source = NULL;
    spec.frames = 4, spec.width = 16, spec.height = 24;
    assert_int_equal(stoker_source_create_video(list, &spec, &source, err), expected);
    return source;
}

static void test_members_need_no_manifest(void **state)
{
    (void)state;
    uint8_t expected[SAMPLE_BYTES], got[SAMPLE_BYTES];
    stoker_error err;
    stoker_descriptor d;
    fill();
    struct stoker_source *listed = create(inside("m"));
    assert_int_equal(stoker_source_describe(listed, 1, &d, &err), STOKER_OK);
    char member[256];
    (void)snprintf(member, sizeof member, "%s", d.path);
    const char *const paths[] = {inside("rot90.mp4"), member};
    stoker_path_part parts[2] = {{0}, {.offset = 512, .bytes = d.bytes, .mtime_ns = d.mtime_ns}};
    parts[1].shard_bytes = (uint32_t)(strstr(member, "::") - member);
    const stoker_path_list list = {.paths = paths, .count = 2, .parts = parts};
    struct stoker_source *source = create_parts(&list, STOKER_OK, &err), *worker = reopen(source);
    for (uint64_t i = 0; i < 2; i++) {
        assert_int_equal(stoker_source_materialise(listed, i, expected, &err), STOKER_OK);
        assert_int_equal(stoker_source_materialise(worker, i, got, &err), STOKER_OK);
        assert_memory_equal(got, expected, sizeof got);
    }
    stoker_source_close(worker);
    stoker_source_close(source);
    stoker_source_close(listed);
    /* A time that is not the shard's: it is another one by now. */
    parts[1].mtime_ns++;
    source = create_parts(&list, STOKER_OK, &err);
    assert_int_equal(stoker_source_materialise(source, 1, got, &err), STOKER_ERR_MISMATCH);
    stoker_source_close(source);
    parts[1].shard_bytes--;
    (void)create_parts(&list, STOKER_ERR_INVALID_ARGUMENT, &err);
    assert_non_null(strstr(err.message, "path 1 has no '::'"));
    parts[0].bytes = 1;
    (void)create_parts(&list, STOKER_ERR_INVALID_ARGUMENT, &err);
    assert_non_null(strstr(err.message, "part 0 is of no shard"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_manifest_stands_for_its_files, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_rule_A8_changed_files_and_shards_are_a_mismatch, fixture_begin,
                                        fixture_end),
        cmocka_unit_test_setup_teardown(test_rule_A8_a_shard_of_the_same_time_is_a_mismatch, fixture_begin,
                                        fixture_end),
        cmocka_unit_test_setup_teardown(test_counts_of_a_decode_are_known_before_the_next, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_what_workers_cannot_read_is_refused, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_members_need_no_manifest, fixture_begin, fixture_end),
        cmocka_unit_test_setup_teardown(test_listed_blobs_are_checked, fixture_begin, fixture_end),
    };
    return stk_run_tests(tests);
}
