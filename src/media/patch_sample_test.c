/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of patches: the frames that were chosen, at the size of the plan, and nothing outside; files that give fewer
 * frames than described; images; refusals. Equality with the public processors is tests/python/test_processors.py.
 */
#include "media/patch_sample.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "media/filter.h"
#include "media/media_fixture.h"

#define CANARY 0xa5
enum { EDGE = 64 };

static stoker_patch_spec spec_of(stoker_dtype dtype)
{
    stoker_patch_spec spec = STOKER_PATCH_SPEC_INIT;
    spec.rule = (stoker_patch_rule){14, 2, 2, STOKER_FIT_FRAME, 0, 1, 100000, 0, 0};
    spec.frames.frames = 4;
    spec.dtype = dtype;
    return spec;
}

static stoker_clip_facts facts_of(const char *name)
{
    stoker_media_info info;
    stoker_error err = {0};
    if (stoker_media_probe(clip_path(name), 0, &info, &err) != STOKER_OK) fail_msg("%s: %s", name, err.message);
    return (stoker_clip_facts){info.width, info.height, info.frames, info.duration_s};
}

struct made {
    stoker_status status;
    stoker_error err;
    stoker_patch_plan plan;
    uint64_t frames;
    int64_t grid[3];
    uint8_t *bytes; /* behind a canary */
    uint8_t *block;
    size_t size;
};

static struct made make_file(const struct stk_file *file, const stoker_patch_spec *spec, const stoker_clip_facts *facts)
{
    struct made made = {0};
    struct stk_patch_form form;
    uint32_t count = 0;
    struct stk_patch_maker *maker = NULL;
    made.status = stk_patch_form_init(&form, spec, &made.err);
    if (made.status == STOKER_OK) made.status = stk_patch_form_plan(&form, facts, &count, &made.plan, &made.err);
    if (made.status < 0) return made;
    made.size = made.plan.patches * made.plan.row_values * form.values.value_bytes;
    made.block = malloc(made.size + 2 * EDGE);
    memset(made.block, CANARY, made.size + 2 * EDGE);
    made.bytes = made.block + EDGE;
    assert_int_equal(stk_patch_maker_create(&maker, NULL), STOKER_OK);
    const struct stk_patch_target target = {made.bytes, made.grid};
    made.status = stk_patch_maker_run(maker, file, &form, facts, &target, &made.frames, &made.err);
    stk_patch_maker_destroy(maker);
    for (size_t i = 0; i < EDGE; i++) {
        assert_int_equal(made.block[i], CANARY);
        assert_int_equal(made.block[EDGE + made.size + i], CANARY);
    }
    return made;
}

static struct made make_clip(const char *name, const stoker_patch_spec *spec, const stoker_clip_facts *facts)
{
    struct stk_file file = open_clip(name);
    struct made made = make_file(&file, spec, facts);
    stk_file_close(&file);
    return made;
}

/* One frame of the file as bytes of the plan's size, by the way that is not tested here. */
struct grabbed {
    uint8_t *rgb;
    uint32_t width, height;
};

static stoker_status grab(void *user, size_t position, const uint8_t *rgb, uint32_t width, uint32_t height,
                          stoker_error *err)
{
    (void)position, (void)err;
    struct grabbed *out = user;
    out->width = width, out->height = height;
    if (!out->rgb) out->rgb = calloc((size_t)width * height * 3 + STK_FILTER_SLACK, 1);
    memcpy(out->rgb, rgb, (size_t)width * height * 3);
    return STOKER_OK;
}

/* The level at a place of a uint8 sample. */
static uint8_t level_at(const struct made *made, const stoker_patch_rule *rule, uint32_t frame, uint32_t x, uint32_t y,
                        uint32_t c)
{
    const uint32_t p = rule->patch, m = rule->merge, q = rule->temporal, row = y / p, column = x / p;
    size_t place = ((size_t)(frame / q) * (made->plan.grid_h / m) + row / m) * (made->plan.grid_w / m) + column / m;
    place = (place * m + row % m) * m + column % m;
    return made->bytes[place * made->plan.row_values + (c * q + frame % q) * p * p + y % p * p + x % p];
}

static void expect_frame(const struct made *made, const stoker_patch_rule *rule, const char *name, uint32_t frame,
                         uint64_t index)
{
    struct grabbed grabbed = {0};
    struct stk_filter_room room = {0};
    struct stk_filtered scaled;
    const stoker_frame_list list = {.indices = &index, .count = 1};
    assert_int_equal(stoker_frames_read(clip_path(name), &list, grab, &grabbed, NULL), STOKER_OK);
    const struct stk_filter_spec filter = {grabbed.width,
                                           grabbed.height,
                                           grabbed.width,
                                           grabbed.height,
                                           1,
                                           STOKER_IMAGE_BICUBIC,
                                           made->plan.width,
                                           made->plan.height,
                                           {0, 0, made->plan.width, made->plan.height}};
    assert_int_equal(stk_filter_run_plain(&filter, grabbed.rgb, (size_t)grabbed.width * 3, &room, &scaled, NULL),
                     STOKER_OK);
    uint32_t wrong = 0;
    for (uint32_t y = 0; y < made->plan.height; y++)
        for (uint32_t x = 0; x < made->plan.width; x++)
            for (uint32_t c = 0; c < 3; c++)
                if (level_at(made, rule, frame, x, y, c) != scaled.rgb[y * scaled.stride + 3 * x + c]) wrong++;
    assert_int_equal(wrong, 0);
    stk_filter_room_fini(&room);
    free(grabbed.rgb);
}

static void test_each_chosen_frame_lies_in_its_group(void **state)
{
    (void)state;
    static const char *const names[] = {"h264_bframes_g12.mp4", "rot90.mp4", "vp9_odd227x171.webm", "ptswrap.ts"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        stoker_patch_spec spec = spec_of(STOKER_DTYPE_UINT8);
        spec.frames.frames = 3; /* the last group is not full */
        stoker_clip_facts facts = facts_of(names[i]);
        struct made made = make_clip(names[i], &spec, &facts);
        if (made.status != STOKER_OK) fail_msg("%s: %s", names[i], made.err.message);
        assert_int_equal(made.frames, facts.frames);
        assert_int_equal(made.grid[0], 2);
        assert_int_equal(made.grid[1], made.plan.grid_h);
        assert_int_equal(made.grid[2], made.plan.grid_w);
        for (uint32_t frame = 0; frame < 4; frame++) {
            const stoker_frame_place place = {facts.frames, 3, frame < 3 ? frame : 2};
            expect_frame(&made, &spec.rule, names[i], frame, stoker_frames_index(spec.frames.choice, &place));
        }
        free(made.block);
    }
}

static void test_float_values_are_levels_scaled_and_normalised(void **state)
{
    (void)state;
    const char *name = "h264_bframes_g12.mp4";
    stoker_clip_facts facts = facts_of(name);
    stoker_patch_spec bytes = spec_of(STOKER_DTYPE_UINT8), floats = spec_of(STOKER_DTYPE_DEFAULT);
    for (int c = 0; c < 3; c++) floats.mean[c] = 0.5f, floats.std[c] = 0.25f;
    struct made a = make_clip(name, &bytes, &facts), b = make_clip(name, &floats, &facts);
    assert_int_equal(b.size, a.size * 4);
    for (size_t i = 0; i < a.size; i++) {
        float value, wanted = ((float)a.bytes[i] / 255.0f - 0.5f) / 0.25f;
        memcpy(&value, b.bytes + 4 * i, 4);
        if (value - wanted > 1e-5f || wanted - value > 1e-5f)
            fail_msg("value %zu is %g, not %g", i, (double)value, (double)wanted);
    }
    free(a.block);
    free(b.block);
}

static void test_fast_mode_has_the_same_shape_and_nearly_the_same_levels(void **state)
{
    (void)state;
    const char *name = "h264_bframes_g12.mp4";
    stoker_clip_facts facts = facts_of(name);
    stoker_patch_spec spec = spec_of(STOKER_DTYPE_UINT8);
    struct made exact = make_clip(name, &spec, &facts);
    spec.mode = STOKER_PATCHES_FAST;
    struct made fast = make_clip(name, &spec, &facts);
    assert_int_equal(fast.status, STOKER_OK);
    assert_int_equal(fast.size, exact.size);
    uint64_t sum = 0;
    for (size_t i = 0; i < fast.size; i++) sum += (uint64_t)abs((int)fast.bytes[i] - (int)exact.bytes[i]);
    print_message("# fast mode is %.2f levels off on average\n", (double)sum / (double)fast.size);
    assert_true((double)sum / (double)fast.size < 6); /* a synthetic clip of sharp edges */
    free(exact.block);
    free(fast.block);
}

static void test_frames_past_the_end_are_the_last_one(void **state)
{
    (void)state;
    const char *name = "truncated_faststart.mp4";
    stoker_clip_facts facts = facts_of(name);
    stoker_media_info exact;
    assert_int_equal(stoker_media_probe(clip_path(name), STOKER_PROBE_EXACT, &exact, NULL), STOKER_OK);
    facts.frames = exact.frames + 30; /* as an old description has it */
    stoker_patch_spec spec = spec_of(STOKER_DTYPE_UINT8);
    struct made made = make_clip(name, &spec, &facts);
    if (made.status != STOKER_OK) fail_msg("%s", made.err.message);
    assert_int_equal(made.frames, exact.frames);
    expect_frame(&made, &spec.rule, name, 0, 0);
    expect_frame(&made, &spec.rule, name, 3, exact.frames - 1);
    free(made.block);

    spec.damaged_max = -1;
    made = make_clip(name, &spec, &facts);
    assert_int_equal(made.status, STOKER_ERR_CORRUPT);
    assert_non_null(strstr(made.err.message, "allowed loss 0"));
    free(made.block);
    spec.damaged_max = 0, spec.short_clip = STOKER_SHORT_ERROR;
    made = make_clip(name, &spec, &facts);
    assert_int_equal(made.status, STOKER_ERR_CORRUPT);
    assert_non_null(strstr(made.err.message, "were described"));
    free(made.block);
}

static void test_a_clip_shorter_than_wanted_repeats_or_is_refused(void **state)
{
    (void)state;
    const char *name = "gif_delays.gif";
    stoker_clip_facts facts = facts_of(name);
    stoker_patch_spec spec = spec_of(STOKER_DTYPE_UINT8);
    spec.frames.frames = (uint32_t)facts.frames + 3;
    spec.rule.pixels_max = 10000;
    struct made made = make_clip(name, &spec, &facts);
    assert_int_equal(made.status, STOKER_OK);
    expect_frame(&made, &spec.rule, name, (uint32_t)facts.frames + 2, facts.frames - 1);
    free(made.block);
    spec.short_clip = STOKER_SHORT_ERROR;
    made = make_clip(name, &spec, &facts);
    assert_int_equal(made.status, STOKER_ERR_CORRUPT);
    assert_non_null(strstr(made.err.message, "are wanted"));
    free(made.block);
}

static void test_images_fill_one_group(void **state)
{
    (void)state;
    stoker_image_info info;
    stoker_error err = {0};
    static const char path[] = STK_GOLDEN_IMAGES "/valid_jpeg_444_progressive";
    assert_int_equal(stoker_image_probe(path, &info, &err), STOKER_OK);
    stoker_patch_spec spec = spec_of(STOKER_DTYPE_UINT8);
    memset(&spec.frames, 0, sizeof spec.frames);
    spec.media = STOKER_PATCHES_OF_IMAGES;
    spec.rule.pixels_min = 56 * 56;
    const stoker_clip_facts facts = {info.width, info.height, 1, 0};
    struct stk_file file;
    assert_int_equal(stk_file_open(path, &file, &err), STOKER_OK);
    struct made made = make_file(&file, &spec, &facts);
    stk_file_close(&file);
    if (made.status != STOKER_OK) fail_msg("%s", made.err.message);
    assert_int_equal(made.grid[0], 1);
    stoker_image_spec image = STOKER_IMAGE_SPEC_INIT;
    image.width = made.plan.width, image.height = made.plan.height;
    image.layout = STOKER_IMAGE_HWC, image.resize = STOKER_IMAGE_STRETCH, image.filter = STOKER_IMAGE_BICUBIC;
    size_t size = (size_t)image.width * image.height * 3;
    uint8_t *rgb = malloc(size);
    assert_int_equal(stoker_image_read(path, &image, rgb, size, NULL, &err), STOKER_OK);
    uint32_t wrong = 0;
    for (uint32_t y = 0; y < image.height; y++)
        for (uint32_t x = 0; x < image.width; x++)
            for (uint32_t c = 0; c < 3; c++) {
                uint8_t wanted = rgb[(y * image.width + x) * 3 + c];
                if (level_at(&made, &spec.rule, 0, x, y, c) != wanted) wrong++;
                if (level_at(&made, &spec.rule, 1, x, y, c) != wanted) wrong++;
            }
    assert_int_equal(wrong, 0);
    free(rgb);
    free(made.block);
}

static void test_forms_refuse_what_they_cannot_mean(void **state)
{
    (void)state;
    struct stk_patch_form form;
    stoker_error err = {0};
    stoker_patch_spec spec;
#define REFUSES(change, text)                                                                                          \
    do {                                                                                                               \
        spec = spec_of(STOKER_DTYPE_FLOAT32);                                                                          \
        change;                                                                                                        \
        assert_int_equal(stk_patch_form_init(&form, &spec, &err), STOKER_ERR_INVALID_ARGUMENT);                        \
        assert_non_null(strstr(err.message, text));                                                                    \
    } while (0)
    REFUSES(spec.mode = (stoker_patch_mode)2, "mode 2");
    REFUSES(spec.media = (stoker_patch_media)2, "media 2");
    REFUSES(spec.rule.patch = 0, "patch is 0");
    REFUSES(spec.frames.frames = 0, "nor a rate");
    REFUSES(spec.partial = STOKER_IMAGE_PARTIAL_ACCEPT, "are for images");
    REFUSES(spec.dtype = STOKER_DTYPE_INT64, "dtype 5");
    REFUSES(spec.std[1] = -1, "std");
    REFUSES(spec.damaged_max = 2, "damaged_max");
    REFUSES(spec.short_clip = (stoker_short_clip)2, "short-clip");
    REFUSES(spec.media = STOKER_PATCHES_OF_IMAGES, "are for videos");
    REFUSES((spec.media = STOKER_PATCHES_OF_IMAGES, spec.frames.frames = 0, spec.partial = STOKER_IMAGE_PARTIAL_MARK),
            "cannot mark");
    REFUSES((spec.media = STOKER_PATCHES_OF_IMAGES, spec.frames.frames = 0, spec.background[0] = 1), "background");
    spec = spec_of(STOKER_DTYPE_FLOAT32);
    spec.struct_size--;
    assert_int_equal(stk_patch_form_init(&form, &spec, &err), STOKER_ERR_UNSUPPORTED);
    spec = spec_of(STOKER_DTYPE_FLOAT32);
    assert_int_equal(stk_patch_form_init(&form, &spec, &err), STOKER_OK);
    uint32_t count;
    stoker_patch_plan plan;
    const stoker_clip_facts nothing = {0, 0, 0, 0};
    assert_int_equal(stk_patch_form_plan(&form, &nothing, &count, &plan, &err), STOKER_ERR_CORRUPT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_chosen_frame_lies_in_its_group),
        cmocka_unit_test(test_float_values_are_levels_scaled_and_normalised),
        cmocka_unit_test(test_fast_mode_has_the_same_shape_and_nearly_the_same_levels),
        cmocka_unit_test(test_frames_past_the_end_are_the_last_one),
        cmocka_unit_test(test_a_clip_shorter_than_wanted_repeats_or_is_refused),
        cmocka_unit_test(test_images_fill_one_group),
        cmocka_unit_test(test_forms_refuse_what_they_cannot_mean),
    };
    return stk_run_tests(tests);
}
