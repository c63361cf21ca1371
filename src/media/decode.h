/* SPDX-License-Identifier: Apache-2.0
 *
 * From an opened file to a sample: scan, plan, decode, scale, store.
 *
 * The result is a function of the file and the form. A plan by time decodes the fewest packets; if it meets damage or
 * does not find a frame that the table promised, the file is decoded from the start in order, its frames are counted,
 * and the sample is taken from those that really come out. That second way gives the same frames whatever was asked
 * for.
 */
#ifndef STK_MEDIA_DECODE_H
#define STK_MEDIA_DECODE_H

#include <stdint.h>

#include <stoker/error.h>
#include <stoker/media.h>

#include "media/transform.h"
#include "store/file.h"

/* What one thread keeps from sample to sample: converters and scratch memory. One user at a time. */
struct stk_decoder;

stoker_status stk_decoder_create(struct stk_decoder **out_decoder, stoker_error *err);
void stk_decoder_destroy(struct stk_decoder *decoder); /* NULL allowed */

/* Makes one sample; `draw` decides about a random clip. *known_frames (NULL allowed) is memory of the caller for this
 * file and form: 0 at first; set when damage was met, and saves the passes that find it again. It does not change the
 * result. */
stoker_status stk_decoder_video(struct stk_decoder *decoder, const struct stk_file *file, const struct stk_form *form,
                                uint64_t draw, uint64_t *known_frames, void *dst, stoker_video_result *out_result,
                                stoker_error *err);

/* As stoker_frames_read(). Frames have STK_FILTER_SLACK bytes behind them. */
stoker_status stk_decoder_frames(struct stk_decoder *decoder, const struct stk_file *file,
                                 const stoker_frame_list *list, stoker_frame_fn frame_fn, void *user,
                                 stoker_error *err);

/* As stoker_frames_plan(). */
stoker_status stk_decoder_plan(struct stk_decoder *decoder, const struct stk_file *file, const stoker_frame_list *list,
                               stoker_plan **out_plan, stoker_error *err);

/* Counts the frames that come out of a whole decode. */
stoker_status stk_decoder_count(struct stk_decoder *decoder, const struct stk_file *file, uint64_t *out_frames,
                                stoker_error *err);

struct stk_decode_work;
/* What each later sample decoded (decode_work.h) is written to *work, the caller's; NULL: no more. */
void stk_decoder_set_work(struct stk_decoder *decoder, struct stk_decode_work *work);

/* For tests: packets of larger files are read again instead of kept. The default is STK_AV_KEEP_BYTES. */
void stk_decoder_set_keep_bytes(struct stk_decoder *decoder, uint64_t bytes);
/* For tests: how plans are chosen. All choices give the same pixels of an undamaged file. */
enum stk_plan_choice {
    STK_PLAN_BY_COST = 0, /* the default */
    STK_PLAN_JUMP_ALWAYS, /* to the key frame of each wanted frame */
    STK_PLAN_JUMP_ONCE,   /* to the first, and then on */
    STK_PLAN_IN_ORDER     /* everything from the start */
};
void stk_decoder_set_choice(struct stk_decoder *decoder, enum stk_plan_choice choice);

#endif
