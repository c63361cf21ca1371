/* SPDX-License-Identifier: Apache-2.0
 *
 * JPEG through libjpeg-turbo's TurboJPEG interface; the only file that includes it.
 *
 * Always the accurate inverse transform and smooth chroma, as Pillow decodes; a reduced picture is decoded at a half, a
 * quarter or an eighth by a smaller transform. CMYK and YCCK count as inverted (Adobe), as everywhere. A progressive
 * file of more than 500 scans is refused: nobody writes one, and each costs a pass over the whole picture.
 */
#include "media/image_codec.h"

#include <string.h>

#include "base/error.h"

#if STK_HAVE_TURBOJPEG

#include <turbojpeg.h>

bool stk_jpeg_available(void) { return true; }

void stk_jpeg_close(void *state)
{
    if (state) (void)tjDestroy(state); /* it can only complain of NULL */
}

static stoker_status get_handle(const struct stk_image_job *job, tjhandle *out, stoker_error *err)
{
    if (!job->codecs->jpeg) job->codecs->jpeg = tjInitDecompress();
    *out = job->codecs->jpeg;
    return *out ? STOKER_OK : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a JPEG decoder");
}

/* The library and our own reading of the header must mean the same picture, or parts of it would stay unwritten. */
static stoker_status check_size(const struct stk_image_job *job, tjhandle handle, stoker_error *err)
{
    int width = 0, height = 0, sampling = 0, colours = 0;
    (void)tjDecompressHeader3(handle, job->data, (unsigned long)job->size, &width, &height, &sampling, &colours);
    if (width == 0 || height == 0) /* failures after that (rare samplings) do not stop the decoder */
        return stk_fail(err, STOKER_ERR_CORRUPT, "the JPEG header is not readable (%s)", tjGetErrorStr2(handle));
    if ((uint32_t)width != job->head->width || (uint32_t)height != job->head->height)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the JPEG holds frame headers of %dx%d and %ux%u pixels", width,
                        height, job->head->width, job->head->height);
    return STOKER_OK;
}

/* Inverted ink to light: what remains of each colour, times what remains of black. In place, 4 bytes to 3. */
static void cmyk_to_rgb(struct stk_pixels *pixels)
{
    for (uint32_t y = 0; y < pixels->height; y++) {
        const uint8_t *in = pixels->data + y * pixels->stride;
        uint8_t *out = pixels->data + y * pixels->stride;
        for (uint32_t x = 0; x < pixels->width; x++, in += 4, out += 3) {
            uint32_t black = in[3];
            for (int c = 0; c < 3; c++) {
                uint32_t lost = (255u - in[c]) * black + 128;
                uint32_t left = black - ((lost + (lost >> 8)) >> 8);
                out[c] = (uint8_t)left;
            }
        }
    }
    pixels->channels = 3;
}

stoker_status stk_jpeg_decode(const struct stk_image_job *job, struct stk_pixels *out, stoker_error *err)
{
    tjhandle handle = NULL;
    struct stk_pixels pixels = {0};
    const bool inks = job->head->channels == 4;
    STK_TRY(get_handle(job, &handle, err));
    if (job->head->bit_depth != 8)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "a JPEG of %u bits, expected 8", job->head->bit_depth);
    STK_TRY(check_size(job, handle, err));
    STK_TRY(stk_pixels_reserve(job, inks ? 4 : 3, job->reduce, job->accept_partial, &pixels, err));
    int status =
        tjDecompress2(handle, job->data, (unsigned long)job->size, pixels.data, (int)pixels.width, (int)pixels.stride,
                      (int)pixels.height, inks ? TJPF_CMYK : TJPF_RGB, TJFLAG_ACCURATEDCT | TJFLAG_LIMITSCANS);
    stoker_status result = STOKER_OK;
    if (status != 0) {
        const char *text = tjGetErrorStr2(handle);
        bool warned = tjGetErrorCode(handle) == TJERR_WARNING;
        /* Padding before a marker is legal to the last byte in what matters; many cameras write it. */
        if (!warned || !strstr(text, "extraneous bytes before marker")) {
            pixels.usable = warned;
            result = stk_fail(err, STOKER_ERR_CORRUPT, "the JPEG data is damaged (%s)", text);
        }
    }
    if (inks) cmyk_to_rgb(&pixels);
    *out = pixels;
    return result;
}

#else

bool stk_jpeg_available(void) { return false; }
void stk_jpeg_close(void *state) { (void)state; }

stoker_status stk_jpeg_decode(const struct stk_image_job *job, struct stk_pixels *out, stoker_error *err)
{
    (void)job, (void)out;
    return stk_fail(err, STOKER_ERR_UNSUPPORTED, "this build has no JPEG decoder (libturbojpeg)");
}

#endif
