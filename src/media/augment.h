/* SPDX-License-Identifier: Apache-2.0
 *
 * What a random transform does to one picture: chosen here, from the draw and the size alone, and carried out by
 * augment_apply.c and the scalers. Pure: the same numbers on every machine, so no logarithm of the C library, whose
 * last bit differs between versions.
 */
#ifndef STK_MEDIA_AUGMENT_H
#define STK_MEDIA_AUGMENT_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/augment.h>
#include <stoker/error.h>

#include "media/resample.h"

/* Checks the fields and fills in the defaults. INVALID_ARGUMENT names the field, its value and the bound. */
stoker_status stk_augment_init(stoker_augment *out, const stoker_augment *augment, stoker_error *err);

/* Does a form with it need the draw? */
bool stk_augment_is_random(const stoker_augment *augment);

enum stk_colour_step { STK_COLOUR_BRIGHTNESS, STK_COLOUR_CONTRAST, STK_COLOUR_SATURATION, STK_COLOUR_HUE, STK_COLOURS };

/* Factors in the order in which they are applied. */
struct stk_colouring {
    uint32_t count;
    enum stk_colour_step step[STK_COLOURS];
    float factor[STK_COLOURS];
};

bool stk_augment_flips(const stoker_augment *augment, uint64_t draw);
void stk_augment_colours(const stoker_augment *augment, uint64_t draw, struct stk_colouring *out);

struct stk_extent {
    uint32_t width, height;
};

/* STOKER_CROP_RESIZED: the part of a picture of this size. */
struct stk_rectangle stk_augment_part(const stoker_augment *augment, uint64_t draw, struct stk_extent picture);
/* STOKER_CROP_RANDOM: where a crop of `kept` begins in a scaled picture that has crop_pad pixels more on each side. */
struct stk_place {
    uint32_t x, y;
};
struct stk_place stk_augment_place(const stoker_augment *augment, uint64_t draw, struct stk_extent scaled,
                                   struct stk_extent kept);

#endif
