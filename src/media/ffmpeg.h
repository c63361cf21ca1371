/* SPDX-License-Identifier: Apache-2.0
 *
 * FFmpeg without its types: open a file, list its packets, decode chosen ones, scale frames. Policy (which packets,
 * which frames, what damage means) is not here but in plan.c and decode.c.
 *
 * One decoder thread, no network, no second file: the only bytes that FFmpeg sees come from the opened descriptor.
 * FFmpeg's log goes to nobody; its last error of this thread becomes part of our message. Every loop is bounded by
 * packets or by the end of the file.
 *
 * Call order: stk_av_open, stk_av_scan, then any number of (stk_av_restart, then send and receive, then stk_av_drain
 * and receive).
 */
#ifndef STK_MEDIA_FFMPEG_H
#define STK_MEDIA_FFMPEG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>
#include <stoker/media.h>

#include "media/plan.h"
#include "media/resample.h"
#include "store/file.h"

/* Packets of a file up to this many bytes are kept in memory between scan and decode; larger files are read again. */
#define STK_AV_KEEP_BYTES ((uint64_t)64 << 20)

struct stk_av;

struct stk_av_facts {
    char codec[STOKER_CODEC_NAME_BYTES];
    uint32_t width, height; /* before rotation */
    int32_t rotation;       /* clockwise degrees to apply: 0, 90, 180, 270 */
    double time_base;       /* seconds per unit of a packet's times */
    double frame_rate;      /* frames per second as the container claims it; 0 if unknown */
    bool skips;             /* the decoder can leave out frames that nothing refers to */
};

/* Borrows `file` until stk_av_close(). NOT_FOUND "no video stream"; CORRUPT, IO, NO_MEMORY. */
stoker_status stk_av_open(const struct stk_file *file, struct stk_av **out_av, stoker_error *err);
void stk_av_close(struct stk_av *av); /* NULL allowed */
const struct stk_av_facts *stk_av_facts(const struct stk_av *av);

/* Reads all packets of the video stream. A cut last packet is left out. Packets are kept if they take at most
 * `keep_bytes_max`. */
stoker_status stk_av_scan(struct stk_av *av, uint64_t keep_bytes_max, stoker_error *err);
const struct stk_packet_table *stk_av_table(const struct stk_av *av);
/* Seconds from the first presented frame to the end of the last. */
double stk_av_duration(const struct stk_av *av);

/* Frames a second of the scanned stream as a fraction of numbers below 2^31: what the container claims if the packets
 * agree with it to a hundredth, else what they say. *out_num is 0 if neither says anything. */
void stk_av_rate(const struct stk_av *av, uint64_t *out_num, uint64_t *out_den);

/* What pictures are like, which many containers do not tell. */
struct stk_av_look {
    char pixel_format[32];     /* FFmpeg's name; empty if unknown */
    char matrix[16], range[8]; /* FFmpeg's name of the matrix; "full" or "limited"; empty if untagged */
    uint32_t bit_depth;        /* of a channel; 0 if unknown */
    uint32_t sar_num, sar_den; /* shape of a pixel, width : height; 0 : 1 if unknown */
    bool interlaced, alpha;
};

/* Decodes the first frame of a scanned stream to see. If there is none, what the container tells. */
stoker_status stk_av_look(struct stk_av *av, struct stk_av_look *out_look, stoker_error *err);

/* Before the first restart: decode alpha too where that needs another decoder (VP8 and VP9). */
void stk_av_want_alpha(struct stk_av *av);

/* Makes the decoder ready for a key frame: opens it, or flushes what it holds. `careful`: damage may be met, and what
 * the decoder cannot fill must not depend on what was decoded before. UNSUPPORTED (no decoder), NO_MEMORY. */
stoker_status stk_av_restart(struct stk_av *av, bool careful, stoker_error *err);
/* Decodes one packet of the table; not `needed`: leaves it out if nothing refers to its frame. Damaged data is counted,
 * not failed. Everything must have been received before. */
stoker_status stk_av_send(struct stk_av *av, uint32_t packet, bool needed, stoker_error *err);
stoker_status stk_av_drain(struct stk_av *av, stoker_error *err);

struct stk_av_frame {
    int64_t pts; /* STK_TIME_NONE if unknown */
    uint32_t width, height;
    uint32_t sar_num, sar_den; /* shape of a pixel; 0 : 1 if unknown */
    bool damaged;              /* the decoder says that it had to guess */
};

/* The next frame; it stays current until the next call. STOKER_AGAIN: send more. STOKER_END: drained. */
stoker_status stk_av_receive(struct stk_av *av, struct stk_av_frame *out_frame, stoker_error *err);
/* How often the decoder refused data, and (HEVC) missed a reference, since stk_av_open(). */
uint64_t stk_av_faults(const struct stk_av *av);
/* The last errors that FFmpeg told of this file, as one text (log_lines.h); empty if none. */
const char *stk_av_last_message(const struct stk_av *av);
/* This process has no other user of FFmpeg: what it says of no file is dropped, instead of going to stderr. */
void stk_av_log_alone(void);

/* Scales current frames to planar RGB. Keeps a few converters, because rebuilding one costs as much as a frame. */
struct stk_scaler;

struct stk_scaled {
    const uint8_t *planes[3]; /* R, G, B of the kept rectangle; the caller's, or the scaler's until its next run */
    size_t stride;
};

/* The size of the whole scaled picture and the part of it that is wanted. */
struct stk_scaling {
    uint32_t width, height;
    struct stk_rectangle keep;
};

stoker_status stk_scaler_create(struct stk_scaler **out_scaler, stoker_error *err);
void stk_scaler_destroy(struct stk_scaler *scaler); /* NULL allowed */
/* `direct` (NULL allowed): planes of the kept size without gaps between lines, whose width is a multiple of
 * STK_RESAMPLE_ALIGNMENT; where it can, the scaler writes there, and *out_scaled says so. */
stoker_status stk_scaler_run(struct stk_scaler *scaler, struct stk_av *av, const stoker_picture_options *picture,
                             const struct stk_scaling *scaling, uint8_t *const direct[3], struct stk_scaled *out_scaled,
                             stoker_error *err);

#endif
