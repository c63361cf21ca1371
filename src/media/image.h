/* SPDX-License-Identifier: Apache-2.0
 *
 * From the bytes of an image to a sample: head, bounds, decode, alpha, orientation and scaling, values and layout.
 *
 * The result is a function of the bytes and the form. Decoders of formats are behind image_codec.h, the filter is
 * filter.c, values are stored as those of video frames are.
 */
#ifndef STK_MEDIA_IMAGE_H
#define STK_MEDIA_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/image.h>

#include "media/transform.h"
#include "store/file.h"

struct stk_image_form {
    stoker_image_spec spec; /* checked, defaults filled in */
    bool looks;             /* pictures are more than scaled and cut in the middle: look.h */
    struct stk_form values; /* of width x height; with STOKER_IMAGE_KEEP of one pixel */
};

/* Checks a form and fills in the defaults. INVALID_ARGUMENT names the field, its value and the bound. */
stoker_status stk_image_form_init(struct stk_image_form *form, const stoker_image_spec *spec, stoker_error *err);

/* What one thread keeps from image to image: codecs and scratch memory. One user at a time. */
struct stk_image_decoder;

stoker_status stk_image_decoder_create(struct stk_image_decoder **out_decoder, stoker_error *err);
void stk_image_decoder_destroy(struct stk_image_decoder *decoder); /* NULL allowed */

/* Makes one sample of exactly `dst_size` bytes. `draw` decides what is random in the form. `out_result` may be NULL. */
stoker_status stk_image_decoder_run(struct stk_image_decoder *decoder, const stoker_image_bytes *bytes,
                                    const struct stk_image_form *form, uint64_t draw, void *dst, size_t dst_size,
                                    stoker_image_result *out_result, stoker_error *err);
/* The same for a file. */
stoker_status stk_image_decoder_file(struct stk_image_decoder *decoder, const struct stk_file *file,
                                     const struct stk_image_form *form, uint64_t draw, void *dst, size_t dst_size,
                                     stoker_image_result *out_result, stoker_error *err);

/* Whether this build decodes a format. */
bool stk_image_available(stoker_image_format format);

#endif
