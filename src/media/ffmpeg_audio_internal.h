/* SPDX-License-Identifier: Apache-2.0
 *
 * What the sound files of FFmpeg share: ffmpeg_audio.c (packets), ffmpeg_audio_count.c (how many samples a packet
 * holds), ffmpeg_audio_run.c (decoding) and ffmpeg_swr.c (rate and channels). Nobody else may include this.
 */
#ifndef STK_MEDIA_FFMPEG_AUDIO_INTERNAL_H
#define STK_MEDIA_FFMPEG_AUDIO_INTERNAL_H

#include "media/ffmpeg_audio.h"
#include "media/ffmpeg_internal.h"

#define STK_SOUND_CHANNELS_MAX 64u

/* One packet: `kept` samples of what it decodes to, after the first `front`, are played from `position` on. */
struct stk_sound_entry {
    uint64_t position;
    uint32_t front, kept;
    uint32_t size; /* bytes */
};

/* How much of the past a decoder needs to give the bits that it would have given, had it begun at the first packet. */
enum stk_sound_memory {
    STK_SOUND_MEMORY_NONE,      /* packets stand alone */
    STK_SOUND_MEMORY_OVERLAP,   /* the packet before (Vorbis: windows that overlap) */
    STK_SOUND_MEMORY_RESERVOIR, /* MPEG layer 3: three packets before (filter and overlap), and the 511 bytes before
                                   those, in which their data may begin */
    STK_SOUND_MEMORY_LONG       /* not bounded: noise generators, recursive filters and predictions */
};

/* What is learned of packets one after the other. */
struct stk_sound_counter {
    const AVCodecParameters *codec;
    enum stk_sound_memory memory;
    bool counts;      /* packets say how many samples they hold */
    bool by_duration; /* by the container's durations, in samples */
    struct AVVorbisParseContext *vorbis;
    bool first;
};

/* Knows the codec; counter->counts false: only a decode tells. NO_MEMORY. */
stoker_status stk_sound_counter_init(struct stk_sound_counter *counter, const AVStream *stream, stoker_error *err);
void stk_sound_counter_fini(struct stk_sound_counter *counter);
/* Samples that the next packet decodes to, before anything is cut off it; false if it does not say. */
bool stk_sound_counter_packet(struct stk_sound_counter *counter, const AVPacket *packet, uint32_t *out_samples);

struct stk_sound {
    struct stk_av *av;
    struct stk_sound_facts facts;
    enum stk_sound_memory memory;
    bool direct; /* plain PCM: no entries, packets carry their places as times */
    uint64_t keep_bytes;

    struct stk_sound_entry *entries;
    AVPacket **kept; /* one an entry, or NULL if the file is read again */
    size_t count;

    /* The run. */
    AVCodecContext *decoder;
    AVFrame *frame;
    AVPacket *packet;   /* what is sent; its times name it */
    size_t next_packet; /* index of the one to send */
    size_t next_read;   /* index of the one that the next read gives */
    bool drained, ended;
    uint64_t reads;    /* packets read since the start, for their limit */
    uint64_t position; /* of the next sample to give */
    size_t current;    /* the packet whose samples come, and how many of them came */
    uint64_t current_used;
    uint64_t decoded; /* samples that came out of the decoder */
    uint64_t bytes;
    float *room;         /* the chunk: planes one after the other */
    size_t room_samples; /* of all planes */
    const float *planes[STK_SOUND_CHANNELS_MAX];
    bool waiting; /* a frame was received that lies behind a gap */
    uint64_t wait_position, wait_skip, wait_count;
};

/* Reads from the first packet on again. */
stoker_status stk_sound_rewind(struct stk_sound *sound, stoker_error *err);

#endif
