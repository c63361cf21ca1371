/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector and plain code give the same bytes, for seeded shapes and pictures of extreme values.
 */
#include <stdlib.h>
#include <string.h>

#include "media/filter_internal.h"
#include "tests/support/unit.h"

static uint32_t seed = 99;

static uint32_t draw(uint32_t low, uint32_t high)
{
    seed = seed * 1664525u + 1013904223u;
    return low + (seed >> 8) % (high - low + 1);
}

static void compare_once(void)
{
    struct stk_filter_spec spec;
    memset(&spec, 0, sizeof spec);
    spec.from_width = draw(1, 10) == 1 ? draw(1, 4000) : draw(1, 120);
    spec.from_height = draw(1, 10) == 1 ? draw(1, 900) : draw(1, 90);
    spec.extent_width = spec.from_width - draw(0, 7) / 8.0, spec.extent_height = spec.from_height - draw(0, 7) / 8.0;
    spec.orientation = (int32_t)draw(1, 8);
    spec.filter = (stoker_image_filter)draw(0, 1);
    spec.to_width = draw(1, 200), spec.to_height = draw(1, 200);
    spec.keep.width = draw(1, spec.to_width), spec.keep.height = draw(1, spec.to_height);
    spec.keep.x = draw(0, spec.to_width - spec.keep.width), spec.keep.y = draw(0, spec.to_height - spec.keep.height);

    size_t stride = (size_t)spec.from_width * 3 + draw(0, 40), size = stride * spec.from_height + STK_FILTER_SLACK;
    uint8_t *rgb = malloc(size);
    assert_non_null(rgb);
    uint32_t kind = draw(0, 3);
    for (size_t i = 0; i < size; i++)
        rgb[i] = kind == 0 ? 255 : kind == 1 ? (uint8_t)(draw(0, 1) * 255) : (uint8_t)draw(0, 255);
    struct stk_filter_room wide_room, plain_room;
    memset(&wide_room, 0, sizeof wide_room);
    memset(&plain_room, 0, sizeof plain_room);
    struct stk_filtered wide, plain;
    assert_int_equal(stk_filter_run(&spec, rgb, stride, &wide_room, &wide, NULL), STOKER_OK);
    assert_int_equal(stk_filter_run_plain(&spec, rgb, stride, &plain_room, &plain, NULL), STOKER_OK);
    for (uint32_t y = 0; y < spec.keep.height; y++)
        assert_memory_equal(wide.rgb + y * wide.stride, plain.rgb + y * plain.stride, (size_t)spec.keep.width * 3);
    stk_filter_room_fini(&wide_room);
    stk_filter_room_fini(&plain_room);
    free(rgb);
}

static void test_filter_wide_equals_plain(void **state)
{
    (void)state;
    if (!stk_filter_is_wide()) STK_SKIP("no AVX2");
    for (int round = 0; round < 400; round++) compare_once();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_filter_wide_equals_plain)};
    return stk_run_tests(tests);
}
