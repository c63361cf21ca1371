/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of a decode share: decode.c (samples), decode_list.c (lists of frames) and decode_pass.c (one file,
 * some frames, by a plan).
 */
#ifndef STK_MEDIA_DECODE_INTERNAL_H
#define STK_MEDIA_DECODE_INTERNAL_H

#include <stdbool.h>

#include "media/decode.h"
#include "media/decode_plan.h"
#include "media/ffmpeg.h"
#include "media/look.h"
#include "media/sampling.h"
#include "media/scan.h"

struct stk_decoder {
    const struct stk_scan *scan; /* borrowed; of the next file: its packets are not looked for again. NULL: none */
    bool stale;                  /* the last pass that had one met other packets in the file */
    struct stk_scaler *scaler;
    uint8_t *turned; /* three rotated planes */
    size_t turned_size;
    uint64_t keep_bytes;
    struct stk_decode_work *work; /* borrowed; NULL: nobody asks */
    enum stk_plan_choice choice;
    struct stk_look_room look;
};

/* One file being decoded for a list of frames. */
struct stk_pass {
    struct stk_decoder *decoder;
    const stoker_picture_options *picture;
    struct stk_av *av;
    const struct stk_packet_table *table;
    struct stk_plan_costs costs;
    const uint64_t *ordinals; /* ascending, no repeats; NULL with count 0: `deliver` gets all frames if `all` */
    size_t count;
    bool all;
    uint8_t *delivered;          /* one flag an ordinal; owned */
    void *memory;                /* of the plan; owned */
    struct stk_decode_plan plan; /* of the last run */
    stoker_status (*deliver)(struct stk_pass *pass, size_t index, const struct stk_av_frame *frame, stoker_error *err);
    void *user;
    stoker_video_result result;
};

/* Opens and scans. The pass is zeroed but for what the caller needs; it is closed with stk_pass_end() whatever the
 * result. CORRUPT if the stream holds no frames. */
stoker_status stk_pass_begin(struct stk_pass *pass, struct stk_decoder *decoder, const struct stk_file *file,
                             stoker_error *err);
void stk_pass_end(struct stk_pass *pass);

/* Where frames were lost, the k-th of those that come out is not the k-th of the table, also for a request whose own
 * packets are whole. */
bool stk_pass_may_jump(const struct stk_pass *pass);

/* Makes pass->plan for pass->ordinals. */
stoker_status stk_pass_plan_by_time(struct stk_pass *pass, stoker_error *err);
stoker_status stk_pass_plan_in_order(struct stk_pass *pass, uint64_t frames, stoker_error *err);

/* Run pass->plan. By time, *out_complete false: damage was met or a frame did not come; decode in order. In order, with
 * `count_is_known` it ends at the last wanted frame; *out_counted: frames that came out. */
stoker_status stk_pass_run_by_time(struct stk_pass *pass, bool *out_complete, stoker_error *err);
stoker_status stk_pass_run_in_order(struct stk_pass *pass, bool count_is_known, uint64_t *out_counted,
                                    stoker_error *err);

/* Clockwise degrees that pictures of this pass are turned. */
int32_t stk_pass_rotation(const struct stk_pass *pass);
/* Size of a frame as it is seen. */
struct stk_extent stk_pass_extent(const struct stk_pass *pass, const struct stk_av_frame *frame);
/* The current frame as `fit` says; at `direct` (NULL allowed) if it could be made there. */
stoker_status stk_pass_render_fit(struct stk_pass *pass, const struct stk_fit *fit, uint8_t *const direct[3],
                                  struct stk_planes *out, stoker_error *err);
/* The current frame in the form's size, cut in the middle; at `direct` (NULL allowed) if it could be made there. */
stoker_status stk_pass_render(struct stk_pass *pass, const struct stk_form *form, const struct stk_av_frame *frame,
                              uint8_t *const direct[3], struct stk_planes *out, stoker_error *err);

#endif
