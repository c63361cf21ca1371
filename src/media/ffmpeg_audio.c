/* SPDX-License-Identifier: Apache-2.0
 *
 * The packets of a file's sound and their places: see ffmpeg_audio.h.
 *
 * What a file says about priming and padding reaches us with the packets: samples to leave out at the front or the back
 * of one, and packets to leave out whole. MP4 says no padding, but its last packet lasts as long as the sound does.
 */
#include "media/ffmpeg_audio_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"

/* -------------------------------------------------------------------------------------------------------------- open
 */

static stoker_status set_facts(struct stk_sound *sound, stoker_error *err)
{
    const AVCodecParameters *codec = sound->av->stream->codecpar;
    struct stk_sound_facts *facts = &sound->facts;
    (void)snprintf(facts->codec, sizeof facts->codec, "%s", avcodec_get_name(codec->codec_id));
    if (codec->sample_rate <= 0 || codec->ch_layout.nb_channels <= 0)
        return stk_fail(err, STOKER_ERR_CORRUPT, "the audio stream does not say its rate and channels (codec '%s')",
                        facts->codec);
    facts->rate = (uint32_t)codec->sample_rate;
    facts->channels = (uint32_t)codec->ch_layout.nb_channels;
    if (facts->channels > STK_SOUND_CHANNELS_MAX)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the audio stream has %u channels, expected at most %u",
                        facts->channels, STK_SOUND_CHANNELS_MAX);
    return STOKER_OK;
}

stoker_status stk_sound_open(const struct stk_file *file, struct stk_sound **out_sound, stoker_error *err)
{
    struct stk_sound *sound = calloc(1, sizeof *sound);
    if (!sound) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    stoker_status status = stk_av_open_type(file, AVMEDIA_TYPE_AUDIO, &sound->av, err);
    if (status == STOKER_OK) status = set_facts(sound, err);
    if (status < 0) {
        stk_sound_close(sound);
        return status;
    }
    *out_sound = sound;
    return STOKER_OK;
}

static void drop_kept(struct stk_sound *sound)
{
    if (!sound->kept) return;
    for (size_t i = 0; i < sound->count; i++) av_packet_free(&sound->kept[i]);
    free(sound->kept);
    sound->kept = NULL;
}

void stk_sound_close(struct stk_sound *sound)
{
    if (!sound) return;
    if (sound->av) stk_av_log_enter(&sound->av->log);
    avcodec_free_context(&sound->decoder);
    av_frame_free(&sound->frame);
    av_packet_free(&sound->packet);
    drop_kept(sound);
    if (sound->av) stk_av_log_leave();
    stk_av_close(sound->av);
    free(sound->entries);
    free(sound->room);
    free(sound);
}

const struct stk_sound_facts *stk_sound_facts(const struct stk_sound *sound) { return &sound->facts; }
uint64_t stk_sound_bytes(const struct stk_sound *sound) { return sound->bytes; }
const char *stk_sound_last_message(const struct stk_sound *sound) { return stk_av_last_message(sound->av); }

stoker_status stk_sound_rewind(struct stk_sound *sound, stoker_error *err)
{
    struct stk_av *again = NULL;
    STK_TRY(stk_av_open_type(sound->av->file, AVMEDIA_TYPE_AUDIO, &again, err));
    stk_av_close(sound->av);
    sound->av = again;
    sound->next_read = 0;
    return STOKER_OK;
}

/* ------------------------------------------------------------------------------------------------------------ direct
 */

/* Can the samples of this file be found by arithmetic? Readers of these formats seek to any sample of PCM. */
static bool may_be_direct(const struct stk_sound *sound)
{
    static const char *const formats[] = {"wav", "w64", "aiff", "au"};
    const AVStream *stream = sound->av->stream;
    if (strncmp(sound->facts.codec, "pcm_", 4) != 0 || av_get_exact_bits_per_sample(stream->codecpar->codec_id) <= 0)
        return false;
    if (stream->time_base.num != 1 || stream->time_base.den != stream->codecpar->sample_rate || stream->duration <= 0 ||
        (stream->start_time != AV_NOPTS_VALUE && stream->start_time != 0))
        return false;
    /* They seek by bytes per second: a head that contradicts itself sends them elsewhere. */
    const AVCodecParameters *codec = stream->codecpar;
    const int64_t block_bits = (int64_t)codec->ch_layout.nb_channels * av_get_exact_bits_per_sample(codec->codec_id);
    if (codec->bit_rate != block_bits * codec->sample_rate || (int64_t)codec->block_align * 8 != block_bits)
        return false;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++)
        if (strcmp(sound->av->format->iformat->name, formats[i]) == 0) return true;
    return false;
}

/* Is the last sample where the header says? A cut file is listed instead. */
static bool ends_as_promised(struct stk_sound *sound)
{
    struct stk_av *av = sound->av;
    const int64_t total = av->stream->duration;
    uint64_t reads = 0;
    struct stk_sound_counter counter;
    uint32_t samples = 0;
    if (av_seek_frame(av->format, av->stream->index, total - 1, AVSEEK_FLAG_BACKWARD) < 0) return false;
    if (stk_av_read(av, &reads, NULL) != STOKER_OK || av->packet->pts == AV_NOPTS_VALUE) return false;
    if (stk_sound_counter_init(&counter, av->stream, NULL) < 0) return false;
    bool counted = stk_sound_counter_packet(&counter, av->packet, &samples);
    stk_sound_counter_fini(&counter);
    return counted && av->packet->pts <= total - 1 && av->packet->pts + (int64_t)samples == total;
}

/* -------------------------------------------------------------------------------------------------------------- scan
 */

struct cuts {
    uint32_t front, back;
};

/* Samples that the container wants left out of what a packet decodes to. */
static struct cuts cuts_of(const AVPacket *packet)
{
    size_t size = 0;
    const uint8_t *data = av_packet_get_side_data(packet, AV_PKT_DATA_SKIP_SAMPLES, &size);
    struct cuts cuts = {0, 0};
    if (packet->flags & AV_PKT_FLAG_DISCARD) return (struct cuts){UINT32_MAX, 0};
    if (!data || size < 8) return cuts;
    for (int i = 3; i >= 0; i--) {
        cuts.front = cuts.front << 8 | data[i];
        cuts.back = cuts.back << 8 | data[4 + i];
    }
    return cuts;
}

struct scan {
    struct stk_sound_counter counter;
    size_t cap;
    uint64_t bytes, position, pending; /* samples still to leave out at the front */
    bool counted, keep;
    uint32_t last_samples;
    int64_t last_duration;
    double ticks;
};

static stoker_status grow(struct stk_sound *sound, struct scan *scan, stoker_error *err)
{
    size_t wanted = scan->cap ? scan->cap * 2 : 256, bytes;
    void *entries = stk_mul_size(wanted, sizeof *sound->entries, &bytes) ? realloc(sound->entries, bytes) : NULL;
    if (entries) sound->entries = entries;
    void *kept = scan->keep && entries ? realloc(sound->kept, wanted * sizeof *sound->kept) : NULL;
    if (kept) sound->kept = kept;
    if (!entries || (scan->keep && !kept))
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a table of %zu packets", wanted);
    scan->cap = wanted;
    return STOKER_OK;
}

/* What the head of the file says to leave out at the front; packets that say so themselves come first. */
static uint32_t priming_of(const struct stk_sound *sound)
{
    const AVCodecParameters *codec = sound->av->stream->codecpar;
    const uint8_t *head = codec->extradata;
    if (codec->codec_id == AV_CODEC_ID_OPUS && codec->extradata_size >= 12)
        return (uint32_t)head[10] | (uint32_t)head[11] << 8;
    bool matroska = strstr(sound->av->format->iformat->name, "matroska") != NULL;
    return matroska && codec->initial_padding > 0 ? (uint32_t)codec->initial_padding : 0;
}

static void place(const struct stk_sound *sound, struct scan *scan, const AVPacket *packet)
{
    struct stk_sound_entry *entry = &sound->entries[sound->count];
    uint32_t samples = 0;
    struct cuts cuts = cuts_of(packet);
    if (!scan->counted || !stk_sound_counter_packet(&scan->counter, packet, &samples)) scan->counted = false;
    bool hidden = cuts.front == UINT32_MAX;
    if (sound->count == 0 && cuts.front == 0) cuts.front = priming_of(sound);
    if (!hidden) scan->pending += cuts.front;
    uint64_t front = hidden ? samples : scan->pending < samples ? scan->pending : samples;
    if (!hidden) scan->pending -= front;
    uint64_t kept = samples - front;
    kept -= cuts.back < kept ? cuts.back : kept;
    *entry = (struct stk_sound_entry){scan->position, (uint32_t)front, (uint32_t)kept, (uint32_t)packet->size};
    scan->position += kept;
    scan->last_samples = samples;
    scan->last_duration = packet->duration;
    if (packet->duration > 0 && !hidden) scan->ticks += (double)packet->duration;
}

static stoker_status keep(struct stk_sound *sound, struct scan *scan, stoker_error *err)
{
    struct stk_av *av = sound->av;
    scan->bytes += (uint64_t)av->packet->size;
    if (scan->keep && scan->bytes > sound->keep_bytes) {
        drop_kept(sound);
        scan->keep = false;
    }
    if (sound->count == scan->cap) STK_TRY(grow(sound, scan, err));
    place(sound, scan, av->packet);
    if (scan->keep) {
        STK_ASSERT(sound->kept);
        sound->kept[sound->count] = av_packet_alloc();
        if (!sound->kept[sound->count]) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
        sound->count++; /* owned from here on */
        int result = av_packet_make_refcounted(av->packet);
        if (result < 0) return stk_av_fail(av, result, STOKER_ERR_IO, "cannot keep a packet", err);
        av_packet_move_ref(sound->kept[sound->count - 1], av->packet);
        return STOKER_OK;
    }
    sound->count++;
    return STOKER_OK;
}

/* The last packet of an MP4 lasts as long as its samples are played. */
static void cut_padding(struct stk_sound *sound, struct scan *scan)
{
    const AVStream *stream = sound->av->stream;
    struct stk_sound_entry *last = sound->count ? &sound->entries[sound->count - 1] : NULL;
    if (!last || !strstr(sound->av->format->iformat->name, "mp4") || stream->time_base.num != 1 ||
        stream->time_base.den != stream->codecpar->sample_rate)
        return;
    if (scan->last_duration <= 0 || scan->last_duration >= (int64_t)scan->last_samples) return;
    uint32_t padding = scan->last_samples - (uint32_t)scan->last_duration;
    uint32_t cut = last->front + last->kept > scan->last_samples - padding
                       ? last->front + last->kept - (scan->last_samples - padding)
                       : 0;
    if (cut > last->kept) cut = last->kept;
    last->kept -= cut;
    scan->position -= cut;
}

static stoker_status scan_packets(struct stk_sound *sound, struct scan *scan, stoker_error *err)
{
    uint64_t reads = 0;
    bool last_is_cut = false;
    for (;;) {
        stoker_status status = stk_av_read(sound->av, &reads, err);
        if (status == STOKER_END) break;
        STK_TRY(status);
        last_is_cut = sound->av->packet->flags & AV_PKT_FLAG_CORRUPT;
        STK_TRY(keep(sound, scan, err));
    }
    if (last_is_cut && sound->count > 0 && strncmp(sound->facts.codec, "pcm_", 4) != 0) {
        scan->position = sound->entries[--sound->count].position;
        if (sound->kept) av_packet_free(&sound->kept[sound->count]);
    } else {
        cut_padding(sound, scan);
    }
    return STOKER_OK;
}

static stoker_status list_packets(struct stk_sound *sound, stoker_error *err)
{
    struct scan scan = {.counted = true, .keep = true};
    STK_TRY(stk_sound_counter_init(&scan.counter, sound->av->stream, err));
    sound->memory = scan.counter.memory;
    stoker_status status = scan_packets(sound, &scan, err);
    stk_sound_counter_fini(&scan.counter);
    STK_TRY(status);
    sound->next_read = sound->count;
    sound->facts.counted = scan.counted && sound->count > 0;
    if (!sound->facts.counted) sound->memory = STK_SOUND_MEMORY_LONG;
    sound->facts.samples = sound->facts.counted ? scan.position : 0;
    sound->facts.duration_s = scan.ticks * av_q2d(sound->av->stream->time_base);
    if (sound->facts.counted) sound->facts.duration_s = (double)scan.position / sound->facts.rate;
    return STOKER_OK;
}

stoker_status stk_sound_scan(struct stk_sound *sound, uint64_t keep_bytes_max, stoker_error *err)
{
    STK_ASSERT(!sound->entries && !sound->direct);
    sound->keep_bytes = keep_bytes_max;
    stk_av_log_enter(&sound->av->log);
    sound->direct = may_be_direct(sound) && ends_as_promised(sound);
    stk_av_log_leave();
    if (sound->direct) {
        sound->facts.counted = true;
        sound->facts.samples = (uint64_t)sound->av->stream->duration;
        sound->facts.duration_s = (double)sound->facts.samples / sound->facts.rate;
        return STOKER_OK;
    }
    if (may_be_direct(sound)) STK_TRY(stk_sound_rewind(sound, err)); /* the look at the end moved the reader */
    stk_av_log_enter(&sound->av->log);
    stoker_status status = list_packets(sound, err);
    stk_av_log_leave();
    return status;
}
