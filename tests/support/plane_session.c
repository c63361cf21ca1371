/* SPDX-License-Identifier: Apache-2.0
 *
 * See plane_session.h.
 */
#include "tests/support/plane_session.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/unit.h"

const struct plane_loader session_native = {.loader_id = 1, .num_workers = 2, .batch_samples_max = 8};
const struct plane_loader session_python = {.loader_id = 1, .num_workers = 2};

stoker_source *session_media_source(void)
{
    static const char *const names[] = {"h264_bframes_g12.mp4", "rot90.mp4", "audio_only.m4a", "missing.mp4",
                                        "vfr.mp4"};
    static char paths[CLIP_COUNT][4096];
    const char *list[CLIP_COUNT];
    for (int i = 0; i < CLIP_COUNT; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/%s", GOLDEN_MEDIA, names[i]);
        list[i] = paths[i];
    }
    stoker_path_list path_list = {.paths = list, .count = CLIP_COUNT};
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = CLIP_FRAMES;
    spec.width = spec.height = CLIP_SIDE;
    stoker_source *source = NULL;
    stoker_error err = {0};
    if (stoker_source_create_video(&path_list, &spec, &source, &err) != STOKER_OK) fail_msg("source: %s", err.message);
    return source;
}

void session_begin(struct plane_server *server, struct plane_rank *rank, const stoker_source *source,
                   const struct plane_loader *loader)
{
    plane_start(server);
    plane_join(server, rank, 0, 1);
    plane_open(rank, source, loader);
    plane_expect(rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(rank, loader->loader_id, 1);
}

void session_end(struct plane_server *server, struct plane_rank *rank)
{
    plane_leave(rank);
    assert_int_equal(plane_wait(server), 0); /* the only rank has left: it ends by itself (rule B7) */
    assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
    assert_int_equal(errno, ECHILD);
}

void session_expect_samples(const stoker_source *source, const struct plane_batch *batch, const uint64_t *ids,
                            size_t count)
{
    static uint8_t expected[CLIP_BYTES];
    assert_int_equal(batch->ready.leaf_count, 1);
    assert_int_equal(batch->ready.leaves[0].shape[0], count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(stoker_source_materialise(source, ids[i], expected, NULL), STOKER_OK);
        assert_memory_equal(batch->data + batch->ready.leaves[0].offset + i * CLIP_BYTES, expected, CLIP_BYTES);
    }
}

void session_expect_filled(const struct plane_batch *batch, size_t size, uint8_t value)
{
    assert_int_equal(batch->ready.region.size, size + 4);
    for (size_t i = 0; i < size; i++)
        if (batch->data[i] != value) fail_msg("byte %zu of %zu is %u, not %u", i, size, batch->data[i], value);
    assert_int_equal(batch->ready.skeleton_size, 4);
    assert_memory_equal(batch->data + batch->ready.skeleton_offset, "skel", 4);
}

void session_warm_up(struct plane_rank *rank, uint64_t sequence, size_t size)
{
    struct plane_batch batch;
    char request[64];
    (void)snprintf(request, sizeof request, "fill %zu 1", size);
    plane_request(rank, 1, 1, sequence, request);
    plane_take(rank, sequence, &batch);
    session_expect_filled(&batch, size, 1);
    plane_release(rank, &batch);
}

void session_expect_end(int pidfd)
{
    struct pollfd ended = {pidfd, POLLIN, 0};
    assert_int_equal(poll(&ended, 1, 20000), 1);
    (void)close(pidfd);
}
