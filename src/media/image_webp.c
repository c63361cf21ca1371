/* SPDX-License-Identifier: Apache-2.0
 *
 * WebP through libwebp; the only file that includes it. Of an animation the first frame is decoded onto an empty
 * (transparent black) canvas; the chunks of that frame were found by image_head.c, so the demultiplexer is not needed.
 */
#include "media/image_codec.h"

#include "base/error.h"

#if STK_HAVE_WEBP

#include <webp/decode.h>

bool stk_webp_available(void) { return true; }

static const char *text_of(VP8StatusCode code)
{
    switch (code) {
    case VP8_STATUS_OUT_OF_MEMORY: return "out of memory";
    case VP8_STATUS_INVALID_PARAM: return "invalid parameter";
    case VP8_STATUS_BITSTREAM_ERROR: return "bitstream error";
    case VP8_STATUS_UNSUPPORTED_FEATURE: return "unsupported feature";
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA: return "not enough data";
    default: return "unknown error";
    }
}

/* Where the frame lies on the canvas, as the library's output buffer. */
static void place(const struct stk_image_head *head, const struct stk_pixels *pixels, WebPDecBuffer *buffer)
{
    size_t offset = head->frame_size ? head->frame_y * pixels->stride + (size_t)head->frame_x * pixels->channels : 0;
    buffer->colorspace = pixels->channels == 4 ? MODE_RGBA : MODE_RGB;
    buffer->is_external_memory = 1;
    buffer->u.RGBA.rgba = pixels->data + offset;
    buffer->u.RGBA.stride = (int)pixels->stride;
    buffer->u.RGBA.size = pixels->stride * pixels->height - offset;
}

/* What can be decoded of a cut picture; true if there is a line of it. */
static bool decode_part(const uint8_t *data, size_t size, WebPDecoderConfig *config)
{
    WebPIDecoder *decoder = WebPIDecode(NULL, 0, config);
    int last = 0;
    if (!decoder) return false;
    (void)WebPIUpdate(decoder, data, size); /* that it fails is known */
    bool any = WebPIDecGetRGB(decoder, &last, NULL, NULL, NULL) != NULL && last > 0;
    WebPIDelete(decoder);
    return any;
}

stoker_status stk_webp_decode(const struct stk_image_job *job, struct stk_pixels *out, stoker_error *err)
{
    const struct stk_image_head *head = job->head;
    const uint8_t *data = head->frame_size ? job->data + head->frame_at : job->data;
    size_t size = head->frame_size ? head->frame_size : job->size;
    WebPDecoderConfig config;
    struct stk_pixels pixels = {0};
    if (!WebPInitDecoderConfig(&config)) return stk_fail(err, STOKER_ERR_INTERNAL, "libwebp is of another version");
    VP8StatusCode code = WebPGetFeatures(data, size, &config.input);
    uint32_t width = head->frame_size ? head->frame_width : head->width;
    uint32_t height = head->frame_size ? head->frame_height : head->height;
    if (code != VP8_STATUS_OK) return stk_fail(err, STOKER_ERR_CORRUPT, "the WebP data is damaged (%s)", text_of(code));
    if ((uint32_t)config.input.width != width || (uint32_t)config.input.height != height)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the WebP picture is %dx%d, its container says %ux%u",
                        config.input.width, config.input.height, width, height);
    STK_TRY(stk_pixels_reserve(job, job->alpha && head->alpha ? 4 : 3, 1, head->frame_size > 0 || job->accept_partial,
                               &pixels, err));
    place(head, &pixels, &config.output);
    code = WebPDecode(data, size, &config);
    if (code == VP8_STATUS_OUT_OF_MEMORY) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to decode a WebP");
    stoker_status result = STOKER_OK;
    if (code != VP8_STATUS_OK) {
        pixels.usable = job->accept_partial && decode_part(data, size, &config);
        result = stk_fail(err, STOKER_ERR_CORRUPT, "the WebP data is damaged (%s)", text_of(code));
    }
    WebPFreeDecBuffer(&config.output);
    *out = pixels;
    return result;
}

#else

bool stk_webp_available(void) { return false; }

stoker_status stk_webp_decode(const struct stk_image_job *job, struct stk_pixels *out, stoker_error *err)
{
    (void)job, (void)out;
    return stk_fail(err, STOKER_ERR_UNSUPPORTED, "this build has no WebP decoder (libwebp)");
}

#endif
