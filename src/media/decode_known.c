/* SPDX-License-Identifier: Apache-2.0
 *
 * Decodes of files whose packets are known: see decode_known.h.
 */
#include "media/decode_known.h"

#include "media/decode_internal.h"

stoker_status stk_decoder_video_known(struct stk_decoder *decoder, const struct stk_file *file,
                                      const struct stk_form *form, uint64_t draw, const struct stk_scan *scan,
                                      uint64_t *known_frames, void *dst, stoker_video_result *out_result,
                                      stoker_error *err)
{
    stoker_error fault = {0};
    decoder->scan = scan;
    decoder->stale = false;
    stoker_status status = stk_decoder_video(decoder, file, form, draw, known_frames, dst, out_result, &fault);
    decoder->scan = NULL;
    if (status < 0 && decoder->stale)
        return stk_decoder_video(decoder, file, form, draw, known_frames, dst, out_result, err);
    if (status < 0 && err) *err = fault;
    return status;
}
