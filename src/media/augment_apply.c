/* SPDX-License-Identifier: Apache-2.0
 *
 * See augment_apply.h.
 */
#include "media/augment_apply.h"

#include <math.h>

#include "base/assert.h"

void stk_canvas_flip(const struct stk_canvas *canvas)
{
    for (int c = 0; c < 3; c++)
        for (uint32_t y = 0; y < canvas->height; y++) {
            uint8_t *line = canvas->rgb[c] + y * canvas->stride;
            for (uint32_t x = 0, end = canvas->width - 1; x < end; x++, end--) {
                uint8_t value = line[x];
                line[x] = line[end];
                line[end] = value;
            }
        }
}

static float clamped(float value, float most) { return value < 0.0f ? 0.0f : value > most ? most : value; }

/* factor * value + (1 - factor) * other, between 0 and 255, rounded down. */
static uint8_t blend(float value, float other, float factor)
{
    return (uint8_t)clamped(factor * value + (1.0f - factor) * other, 255.0f);
}

static uint8_t grey(uint8_t r, uint8_t g, uint8_t b)
{
    return (uint8_t)(0.2989f * (float)r + 0.587f * (float)g + 0.114f * (float)b);
}

/* Towards one level for all pixels: a table does it. */
static void blend_with(const struct stk_canvas *canvas, float other, float factor)
{
    uint8_t table[256];
    for (int value = 0; value < 256; value++) table[value] = blend((float)value, other, factor);
    for (int c = 0; c < 3; c++)
        for (uint32_t y = 0; y < canvas->height; y++) {
            uint8_t *line = canvas->rgb[c] + y * canvas->stride;
            for (uint32_t x = 0; x < canvas->width; x++) line[x] = table[line[x]];
        }
}

static float mean_grey(const struct stk_canvas *canvas)
{
    uint64_t sum = 0;
    for (uint32_t y = 0; y < canvas->height; y++) {
        const uint8_t *r = canvas->rgb[0] + y * canvas->stride, *g = canvas->rgb[1] + y * canvas->stride;
        const uint8_t *b = canvas->rgb[2] + y * canvas->stride;
        for (uint32_t x = 0; x < canvas->width; x++) sum += grey(r[x], g[x], b[x]);
    }
    return (float)((double)sum / ((double)canvas->width * (double)canvas->height));
}

static void saturate(const struct stk_canvas *canvas, float factor)
{
    for (uint32_t y = 0; y < canvas->height; y++) {
        uint8_t *r = canvas->rgb[0] + y * canvas->stride, *g = canvas->rgb[1] + y * canvas->stride;
        uint8_t *b = canvas->rgb[2] + y * canvas->stride;
        for (uint32_t x = 0; x < canvas->width; x++) {
            float other = (float)grey(r[x], g[x], b[x]);
            r[x] = blend((float)r[x], other, factor);
            g[x] = blend((float)g[x], other, factor);
            b[x] = blend((float)b[x], other, factor);
        }
    }
}

/* One pixel through hue, saturation and value, its hue turned by `turn` of the circle. */
static void turn_pixel(uint8_t *red, uint8_t *green, uint8_t *blue, float turn)
{
    const float r = (float)*red / 255.0f, g = (float)*green / 255.0f, b = (float)*blue / 255.0f;
    const float high = r > g ? (r > b ? r : b) : (g > b ? g : b), low = r < g ? (r < b ? r : b) : (g < b ? g : b);
    const float range = high - low;
    if (!(range > 0)) return; /* grey stays grey */
    float hue = high == r ? (g - b) / range : high == g ? 2.0f + (b - r) / range : 4.0f + (r - g) / range;
    hue = hue / 6.0f + 1.0f + turn;
    hue = (hue - floorf(hue)) * 6.0f;
    const int sector = (int)hue % 6;
    const float part = hue - floorf(hue), saturation = range / high;
    const float p = clamped(high * (1.0f - saturation), 1.0f), q = clamped(high * (1.0f - saturation * part), 1.0f);
    const float t = clamped(high * (1.0f - saturation * (1.0f - part)), 1.0f), v = high;
    const float sectors[6][3] = {{v, t, p}, {q, v, p}, {p, v, t}, {p, q, v}, {t, p, v}, {v, p, q}};
    *red = (uint8_t)(sectors[sector][0] * 255.999f);
    *green = (uint8_t)(sectors[sector][1] * 255.999f);
    *blue = (uint8_t)(sectors[sector][2] * 255.999f);
}

static void turn_hue(const struct stk_canvas *canvas, float turn)
{
    for (uint32_t y = 0; y < canvas->height; y++) {
        uint8_t *r = canvas->rgb[0] + y * canvas->stride, *g = canvas->rgb[1] + y * canvas->stride;
        uint8_t *b = canvas->rgb[2] + y * canvas->stride;
        for (uint32_t x = 0; x < canvas->width; x++) turn_pixel(&r[x], &g[x], &b[x], turn);
    }
}

void stk_canvas_colour(const struct stk_canvas *canvas, const struct stk_colouring *colouring)
{
    STK_ASSERT(colouring->count <= STK_COLOURS);
    for (uint32_t i = 0; i < colouring->count; i++) {
        const float factor = colouring->factor[i];
        switch (colouring->step[i]) {
        case STK_COLOUR_BRIGHTNESS: blend_with(canvas, 0.0f, factor); break;
        case STK_COLOUR_CONTRAST: blend_with(canvas, mean_grey(canvas), factor); break;
        case STK_COLOUR_SATURATION: saturate(canvas, factor); break;
        case STK_COLOUR_HUE: turn_hue(canvas, factor); break;
        case STK_COLOURS: break;
        }
    }
}
