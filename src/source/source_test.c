/* SPDX-License-Identifier: Apache-2.0
 *
 * Sources of both kinds: what describe says, blobs that travel, damaged blobs, files that changed.
 */
#include "source/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "source/blob.h"
#include "source/source_internal.h"
#include "sys/shmem.h"
#include "tests/support/unit.h"

static stoker_video_spec small_form(void)
{
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = 4, spec.width = 16, spec.height = 8;
    return spec;
}

static struct stoker_source *reopen(const struct stoker_source *source)
{
    struct stoker_source *copy = NULL;
    stoker_error err;
    int payload_fd = source->payload_fd >= 0 ? dup(source->payload_fd) : -1;
    assert_int_equal(stk_source_open_blob(source->kind, dup(source->blob_fd), payload_fd, &copy, &err), STOKER_OK);
    return copy;
}

static void test_media_source_describes_without_opening(void **state)
{
    (void)state;
    const char *paths[] = {"/nowhere/a.mp4", "relative/b.mp4"};
    const stoker_path_list list = {paths, 2};
    stoker_video_spec spec = small_form();
    spec.dtype = STOKER_DTYPE_FLOAT16;
    spec.layout = STOKER_LAYOUT_CTHW;
    struct stoker_source *source = NULL;
    stoker_error err;
    assert_int_equal(stoker_source_create_video(&list, &spec, &source, &err), STOKER_OK);
    assert_int_equal(stoker_source_count(source), 2);

    stoker_descriptor d;
    assert_int_equal(stoker_source_describe(source, 1, &d, &err), STOKER_OK);
    assert_int_equal(d.id, 1);
    assert_int_equal(d.path[0], '/'); /* workers have another working directory */
    assert_non_null(strstr(d.path, "/relative/b.mp4"));
    assert_int_equal(d.bytes, 0);
    assert_int_equal(d.ndim, 4);
    const uint64_t shape[] = {3, 4, 8, 16};
    assert_memory_equal(d.shape, shape, sizeof shape);
    assert_int_equal(d.sample_bytes, 3 * 4 * 8 * 16 * 2);
    assert_int_equal(stoker_source_describe(source, 2, &d, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "sample 2 is asked for, the source has 2"));

    struct stk_batch_layout layout;
    assert_int_equal(stk_source_layout(source, 5, &layout, &err), STOKER_OK);
    assert_int_equal(layout.leaf_count, 1);
    assert_int_equal(layout.leaves[0].ndim, 5);
    assert_int_equal(layout.leaves[0].shape[0], 5);
    assert_int_equal(layout.leaves[0].shape[1], 3);
    assert_int_equal(layout.total_bytes, 5 * d.sample_bytes);
    assert_int_equal(stk_source_layout(source, 0, &layout, &err), STOKER_ERR_INVALID_ARGUMENT);

    uint8_t dst[3 * 4 * 8 * 16 * 2];
    assert_int_equal(stoker_source_materialise(source, 0, dst, &err), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "/nowhere/a.mp4"));
    stoker_source_close(source);
    stoker_source_close(NULL);
}

static void test_media_blob_travels_and_is_deterministic(void **state)
{
    (void)state;
    const char *paths[] = {"/a", "/b/c"};
    const stoker_path_list list = {paths, 2};
    stoker_video_spec spec = small_form();
    struct stoker_source *first = NULL, *second = NULL;
    stoker_error err;
    assert_int_equal(stoker_source_create_video(&list, &spec, &first, &err), STOKER_OK);
    assert_int_equal(stoker_source_create_video(&list, &spec, &second, &err), STOKER_OK);
    assert_memory_equal(first->digest, second->digest, 32);
    stoker_source_close(second);
    spec.frames = 5;
    assert_int_equal(stoker_source_create_video(&list, &spec, &second, &err), STOKER_OK);
    assert_memory_not_equal(first->digest, second->digest, 32);
    stoker_source_close(second);

    struct stoker_source *copy = reopen(first);
    stoker_descriptor d;
    assert_int_equal(stoker_source_describe(copy, 1, &d, &err), STOKER_OK);
    assert_string_equal(d.path, "/b/c");
    assert_memory_equal(first->digest, copy->digest, 32);
    stoker_source_close(first);
    stoker_source_close(copy);
}

static void test_media_source_refuses_bad_forms_and_paths(void **state)
{
    (void)state;
    char *longest = malloc(5001);
    assert_non_null(longest);
    memset(longest, 'x', 5000);
    longest[5000] = 0;
    const char *paths[] = {longest};
    const stoker_path_list list = {paths, 1};
    stoker_video_spec spec = small_form();
    struct stoker_source *source = NULL;
    stoker_error err;
    assert_int_equal(stoker_source_create_video(&list, &spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "xxx"));
    paths[0] = "";
    assert_int_equal(stoker_source_create_video(&list, &spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
    paths[0] = "/a";
    spec.mean[0] = 0.5f; /* with uint8 */
    assert_int_equal(stoker_source_create_video(&list, &spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_null(source);
    free(longest);
}

/* Rule A8: a descriptor is a promise. */
static void test_a8_changed_file_is_a_mismatch(void **state)
{
    (void)state;
    char path[] = "/tmp/stoker-source-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "0123456789", 10), 10);
    const char *paths[] = {path};
    const stoker_path_list list = {paths, 1};
    stoker_video_spec spec = small_form();
    struct stoker_source *source = NULL;
    stoker_error err;
    uint8_t dst[4 * 3 * 8 * 16];
    assert_int_equal(stoker_source_create_video(&list, &spec, &source, &err), STOKER_OK);
    assert_int_equal(stoker_source_materialise(source, 0, dst, &err), STOKER_ERR_CORRUPT);
    assert_string_equal(err.context, path);

    assert_int_equal(write(fd, "x", 1), 1);
    assert_int_equal(stoker_source_materialise(source, 0, dst, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "11"));
    assert_non_null(strstr(err.message, "10"));

    assert_int_equal(ftruncate(fd, 10), 0);
    const struct timespec times[2] = {{1000, 5}, {1000, 5}};
    assert_int_equal(futimens(fd, times), 0);
    assert_int_equal(stoker_source_materialise(source, 0, dst, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "1000000000005"));
    stoker_source_close(source);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
}

static void test_process_source_travels(void **state)
{
    (void)state;
    const char *argv[] = {"/usr/bin/python3", "-m", "x", "", NULL}, *envp[] = {"A=1", NULL};
    stoker_process_spec spec = {argv, envp, "/tmp", "payload", 7, 42};
    struct stoker_source *source = NULL;
    stoker_error err;
    assert_int_equal(stoker_source_create_process(&spec, &source, &err), STOKER_OK);
    struct stoker_source *copy = reopen(source);
    struct stk_process_source view;
    assert_int_equal(stk_source_process(copy, &view, &err), STOKER_OK);
    assert_string_equal(view.argv[2], "x");
    assert_string_equal(view.argv[3], "");
    assert_null(view.argv[4]);
    assert_string_equal(view.envp[0], "A=1");
    assert_null(view.envp[1]);
    assert_string_equal(view.cwd, "/tmp");
    const void *payload = NULL;
    size_t size = 0;
    assert_int_equal(stk_shmem_blob_map(view.payload_fd, &payload, &size, &err), STOKER_OK);
    assert_int_equal(size, 7);
    assert_memory_equal(payload, "payload", 7);
    stk_shmem_blob_unmap(payload, size);
    assert_int_equal(stoker_source_count(copy), 42);
    stoker_descriptor d;
    uint8_t byte;
    assert_int_equal(stoker_source_describe(copy, 0, &d, &err), STOKER_ERR_UNSUPPORTED);
    assert_int_equal(stoker_source_materialise(copy, 0, &byte, &err), STOKER_ERR_UNSUPPORTED);
    stoker_source_close(copy);
    stoker_source_close(source);

    spec.argv = NULL;
    assert_int_equal(stoker_source_create_process(&spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
    const char *nothing[] = {NULL};
    spec.argv = nothing;
    assert_int_equal(stoker_source_create_process(&spec, &source, &err), STOKER_ERR_INVALID_ARGUMENT);
}

typedef stoker_status (*check_fn)(const uint8_t *blob, size_t size, stoker_error *err);

/* Every cut is refused; every single damaged byte is refused or gives a blob that is valid too. Run under ASan. */
static void damage(const struct stoker_source *source, check_fn check)
{
    const void *data = NULL;
    size_t size = 0;
    stoker_error err;
    assert_int_equal(stk_shmem_blob_map(source->blob_fd, &data, &size, &err), STOKER_OK);
    assert_int_equal(check(data, size, &err), STOKER_OK);
    for (size_t cut = 0; cut < size; cut++) {
        uint8_t *copy = malloc(cut ? cut : 1);
        assert_non_null(copy);
        memcpy(copy, data, cut);
        assert_true(check(copy, cut, &err) < 0);
        if (cut >= STK_BLOB_HEADER_BYTES) {
            stk_blob_put64(copy + 8, cut);
            assert_true(check(copy, cut, &err) < 0);
        }
        free(copy);
    }
    for (size_t at = 0; at < size; at++)
        for (unsigned value = 0; value < 256; value += 51) {
            uint8_t *copy = malloc(size);
            assert_non_null(copy);
            memcpy(copy, data, size);
            copy[at] = (uint8_t)value;
            (void)check(copy, size, &err);
            free(copy);
        }
    stk_shmem_blob_unmap(data, size);
}

static void test_damaged_blobs_are_refused(void **state)
{
    (void)state;
    const char *paths[] = {"/a", "/b/c", "/d"};
    const stoker_path_list list = {paths, 3};
    stoker_video_spec form = small_form();
    struct stoker_source *source = NULL;
    stoker_error err;
    assert_int_equal(stoker_source_create_video(&list, &form, &source, &err), STOKER_OK);
    damage(source, stk_media_source_check);
    stoker_source_close(source);

    const char *argv[] = {"a", "b", NULL}, *envp[] = {"c=d", NULL};
    const stoker_process_spec spec = {argv, envp, NULL, "p", 1, 0};
    assert_int_equal(stoker_source_create_process(&spec, &source, &err), STOKER_OK);
    damage(source, stk_process_source_check);
    stoker_source_close(source);

    int fd = -1;
    assert_int_equal(stk_shmem_blob_create("no blob at all, but long enough", 31, &fd, &err), STOKER_OK);
    assert_int_equal(stk_source_open_blob(STK_SOURCE_MEDIA, fd, -1, &source, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(stk_shmem_blob_create("no blob at all, but long enough", 31, &fd, &err), STOKER_OK);
    assert_int_equal(stk_source_open_blob((enum stk_source_kind)99, fd, -1, &source, &err), STOKER_ERR_UNSUPPORTED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_media_source_describes_without_opening),
        cmocka_unit_test(test_media_blob_travels_and_is_deterministic),
        cmocka_unit_test(test_media_source_refuses_bad_forms_and_paths),
        cmocka_unit_test(test_a8_changed_file_is_a_mismatch),
        cmocka_unit_test(test_process_source_travels),
        cmocka_unit_test(test_damaged_blobs_are_refused),
    };
    return stk_run_tests(tests);
}
