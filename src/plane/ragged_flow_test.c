/* SPDX-License-Identifier: Apache-2.0
 *
 * Batches whose samples differ in size, through a real DataServer: each sample at its rows, and bad ones replaced by
 * policy, in a layout of its own.
 */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/vision.h>

#include "base/assert.h"
#include "tests/support/plane_session.h"

static stoker_source *patch_source(void)
{
    static const char *const names[CLIP_COUNT] = {"h264_bframes_g12.mp4", "rot90.mp4", "audio_only.m4a", "missing.mp4",
                                                  "vp9_odd227x171.webm"};
    static char paths[CLIP_COUNT][4096];
    const char *list[CLIP_COUNT];
    for (int i = 0; i < CLIP_COUNT; i++) {
        (void)snprintf(paths[i], sizeof paths[i], "%s/%s", GOLDEN_MEDIA, names[i]);
        list[i] = paths[i];
    }
    /* The bad ones are described as if they were good: only their decode tells. */
    stoker_clip_facts facts[CLIP_COUNT];
    for (int i = 0; i < CLIP_COUNT; i++) {
        stoker_media_info info = {.width = 160 * (uint32_t)i, .height = 160, .frames = 30, .duration_s = 1};
        bool good = i != CLIP_AUDIO && i != CLIP_MISSING;
        if (good) assert_int_equal(stoker_media_probe(list[i], 0, &info, NULL), STOKER_OK);
        facts[i] = (stoker_clip_facts){info.width, info.height, info.frames, info.duration_s};
    }
    const stoker_clip_list clips = {list, facts, CLIP_COUNT};
    stoker_patch_spec spec = STOKER_PATCH_SPEC_INIT;
    spec.rule = (stoker_patch_rule){14, 2, 2, STOKER_FIT_FRAME, 0, 3136, 40000, 0, 0};
    spec.frames = (stoker_frame_rule){STOKER_FRAMES_UNIFORM, 0, 2.0, 2, 8, 2};
    spec.dtype = STOKER_DTYPE_UINT8;
    stoker_source *source = NULL;
    stoker_error err = {0};
    if (stoker_source_create_patches(&clips, &spec, &source, &err) != STOKER_OK) fail_msg("source: %s", err.message);
    return source;
}

static void expect_patches(const stoker_source *source, const struct plane_batch *batch, const uint64_t *ids,
                           size_t count)
{
    const struct stk_message_leaf *pixels = &batch->ready.leaves[0], *grids = &batch->ready.leaves[1];
    uint64_t row = 0;
    assert_int_equal(batch->ready.leaf_count, 2);
    assert_int_equal(grids->shape[0], count);
    for (size_t i = 0; i < count; i++) {
        stoker_descriptor d;
        stoker_error err = {0};
        assert_int_equal(stoker_source_describe(source, ids[i], &d, NULL), STOKER_OK);
        uint8_t *alone = malloc((size_t)d.sample_bytes);
        if (stoker_source_materialise(source, ids[i], alone, &err) != STOKER_OK) fail_msg("%s", err.message);
        size_t size = (size_t)(d.shape[0] * d.shape[1]);
        assert_memory_equal(batch->data + pixels->offset + row * d.shape[1], alone, size);
        assert_memory_equal(batch->data + grids->offset + 24 * i, alone + stk_align_up(size, 256), 24);
        row += d.shape[0];
        free(alone);
    }
    assert_int_equal(pixels->shape[0], row);
}

static void test_each_sample_lies_at_its_rows(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = patch_source();
    session_begin(&server, &rank, source, &session_native);
    static const uint64_t ids[3][4] = {{CLIP_H264, CLIP_ROT90, CLIP_VFR, CLIP_H264},
                                       {CLIP_VFR, CLIP_VFR, CLIP_ROT90, CLIP_H264},
                                       {CLIP_ROT90, CLIP_H264, CLIP_VFR, CLIP_ROT90}};
    for (uint64_t i = 0; i < 3; i++) {
        plane_request_ids(&rank, 1, 1, i, ids[i], 4 - (size_t)i);
        plane_take(&rank, i, &batch);
        assert_int_equal(batch.ready.samples_skipped, 0);
        expect_patches(source, &batch, ids[i], 4 - (size_t)i);
        plane_release(&rank, &batch);
    }
    plane_wait_number(&rank, "used_bytes", 0);
    stoker_source_close(source);
    session_end(&server, &rank);
}

static void test_skip_lays_the_batch_out_again(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = patch_source();
    struct plane_loader options = session_native;
    options.on_error = STOKER_ON_ERROR_SKIP;
    session_begin(&server, &rank, source, &options);
    const uint64_t ids[] = {CLIP_MISSING, CLIP_ROT90, CLIP_AUDIO, CLIP_VFR};
    const uint64_t shown[] = {CLIP_ROT90, CLIP_ROT90, CLIP_ROT90, CLIP_VFR};
    plane_request_ids(&rank, 1, 1, 0, ids, 4);
    plane_take(&rank, 0, &batch);
    assert_int_equal(batch.ready.samples_skipped, 2);
    expect_patches(source, &batch, shown, 4);
    assert_int_equal(rank.notices, 2);
    assert_non_null(strstr(rank.last_notice, "sample_skipped: sample "));
    plane_release(&rank, &batch);
    /* With nothing good the batch fails, and the loader goes on. */
    const uint64_t none[] = {CLIP_MISSING, CLIP_AUDIO}, good[] = {CLIP_H264};
    char text[1024];
    plane_request_ids(&rank, 1, 1, 1, none, 2);
    stoker_status status = plane_take_failure(&rank, 1, text, sizeof text);
    assert_true(status == STOKER_ERR_NOT_FOUND);
    plane_request_ids(&rank, 1, 1, 2, good, 1);
    plane_take(&rank, 2, &batch);
    expect_patches(source, &batch, good, 1);
    plane_release(&rank, &batch);
    plane_wait_number(&rank, "used_bytes", 0);
    stoker_source_close(source);
    session_end(&server, &rank);
}

static void test_replace_takes_the_next_samples(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = patch_source();
    struct plane_loader options = session_native;
    options.on_error = STOKER_ON_ERROR_REPLACE;
    options.retries = 1;
    session_begin(&server, &rank, source, &options);
    const uint64_t ids[] = {CLIP_AUDIO, CLIP_H264}, shown[] = {CLIP_VFR, CLIP_H264};
    plane_request_ids(&rank, 1, 1, 0, ids, 2);
    plane_take(&rank, 0, &batch);
    assert_int_equal(batch.ready.samples_skipped, 1);
    expect_patches(source, &batch, shown, 2);
    plane_release(&rank, &batch);
    plane_wait_number(&rank, "used_bytes", 0);
    stoker_source_close(source);
    session_end(&server, &rank);
}

static void test_raise_fails_the_batch_and_names_the_sample(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    char text[1024];
    stoker_source *source = patch_source();
    session_begin(&server, &rank, source, &session_native);
    const uint64_t ids[] = {CLIP_H264, CLIP_MISSING, CLIP_VFR};
    plane_request_ids(&rank, 1, 1, 0, ids, 3);
    assert_int_equal(plane_take_failure(&rank, 0, text, sizeof text), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(text, "sample 3 ('"));
    plane_wait_number(&rank, "used_bytes", 0);
    stoker_source_close(source);
    session_end(&server, &rank);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_sample_lies_at_its_rows),
        cmocka_unit_test(test_skip_lays_the_batch_out_again),
        cmocka_unit_test(test_replace_takes_the_next_samples),
        cmocka_unit_test(test_raise_fails_the_batch_and_names_the_sample),
    };
    return stk_run_tests(tests);
}
