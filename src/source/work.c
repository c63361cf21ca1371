/* SPDX-License-Identifier: Apache-2.0
 *
 * The work of samples: see work.h. What a manifest knows is told by the kind of source (media.c).
 */
#include "source/work.h"

#include <string.h>

#include "base/error.h"
#include "media/decode.h"
#include "media/decode_work.h"
#include "store/file.h"

bool stk_source_work(const struct stoker_source *source, uint64_t id, struct stk_source_work *out)
{
    return source->work && source->work(source, id, out);
}

stoker_status stk_source_measure(const char *path, const stoker_video_spec *spec, void *dst,
                                 struct stk_source_work *out, stoker_error *err)
{
    struct stk_decode_work work = {0, 0, 0};
    struct stk_decoder *decoder = NULL;
    struct stk_form form;
    struct stk_file file;
    STK_TRY(stk_form_init(&form, spec, err));
    STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = stk_decoder_create(&decoder, err);
    if (status == STOKER_OK) {
        stk_decoder_set_work(decoder, &work);
        status = stk_decoder_video(decoder, &file, &form, 0, NULL, dst, NULL, err);
    }
    stk_decoder_destroy(decoder);
    stk_file_close(&file);
    if (status < 0) {
        stk_error_context(err, "%s", path);
        return status;
    }
    memset(out, 0, sizeof *out);
    out->pixels = work.pixels;
    out->bytes = work.bytes;
    return STOKER_OK;
}
