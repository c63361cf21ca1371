/* SPDX-License-Identifier: Apache-2.0
 *
 * What the FFmpeg files share: ffmpeg.c (demultiplexing), ffmpeg_decode.c (decoding) and ffmpeg_scale.c (scaling).
 * Nobody else may include FFmpeg's headers or this one.
 */
#ifndef STK_MEDIA_FFMPEG_INTERNAL_H
#define STK_MEDIA_FFMPEG_INTERNAL_H

#include "media/ffmpeg.h"

#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>

#include "base/limits.h"
#include "media/log_lines.h"

struct stk_av_log {
    char text[STK_LOG_TEXT_BYTES]; /* of `lines` */
    uint64_t errors;               /* of FFmpeg while this log was the thread's */
    struct stk_log_lines lines;
};

struct stk_av {
    const struct stk_file *file; /* borrowed */
    uint64_t position;           /* of the demultiplexer in the file */
    stoker_error io_error;       /* of the last failed read; status OK if none */

    enum AVMediaType type; /* of the stream that is chosen */
    AVFormatContext *format;
    AVStream *stream;
    struct stk_av_facts facts;

    AVPacket *packet; /* scratch */
    AVPacket **kept;  /* all packets in decode order, or NULL if the file is read again */
    uint32_t next;    /* index of the packet that the next read gives; UINT32_MAX: unknown */
    uint32_t held;    /* index of the packet in `packet`; UINT32_MAX: none of the table */
    struct stk_packet *packets;
    struct stk_shown *shown;
    struct stk_packet_table table;
    double last_duration; /* of the last presented packet, in time units; 0 if unknown */
    bool adopted;         /* the packets are those of an earlier scan (scan.h) */
    bool stale;           /* and the file has others */

    AVCodecContext *decoder;
    AVFrame *frame;
    bool want_alpha;
    bool fed;     /* something was sent since the last flush */
    bool careful; /* the decoder gets cleared frames */
    uint64_t faults;
    struct stk_av_log log;
};

/* While a log is entered, FFmpeg's messages of this thread go into it. */
void stk_av_log_enter(struct stk_av_log *log);
void stk_av_log_leave(void);

/* "<what>: <FFmpeg's error> (<its last message>)"; NO_MEMORY and failed reads keep their own status. */
stoker_status stk_av_fail(struct stk_av *av, int av_error, stoker_status status, const char *what, stoker_error *err);

/* Opens a file for its best stream of a type, as stk_av_open() does for video. */
stoker_status stk_av_open_type(const struct stk_file *file, enum AVMediaType type, struct stk_av **out_av,
                               stoker_error *err);
/* The next packet of our stream that holds data, in av->packet; the caller has entered the log. *reads counts what was
 * read, for its limit. STOKER_END at the end of what can be read. */
stoker_status stk_av_read(struct stk_av *av, uint64_t *reads, stoker_error *err);

/* Does the stream carry alpha beside its pictures (VP8 and VP9 in Matroska)? */
bool stk_av_has_alpha_layer(const struct stk_av *av);

/* The packet of the table at `index`; owned by `av` until the next call. */
stoker_status stk_av_fetch(struct stk_av *av, uint32_t index, AVPacket **out_packet, stoker_error *err);

#endif
