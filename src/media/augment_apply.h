/* SPDX-License-Identifier: Apache-2.0
 *
 * Carries out what augment.h chose, on planes of 8-bit R, G and B: mirroring, and the four changes of colour of the
 * public processors (torchvision's adjust_brightness, _contrast, _saturation, _hue on uint8), each rounded down to
 * levels before the next. Float32 in one order of operations: the same levels on every machine.
 */
#ifndef STK_MEDIA_AUGMENT_APPLY_H
#define STK_MEDIA_AUGMENT_APPLY_H

#include <stdint.h>

#include "media/augment.h"

/* Three planes of one picture, lines `stride` apart. */
struct stk_canvas {
    uint8_t *rgb[3];
    size_t stride;
    uint32_t width, height;
};

void stk_canvas_flip(const struct stk_canvas *canvas);
void stk_canvas_colour(const struct stk_canvas *canvas, const struct stk_colouring *colouring);

#endif
