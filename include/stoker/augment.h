/* SPDX-License-Identifier: Apache-2.0
 *
 * Random changes of pictures: which part is taken, mirrored or not, colours. Part of the forms of videos and images.
 *
 * What is chosen is a function of the draw of the sample (stoker_sample_draw()) and the size of its picture, the same
 * on every machine, and for all frames of a clip. Formulas: docs/reference/transforms.md.
 */
#ifndef STOKER_AUGMENT_H
#define STOKER_AUGMENT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum stoker_crop {
    STOKER_CROP_CENTRE = 0, /**< the middle of the scaled picture */
    STOKER_CROP_RANDOM = 1, /**< any part of it, all alike */
    STOKER_CROP_RESIZED = 2 /**< a part of the picture of random area and shape, scaled to width x height; the resize
                                 mode is not looked at */
} stoker_crop;

/** Zero everywhere means that nothing is random. */
typedef struct stoker_augment {
    stoker_crop crop;
    uint32_t crop_pad;       /**< STOKER_CROP_RANDOM: pixels that are added on each side before the crop */
    uint8_t pad_colour[4];   /**< R, G, B, 0: of pixels that are added */
    float scale[2];          /**< STOKER_CROP_RESIZED: smallest and largest share of the area; 0, 0 means 0.08, 1 */
    float ratio[2];          /**< of width to height; 0, 0 means 3/4, 4/3 */
    float flip;              /**< how likely it is mirrored left to right, 0 to 1 */
    float brightness, contrast, saturation; /**< j: times a factor from max(0, 1 - j) to 1 + j */
    float hue;               /**< h: turned by -h to h, at most 0.5 (half the circle) */
} stoker_augment;

#ifdef __cplusplus
}
#endif

#endif
