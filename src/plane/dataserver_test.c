/* SPDX-License-Identifier: Apache-2.0
 *
 * A real DataServer with real workers and ranks that speak message by message: handshake, native and Python lanes,
 * hostile messages.
 */
#include "tests/support/unit.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <stoker/stoker.h>

#include "tests/support/plane_server.h"

enum { FRAMES = 4, SIDE = 32 };

static stoker_source *media_source(void)
{
    static const char *const names[] = {"h264_bframes_g12.mp4", "rot90.mp4",   "corrupt_bytes.mp4",
                                        "audio_only.m4a",       "missing.mp4", "vfr.mp4"};
    static char paths[6][4096];
    const char *list[6];
    for (int i = 0; i < 6; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/%s", GOLDEN_MEDIA, names[i]);
        list[i] = paths[i];
    }
    stoker_path_list path_list = {list, 6};
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = FRAMES;
    spec.width = spec.height = SIDE;
    stoker_source *source = NULL;
    stoker_error err = {0};
    if (stoker_source_create_video(&path_list, &spec, &source, &err) != STOKER_OK) fail_msg("source: %s", err.message);
    return source;
}

static const struct plane_loader native = {.loader_id = 1, .num_workers = 2, .batch_samples_max = 8};

static void expect_samples(const stoker_source *source, const struct plane_batch *batch, const uint64_t *ids,
                           size_t count)
{
    static uint8_t expected[FRAMES * 3 * SIDE * SIDE];
    assert_int_equal(batch->ready.leaf_count, 1);
    assert_int_equal(batch->ready.leaves[0].shape[0], count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(stoker_source_materialise(source, ids[i], expected, NULL), STOKER_OK);
        assert_memory_equal(batch->data + batch->ready.leaves[0].offset + i * sizeof expected, expected,
                            sizeof expected);
    }
}

static void test_native_batches_equal_a_sequential_decode(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = media_source();
    plane_start(&server);
    plane_join(&server, &rank, 0, 1);
    plane_open(&rank, source, &native);
    plane_expect(&rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(&rank, 1, 1);
    static const uint64_t ids[3][4] = {{0, 1, 5, 0}, {5, 5, 1, 0}, {1, 0, 5, 1}};
    for (uint64_t i = 0; i < 3; i++) plane_request_ids(&rank, 1, 1, i, ids[i], 4);
    struct plane_batch batches[3];
    /* Batches may be finished in any order; the rank puts them in theirs. */
    for (int n = 0; n < 3; n++) {
        struct plane_batch batch;
        plane_expect(&rank, STK_MESSAGE_READY);
        struct stk_message_ready ready;
        assert_int_equal(stk_ready_decode(rank.in.body, &ready, NULL), STOKER_OK);
        plane_map(&rank, &ready, &batch);
        batches[ready.sequence] = batch;
    }
    for (int n = 0; n < 3; n++) {
        expect_samples(source, &batches[n], ids[n], 4);
        plane_release(&rank, &batches[n]);
    }
    plane_wait_number(&rank, "used_bytes", 0);
    stoker_source_close(source);
    plane_leave(&rank);
    assert_int_equal(plane_wait(&server), 0); /* the only rank has left: it ends by itself (rule B7) */
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_native_batches_equal_a_sequential_decode),
    };
    return stk_run_tests(tests);
}
