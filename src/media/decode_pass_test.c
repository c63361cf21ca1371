/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes: a plan is run as it says, and pictures are turned, squared and composited as the options say.
 */
#include "media/decode_internal.h"

#include <stdlib.h>
#include <string.h>

#include "media/media_fixture.h"

struct seen {
    uint64_t at[64];
    size_t count;
    uint32_t width, height;
};

static stoker_status note(struct stk_pass *pass, size_t index, const struct stk_av_frame *frame, stoker_error *err)
{
    struct seen *seen = pass->user;
    (void)err;
    assert_true(seen->count < 64);
    seen->at[seen->count++] = pass->plan.kept[index].ordinal;
    seen->width = frame->width;
    seen->height = frame->height;
    return STOKER_OK;
}

static void test_by_time_sends_the_segments_of_its_plan_only(void **state)
{
    (void)state;
    struct stk_file file = open_clip("h264_bframes_g12.mp4");
    struct stk_decoder *decoder = NULL;
    struct seen seen = {.count = 0};
    const uint64_t wanted[] = {1, 30, 59};
    struct stk_pass pass = {.deliver = note, .user = &seen, .ordinals = wanted, .count = 3};
    bool complete = false;
    assert_int_equal(stk_decoder_create(&decoder, NULL), STOKER_OK);
    stk_decoder_set_choice(decoder, STK_PLAN_JUMP_ALWAYS);
    assert_int_equal(stk_pass_begin(&pass, decoder, &file, NULL), STOKER_OK);
    pass.delivered = calloc(3, 1);
    assert_true(stk_pass_may_jump(&pass));
    assert_int_equal(stk_pass_plan_by_time(&pass, NULL), STOKER_OK);
    assert_int_equal(pass.plan.segment_count, 3);
    assert_int_equal(stk_pass_run_by_time(&pass, &complete, NULL), STOKER_OK);
    assert_true(complete);
    assert_int_equal(seen.count, 3);
    for (int i = 0; i < 3; i++) assert_int_equal(seen.at[i], wanted[i]);
    uint64_t planned = 0;
    for (uint32_t i = 0; i < 3; i++) planned += pass.plan.segments[i].end - pass.plan.segments[i].first;
    assert_int_equal(pass.result.packets_decoded, planned);
    assert_in_range(planned, 3, 30);
    stk_pass_end(&pass);
    stk_decoder_destroy(decoder);
    stk_file_close(&file);
}

static void test_in_order_ends_at_the_last_kept_frame(void **state)
{
    (void)state;
    struct stk_file file = open_clip("h264_bframes_g12.mp4");
    struct stk_decoder *decoder = NULL;
    struct seen seen = {.count = 0};
    const uint64_t wanted[] = {0, 20};
    struct stk_pass pass = {.deliver = note, .user = &seen, .ordinals = wanted, .count = 2};
    uint64_t counted = 0;
    assert_int_equal(stk_decoder_create(&decoder, NULL), STOKER_OK);
    assert_int_equal(stk_pass_begin(&pass, decoder, &file, NULL), STOKER_OK);
    assert_int_equal(stk_pass_plan_in_order(&pass, pass.table->shown_count, NULL), STOKER_OK);
    assert_int_equal(stk_pass_run_in_order(&pass, true, &counted, NULL), STOKER_OK);
    assert_int_equal(seen.count, 2);
    assert_in_range(counted, 21, 30);
    assert_int_equal(stk_pass_run_in_order(&pass, false, &counted, NULL), STOKER_OK);
    assert_int_equal(counted, 60);
    stk_pass_end(&pass);
    stk_decoder_destroy(decoder);
    stk_file_close(&file);
}

/* Renders the first frame; the caller frees what it is given: R, G, B, interleaved. */
static uint8_t *first_frame(const char *name, const stoker_picture_options *picture, uint32_t width, uint32_t height,
                            stoker_resize_mode resize)
{
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    struct stk_form form;
    struct stk_decoder *decoder = NULL;
    struct stk_file file = open_clip(name);
    stoker_error err;
    spec.frames = 1, spec.width = width, spec.height = height, spec.layout = STOKER_LAYOUT_THWC;
    spec.resize = resize, spec.picture = *picture;
    assert_int_equal(stk_form_init(&form, &spec, &err), STOKER_OK);
    assert_int_equal(stk_decoder_create(&decoder, &err), STOKER_OK);
    uint8_t *out = malloc(form.sample_bytes);
    if (stk_decoder_video(decoder, &file, &form, 0, NULL, out, NULL, &err) != STOKER_OK) fail_msg("%s", err.message);
    stk_decoder_destroy(decoder);
    stk_file_close(&file);
    return out;
}

static double difference(const uint8_t *a, const uint8_t *b, size_t size)
{
    double sum = 0;
    for (size_t i = 0; i < size; i++) sum += abs((int)a[i] - (int)b[i]);
    return sum / (double)size;
}

static void test_rotation_can_be_left_alone(void **state)
{
    (void)state;
    const stoker_picture_options usual = {.apply_sar = 0}, stored = {.ignore_rotation = 1};
    uint8_t *seen = first_frame("rot90.mp4", &usual, 18, 32, STOKER_RESIZE_EXACT);
    uint8_t *raw = first_frame("rot90.mp4", &stored, 32, 18, STOKER_RESIZE_EXACT);
    /* The file says 270 degrees clockwise: what is stored at (x, y) is seen at (y, 31 - x). */
    for (int y = 0; y < 18; y++)
        for (int x = 0; x < 32; x++) assert_memory_equal(raw + (y * 32 + x) * 3, seen + ((31 - x) * 18 + y) * 3, 3);
    free(seen);
    free(raw);
}

static void test_sar_is_applied_by_the_width_where_asked(void **state)
{
    (void)state;
    /* 16:11 pixels: a square crop of the squared picture holds less of its width. */
    const stoker_picture_options usual = {.apply_sar = 0}, square = {.apply_sar = 1};
    uint8_t *stored = first_frame("sar16_11.mp4", &usual, 64, 64, STOKER_RESIZE_SHORT_SIDE_CROP);
    uint8_t *squared = first_frame("sar16_11.mp4", &square, 64, 64, STOKER_RESIZE_SHORT_SIDE_CROP);
    assert_true(difference(stored, squared, 64 * 64 * 3) > 5);
    /* The whole picture does not depend on it. */
    uint8_t *a = first_frame("sar16_11.mp4", &usual, 64, 64, STOKER_RESIZE_EXACT);
    uint8_t *b = first_frame("sar16_11.mp4", &square, 64, 64, STOKER_RESIZE_EXACT);
    assert_memory_equal(a, b, 64 * 64 * 3);
    assert_int_equal(stk_square_width(110, 16, 11), 160);
    assert_int_equal(stk_square_width(110, 0, 1), 110);
    assert_int_equal(stk_square_width(110, UINT32_MAX, 1), 110);
    assert_int_equal(stk_square_width(3, 1, 100), 3);
    free(stored);
    free(squared);
    free(a);
    free(b);
}

/* A picture whose alpha takes many values, as a stream of one frame. */
#define TRANSPARENT "../../fuzz/corpus/image/valid_png_rgba_exif8"

static void test_alpha_is_dropped_or_composited(void **state)
{
    (void)state;
    const stoker_picture_options drop = {.alpha = STOKER_ALPHA_DROP}, on_black = {.alpha = STOKER_ALPHA_COMPOSITE},
                                 on_white = {.alpha = STOKER_ALPHA_COMPOSITE, .background = {255, 255, 255, 0}},
                                 on_red = {.alpha = STOKER_ALPHA_COMPOSITE, .background = {255, 0, 0, 0}};
    enum { WIDTH = 16, HEIGHT = 12, BYTES = WIDTH * HEIGHT * 3 }; /* of the file: nothing is scaled */
    uint8_t *dropped = first_frame(TRANSPARENT, &drop, WIDTH, HEIGHT, STOKER_RESIZE_EXACT);
    uint8_t *black = first_frame(TRANSPARENT, &on_black, WIDTH, HEIGHT, STOKER_RESIZE_EXACT);
    uint8_t *white = first_frame(TRANSPARENT, &on_white, WIDTH, HEIGHT, STOKER_RESIZE_EXACT);
    uint8_t *red = first_frame(TRANSPARENT, &on_red, WIDTH, HEIGHT, STOKER_RESIZE_EXACT);
    int transparent = 0;
    for (int i = 0; i < BYTES; i++) {
        int alpha = 255 - (white[i] - black[i]); /* to one level */
        int expected = (dropped[i] * alpha + 127) / 255;
        transparent += alpha < 200;
        if (abs(black[i] - expected) > 1 || red[i] != (i % 3 == 0 ? white[i] : black[i]))
            fail_msg("byte %d: %d dropped, %d on black, %d on white, %d on red", i, dropped[i], black[i], white[i],
                     red[i]);
    }
    assert_in_range(transparent, BYTES / 10, BYTES);
    free(black);
    /* Pictures without alpha are what they were. */
    uint8_t *a = first_frame("rot90.mp4", &drop, 32, 32, STOKER_RESIZE_EXACT);
    uint8_t *b = first_frame("rot90.mp4", &on_red, 32, 32, STOKER_RESIZE_EXACT);
    assert_memory_equal(a, b, 32 * 32 * 3);
    free(dropped);
    free(white);
    free(red);
    free(a);
    free(b);
}

static void test_untagged_pictures_take_the_stated_matrix(void **state)
{
    (void)state;
    enum { SIDE = 32, BYTES = SIDE * SIDE * 3 };
    const stoker_picture_options bt601 = {.untagged = STOKER_UNTAGGED_BT601},
                                 bt709 = {.untagged = STOKER_UNTAGGED_BT709},
                                 by_size = {.untagged = STOKER_UNTAGGED_BY_SIZE};
    uint8_t *as601 = first_frame("h264_bframes_g12.mp4", &bt601, SIDE, SIDE, STOKER_RESIZE_EXACT);
    uint8_t *as709 = first_frame("h264_bframes_g12.mp4", &bt709, SIDE, SIDE, STOKER_RESIZE_EXACT);
    uint8_t *guessed = first_frame("h264_bframes_g12.mp4", &by_size, SIDE, SIDE, STOKER_RESIZE_EXACT);
    double off = difference(as601, as709, BYTES);
    assert_true(off > 2 && off < 20);
    assert_memory_equal(as601, guessed, BYTES); /* a small picture */
    uint8_t *tagged = first_frame("fullrange_bt709.mp4", &bt601, SIDE, SIDE, STOKER_RESIZE_EXACT);
    uint8_t *still = first_frame("fullrange_bt709.mp4", &bt709, SIDE, SIDE, STOKER_RESIZE_EXACT);
    assert_memory_equal(tagged, still, BYTES);
    free(as601);
    free(as709);
    free(guessed);
    free(tagged);
    free(still);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_by_time_sends_the_segments_of_its_plan_only),
        cmocka_unit_test(test_in_order_ends_at_the_last_kept_frame),
        cmocka_unit_test(test_rotation_can_be_left_alone),
        cmocka_unit_test(test_sar_is_applied_by_the_width_where_asked),
        cmocka_unit_test(test_alpha_is_dropped_or_composited),
        cmocka_unit_test(test_untagged_pictures_take_the_stated_matrix),
    };
    return stk_run_tests(tests);
}
