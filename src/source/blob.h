/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing and reading the little-endian blobs that describe sources. The reader never goes past the end: a value that
 * does not fit makes it fail for good, and the caller asks once at the end.
 */
#ifndef STK_SOURCE_BLOB_H
#define STK_SOURCE_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <stoker/augment.h>

static inline void stk_blob_put32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static inline void stk_blob_put64(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static inline uint32_t stk_blob_get32(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
}

static inline uint64_t stk_blob_get64(const uint8_t *at)
{
    return (uint64_t)stk_blob_get32(at) | (uint64_t)stk_blob_get32(at + 4) << 32;
}

#define STK_BLOB_AUGMENT_BYTES 48u

static inline void stk_blob_put_augment(uint8_t *at, const stoker_augment *augment)
{
    const float numbers[9] = {augment->scale[0], augment->scale[1],   augment->ratio[0],
                              augment->ratio[1], augment->flip,       augment->brightness,
                              augment->contrast, augment->saturation, augment->hue};
    stk_blob_put32(at, (uint32_t)augment->crop);
    stk_blob_put32(at + 4, augment->crop_pad);
    memcpy(at + 8, augment->pad_colour, 4);
    for (int i = 0; i < 9; i++) {
        uint32_t bits;
        memcpy(&bits, &numbers[i], sizeof bits);
        stk_blob_put32(at + 12 + 4 * i, bits);
    }
}

static inline void stk_blob_get_augment(const uint8_t *at, stoker_augment *augment)
{
    float *const numbers[9] = {&augment->scale[0], &augment->scale[1],   &augment->ratio[0],
                               &augment->ratio[1], &augment->flip,       &augment->brightness,
                               &augment->contrast, &augment->saturation, &augment->hue};
    augment->crop = (stoker_crop)stk_blob_get32(at);
    augment->crop_pad = stk_blob_get32(at + 4);
    memcpy(augment->pad_colour, at + 8, 4);
    for (int i = 0; i < 9; i++) {
        uint32_t bits = stk_blob_get32(at + 12 + 4 * i);
        memcpy(numbers[i], &bits, sizeof bits);
    }
}

#endif
