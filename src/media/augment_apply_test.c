/* SPDX-License-Identifier: Apache-2.0
 *
 * Mirroring, and changes of colour against their formulas in double precision, on every level and on random pixels. The
 * comparison with torchvision is tests/python/test_transforms.py.
 */
#include "media/augment_apply.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

enum { WIDTH = 67, HEIGHT = 31, STRIDE = 80, PLANE = STRIDE * HEIGHT };

static uint8_t memory[3 * PLANE], before[3 * PLANE];

static struct stk_canvas fresh(void)
{
    uint32_t seed = 12345;
    for (size_t i = 0; i < sizeof memory; i++) memory[i] = (uint8_t)((seed = seed * 1664525u + 1013904223u) >> 24);
    memcpy(before, memory, sizeof memory);
    return (struct stk_canvas){{memory, memory + PLANE, memory + 2 * PLANE}, STRIDE, WIDTH, HEIGHT};
}

static void expect_gaps_untouched(void)
{
    for (size_t i = 0; i < sizeof memory; i++)
        if (i % STRIDE >= WIDTH) assert_int_equal(memory[i], before[i]);
}

static void test_flip_mirrors_lines(void **state)
{
    (void)state;
    struct stk_canvas canvas = fresh();
    stk_canvas_flip(&canvas);
    for (size_t line = 0; line < 3 * HEIGHT; line++)
        for (size_t x = 0; x < WIDTH; x++)
            assert_int_equal(memory[line * STRIDE + x], before[line * STRIDE + WIDTH - 1 - x]);
    expect_gaps_untouched();
    stk_canvas_flip(&canvas);
    assert_memory_equal(memory, before, sizeof memory);
}

static double clip(double value) { return value < 0 ? 0 : value > 255 ? 255 : value; }

static double grey_of(const uint8_t *at) { return floor(0.2989 * at[0] + 0.587 * at[PLANE] + 0.114 * at[2 * PLANE]); }

/* The documented formula for one channel of the pixel at `at`; hue apart. */
static double formula(enum stk_colour_step step, double factor, const uint8_t *at, int channel, double mean)
{
    double value = at[channel * PLANE];
    switch (step) {
    case STK_COLOUR_BRIGHTNESS: return clip(factor * value);
    case STK_COLOUR_CONTRAST: return clip(factor * value + (1 - factor) * mean);
    default: return clip(factor * value + (1 - factor) * grey_of(at));
    }
}

static void test_blends_follow_their_formulas(void **state)
{
    (void)state;
    static const float factors[] = {0.0f, 0.3f, 1.0f, 1.7f};
    for (int step = STK_COLOUR_BRIGHTNESS; step <= STK_COLOUR_SATURATION; step++)
        for (size_t f = 0; f < 4; f++) {
            struct stk_canvas canvas = fresh();
            const struct stk_colouring colouring = {1, {(enum stk_colour_step)step}, {factors[f]}};
            stk_canvas_colour(&canvas, &colouring);
            double mean = 0;
            for (size_t i = 0; i < PLANE; i++)
                if (i % STRIDE < WIDTH) mean += grey_of(before + i) / (WIDTH * HEIGHT);
            for (size_t i = 0; i < PLANE; i++)
                for (int c = 0; c < 3 && i % STRIDE < WIDTH; c++) {
                    double wanted = formula((enum stk_colour_step)step, (double)factors[f], before + i, c, mean);
                    if (fabs(memory[i + (size_t)c * PLANE] - floor(wanted + 1e-3)) > 1.01)
                        fail_msg("step %d, factor %g: %u, not %g", step, (double)factors[f],
                                 memory[i + (size_t)c * PLANE], wanted);
                }
            expect_gaps_untouched();
            if (factors[f] == 1.0f) assert_memory_equal(memory, before, sizeof memory);
        }
}

static void test_hue_turns_and_comes_back(void **state)
{
    (void)state;
    /* A third of the circle: red becomes green, green blue, blue red; grey stays. */
    uint8_t pixels[3][4] = {{200, 10, 10, 77}, {10, 200, 10, 77}, {10, 10, 200, 77}};
    const struct stk_canvas canvas = {{pixels[0], pixels[1], pixels[2]}, 4, 4, 1};
    const struct stk_colouring third = {1, {STK_COLOUR_HUE}, {1.0f / 3.0f}};
    stk_canvas_colour(&canvas, &third);
    static const uint8_t wanted[3][4] = {{10, 10, 200, 77}, {200, 10, 10, 77}, {10, 200, 10, 77}};
    for (int c = 0; c < 3; c++)
        for (int x = 0; x < 4; x++) assert_true(abs(pixels[c][x] - wanted[c][x]) <= 1);
    /* No turn at all changes no level by more than the conversion's rounding. */
    struct stk_canvas random = fresh();
    const struct stk_colouring none = {1, {STK_COLOUR_HUE}, {0.0f}};
    stk_canvas_colour(&random, &none);
    for (size_t i = 0; i < sizeof memory; i++) assert_true(abs(memory[i] - before[i]) <= 1);
    expect_gaps_untouched();
    /* Half of the circle, twice. */
    random = fresh();
    const struct stk_colouring halves = {2, {STK_COLOUR_HUE, STK_COLOUR_HUE}, {0.5f, -0.5f}};
    stk_canvas_colour(&random, &halves);
    for (size_t i = 0; i < sizeof memory; i++) assert_true(abs(memory[i] - before[i]) <= 3);
}

static void test_steps_are_applied_in_their_order(void **state)
{
    (void)state;
    struct stk_canvas canvas = fresh();
    uint8_t first[sizeof memory];
    const struct stk_colouring ab = {2, {STK_COLOUR_BRIGHTNESS, STK_COLOUR_SATURATION}, {1.8f, 0.2f}};
    const struct stk_colouring ba = {2, {STK_COLOUR_SATURATION, STK_COLOUR_BRIGHTNESS}, {0.2f, 1.8f}};
    stk_canvas_colour(&canvas, &ab);
    memcpy(first, memory, sizeof first);
    canvas = fresh();
    stk_canvas_colour(&canvas, &ba);
    assert_true(memcmp(first, memory, sizeof first) != 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_flip_mirrors_lines),
        cmocka_unit_test(test_blends_follow_their_formulas),
        cmocka_unit_test(test_hue_turns_and_comes_back),
        cmocka_unit_test(test_steps_are_applied_in_their_order),
    };
    return stk_run_tests(tests);
}
