/* SPDX-License-Identifier: Apache-2.0
 *
 * Every value of every patch at the place that the documented order gives it, against the formula itself, with canaries
 * around the destination.
 */
#include "media/patches.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "media/filter.h"
#include "tests/support/unit.h"

#define CANARY 0xa5

static uint8_t level(uint32_t frame, uint32_t x, uint32_t y, uint32_t channel)
{
    return (uint8_t)((frame * 101 + y * 31 + x * 7 + channel * 59 + (x * y) % 13) & 0xff);
}

struct sample {
    struct stk_patch_writer writer;
    struct stk_form values;
    uint8_t *bytes; /* with a canary of 64 bytes on both sides */
    size_t size;
};

static void make(struct sample *sample, const stoker_patch_rule *rule, const stoker_clip *clip, stoker_dtype dtype)
{
    stoker_error err = {0};
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = spec.width = spec.height = 1, spec.dtype = dtype;
    if (dtype != STOKER_DTYPE_UINT8)
        for (int c = 0; c < 3; c++) spec.mean[c] = 0.4f + 0.1f * (float)c, spec.std[c] = 0.2f + 0.05f * (float)c;
    assert_int_equal(stk_form_init(&sample->values, &spec, &err), STOKER_OK);
    sample->writer = (struct stk_patch_writer){.rule = *rule, .frames = clip->frames, .values = &sample->values};
    assert_int_equal(stoker_patch_plan_clip(rule, clip, &sample->writer.plan, &err), STOKER_OK);
    const stoker_patch_plan *plan = &sample->writer.plan;
    sample->size = plan->patches * plan->row_values * sample->values.value_bytes;
    sample->bytes = malloc(sample->size + 128);
    memset(sample->bytes, CANARY, sample->size + 128);
    const size_t stride = (size_t)plan->width * 3 + 5;
    uint8_t *rgb = malloc(stride * plan->height + STK_FILTER_SLACK);
    struct stk_patch_room room = {0};
    for (uint32_t i = 0; i < clip->frames; i++) {
        uint32_t frame = clip->frames - 1 - i; /* frames may come in any order */
        for (uint32_t y = 0; y < plan->height; y++)
            for (uint32_t x = 0; x < plan->width; x++)
                for (uint32_t c = 0; c < 3; c++) rgb[y * stride + 3 * x + c] = level(frame, x, y, c);
        assert_int_equal(stk_patches_store(&sample->writer, frame, rgb, stride, &room, sample->bytes + 64, &err),
                         STOKER_OK);
    }
    stk_patch_room_fini(&room);
    free(rgb);
    for (size_t i = 0; i < 64; i++) {
        assert_int_equal(sample->bytes[i], CANARY);
        assert_int_equal(sample->bytes[64 + sample->size + i], CANARY);
    }
}

static bool value_is(const struct sample *sample, size_t index, uint32_t channel, uint8_t wanted)
{
    const struct stk_form *form = &sample->values;
    const uint8_t *at = sample->bytes + 64 + index * form->value_bytes;
    if (form->value_bytes == 1) return *at == wanted;
    float real = (float)wanted * form->scale[channel] + form->offset[channel];
    if (form->value_bytes == 4) return memcmp(at, &real, 4) == 0;
    uint16_t half = form->dtype == STOKER_DTYPE_FLOAT16 ? stk_half_of(real) : stk_bfloat_of(real);
    return memcmp(at, &half, 2) == 0;
}

static void check(const stoker_patch_rule *rule, stoker_clip clip, stoker_dtype dtype)
{
    struct sample sample;
    make(&sample, rule, &clip, dtype);
    const stoker_patch_plan *plan = &sample.writer.plan;
    const uint32_t p = rule->patch, m = rule->merge, q = rule->temporal;
    size_t index = 0;
    uint32_t wrong = 0;
    for (uint32_t t = 0; t < plan->grid_t; t++)
        for (uint32_t block_y = 0; block_y < plan->grid_h / m; block_y++)
            for (uint32_t block_x = 0; block_x < plan->grid_w / m; block_x++)
                for (uint32_t inner = 0; inner < m * m; inner++)
                    for (uint32_t c = 0; c < 3; c++)
                        for (uint32_t dt = 0; dt < q; dt++)
                            for (uint32_t pixel = 0; pixel < p * p; pixel++) {
                                uint32_t frame = t * q + dt < clip.frames ? t * q + dt : clip.frames - 1;
                                uint32_t y = (block_y * m + inner / m) * p + pixel / p;
                                uint32_t x = (block_x * m + inner % m) * p + pixel % p;
                                if (!value_is(&sample, index++, c, level(frame, x, y, c))) wrong++;
                            }
    assert_int_equal(index, plan->patches * plan->row_values);
    assert_int_equal(wrong, 0);
    free(sample.bytes);
}

static void test_rows_are_in_the_documented_order(void **state)
{
    (void)state;
    const stoker_patch_rule rule = {14, 2, 2, STOKER_FIT_FRAME, 0, 1, 1 << 20, 0, 0};
    check(&rule, (stoker_clip){4, 112, 84}, STOKER_DTYPE_UINT8);
    check(&rule, (stoker_clip){4, 112, 84}, STOKER_DTYPE_FLOAT32);
    const stoker_patch_rule larger = {16, 2, 2, STOKER_FIT_FRAME, 0, 1, 1 << 20, 0, 0};
    check(&larger, (stoker_clip){2, 96, 160}, STOKER_DTYPE_FLOAT16);
    check(&larger, (stoker_clip){2, 96, 160}, STOKER_DTYPE_BFLOAT16);
}

static void test_a_short_group_repeats_the_last_frame(void **state)
{
    (void)state;
    const stoker_patch_rule rule = {14, 2, 2, STOKER_FIT_FRAME, 0, 1, 1 << 20, 0, 0};
    check(&rule, (stoker_clip){5, 56, 56}, STOKER_DTYPE_UINT8);
    check(&rule, (stoker_clip){1, 84, 56}, STOKER_DTYPE_FLOAT32); /* a still image */
    const stoker_patch_rule long_group = {8, 1, 4, STOKER_FIT_FRAME, 0, 1, 1 << 20, 0, 0};
    check(&long_group, (stoker_clip){5, 40, 24}, STOKER_DTYPE_UINT8);
}

static void test_other_sizes_of_patch_and_merge(void **state)
{
    (void)state;
    const stoker_patch_rule three = {6, 3, 1, STOKER_FIT_FRAME, 0, 1, 1 << 20, 0, 0};
    check(&three, (stoker_clip){3, 90, 54}, STOKER_DTYPE_BFLOAT16);
    const stoker_patch_rule one = {1, 1, 1, STOKER_FIT_FRAME, 0, 1, 1 << 20, 0, 0};
    check(&one, (stoker_clip){2, 37, 23}, STOKER_DTYPE_FLOAT32);
    const stoker_patch_rule wide = {32, 4, 2, STOKER_FIT_FRAME, 0, 1, 1 << 20, 0, 0};
    check(&wide, (stoker_clip){2, 256, 128}, STOKER_DTYPE_UINT8);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rows_are_in_the_documented_order),
        cmocka_unit_test(test_a_short_group_repeats_the_last_frame),
        cmocka_unit_test(test_other_sizes_of_patch_and_merge),
    };
    return stk_run_tests(tests);
}
