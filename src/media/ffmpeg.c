/* SPDX-License-Identifier: Apache-2.0
 *
 * Demultiplexing: opens a file through our own reads, chooses the video stream, lists its packets and hands them out
 * again.
 *
 * Packets are numbered in the order in which a read from the start gives them. A file that is too large to keep is read
 * again, and each packet is recognised by its times and size: whatever a seek does, the decoder gets the packets that
 * the plan names.
 */
#include "media/ffmpeg_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libavutil/display.h>

#include "base/assert.h"
#include "base/error.h"

#define IO_BUFFER_BYTES (64 << 10)
/* Packets of all streams that one pass may read: a day of video at 60 frames a second, with sound, is 10 million. */
#define READS_MAX ((uint64_t)1 << 24)
/* Reading this many packets on is cheaper than a seek, which throws buffered bytes away. */
#define READ_ON_PACKETS 32u

/* ---------------------------------------------------------------------------------------------------------------- open
 */

static int read_bytes(void *user, uint8_t *out, int size)
{
    struct stk_av *av = user;
    size_t got = 0;
    if (stk_file_read(av->file, av->position, out, (size_t)size, &got, &av->io_error) < 0) return AVERROR(EIO);
    av->position += got;
    return got > 0 ? (int)got : AVERROR_EOF;
}

static int64_t seek_bytes(void *user, int64_t offset, int whence)
{
    struct stk_av *av = user;
    int64_t base = 0;
    switch (whence & ~AVSEEK_FORCE) {
    case AVSEEK_SIZE: return (int64_t)av->file->size;
    case SEEK_SET: break;
    case SEEK_CUR: base = (int64_t)av->position; break;
    case SEEK_END: base = (int64_t)av->file->size; break;
    default: return AVERROR(EINVAL);
    }
    int64_t target;
    if (__builtin_add_overflow(base, offset, &target) || target < 0) return AVERROR(EINVAL);
    av->position = (uint64_t)target;
    return target;
}

/* Playlists and references inside a file may name others: none is opened. */
static int refuse_open(AVFormatContext *format, AVIOContext **io, const char *url, int flags, AVDictionary **options)
{
    (void)format, (void)io, (void)url, (void)flags, (void)options;
    return AVERROR(EPERM);
}

static void close_format(struct stk_av *av)
{
    if (!av->format) return;
    AVIOContext *io = av->format->pb;
    avformat_close_input(&av->format);
    if (io) av_freep(&io->buffer);
    avio_context_free(&io);
    av->stream = NULL;
}

/* Formats whose file is a list of other files, or addresses: their media would have to be opened by name. */
static bool names_others(const AVInputFormat *format)
{
    static const char *const lists[] = {"hls",       "applehttp", "dash", "concat", "imf",    "webm_dash_manifest",
                                        "sdp",       "rtsp",      "rtp",  "sap",    "image2", "image2pipe",
                                        "ffmetadata"};
    if (format->flags & AVFMT_NOFILE) return true;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        size_t size = strlen(lists[i]); /* a format has several names, separated by commas */
        for (const char *at = format->name; at; at = strchr(at, ',')) {
            at += *at == ',';
            if (strncmp(at, lists[i], size) == 0 && (at[size] == 0 || at[size] == ',')) return true;
        }
    }
    return false;
}

/* A file that begins as these do is an MP4 file, whatever follows: FFmpeg says the same after asking each of its
 * demultiplexers, which costs a fifth of the scan of a small file. Brands of QuickTime are not among them: such files
 * may be a wrapper of something else. NULL: not one of them. */
static const AVInputFormat *format_of_brand(const struct stk_av *av)
{
    static const char brands[][5] = {"isom", "iso2", "iso4", "iso5", "iso6", "mp41", "mp42", "avc1"};
    uint8_t head[12];
    size_t got = 0;
    stoker_error unused;
    if (stk_file_read(av->file, 0, head, sizeof head, &got, &unused) < 0 || got < sizeof head) return NULL;
    if (memcmp(head + 4, "ftyp", 4) != 0) return NULL;
    for (size_t i = 0; i < sizeof brands / sizeof *brands; i++)
        if (memcmp(head + 8, brands[i], 4) == 0) return av_find_input_format("mp4");
    return NULL;
}

/* No name: the content alone decides about the format. */
static stoker_status choose_format(struct stk_av *av, AVFormatContext *format, const AVInputFormat **out_chosen,
                                   stoker_error *err)
{
    *out_chosen = format_of_brand(av);
    if (*out_chosen) return STOKER_OK;
    int result = av_probe_input_buffer2(format->pb, out_chosen, NULL, format, 0, 0);
    if (result == AVERROR_INVALIDDATA && av->io_error.status == STOKER_OK)
        return stk_fail(err, STOKER_ERR_CORRUPT, "cannot open: neither video nor sound of a format that is known");
    if (result < 0) return stk_av_fail(av, result, STOKER_ERR_CORRUPT, "cannot open", err);
    if (!names_others(*out_chosen)) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_UNSUPPORTED,
                    "a list of other files ('%s') is not opened: expected a file that holds its own media",
                    (*out_chosen)->name);
}

static stoker_status open_format(struct stk_av *av, stoker_error *err)
{
    av->position = 0;
    av->io_error.status = STOKER_OK;
    AVFormatContext *format = avformat_alloc_context();
    uint8_t *buffer = av_malloc(IO_BUFFER_BYTES);
    AVIOContext *io = buffer ? avio_alloc_context(buffer, IO_BUFFER_BYTES, 0, av, read_bytes, NULL, seek_bytes) : NULL;
    AVDictionary *options = NULL;
    if (!format || !io || av_dict_set(&options, "protocol_whitelist", "none", 0) < 0) {
        if (io)
            av_freep(&io->buffer);
        else
            av_free(buffer);
        avio_context_free(&io);
        avformat_free_context(format);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    }
    format->pb = io;
    format->flags |= AVFMT_FLAG_CUSTOM_IO;
    format->io_open = refuse_open;
    /* A WAV file may hold DTS or AC-3 under the name of PCM: 32 KiB tell. The default looks at 2,500 packets, which
     * costs more than decoding them. */
    if (av->type == AVMEDIA_TYPE_AUDIO) format->max_probe_packets = 8;
    const AVInputFormat *chosen;
    stoker_status status = choose_format(av, format, &chosen, err);
    int result = status == STOKER_OK ? avformat_open_input(&format, NULL, chosen, &options) : 0;
    if (result < 0) status = stk_av_fail(av, result, STOKER_ERR_CORRUPT, "cannot open", err);
    av_dict_free(&options);
    if (status < 0) {
        avformat_free_context(format); /* the open that failed freed it */
        av_freep(&io->buffer);
        avio_context_free(&io);
        return status;
    }
    av->format = format;
    return STOKER_OK;
}

static AVStream *choose_stream(AVFormatContext *format, enum AVMediaType type)
{
    AVStream *best = NULL;
    for (unsigned i = 0; i < format->nb_streams; i++) {
        AVStream *stream = format->streams[i];
        if (stream->codecpar->codec_type != type) continue;
        if (stream->disposition & (AV_DISPOSITION_ATTACHED_PIC | AV_DISPOSITION_TIMED_THUMBNAILS)) continue;
        bool better =
            best && (stream->disposition & AV_DISPOSITION_DEFAULT) && !(best->disposition & AV_DISPOSITION_DEFAULT);
        if (!best || better) best = stream;
    }
    return best;
}

/* avformat_find_stream_info() decodes frames to guess, which costs more than some decodes; these containers say all
 * that is needed. */
static bool header_is_complete(const AVFormatContext *format, const AVStream *stream)
{
    const AVCodecParameters *codec = stream ? stream->codecpar : NULL; /* of sound it is never known: 0 pixels */
    if (!codec || codec->codec_id == AV_CODEC_ID_NONE || codec->width <= 0 || codec->height <= 0) return false;
    if (!strstr(format->iformat->name, "mp4") && !strstr(format->iformat->name, "matroska")) return false;
    bool needs_extra = codec->codec_id == AV_CODEC_ID_H264 || codec->codec_id == AV_CODEC_ID_HEVC ||
                       codec->codec_id == AV_CODEC_ID_MPEG4;
    return !needs_extra || codec->extradata_size > 0;
}

static stoker_status open_stream(struct stk_av *av, stoker_error *err)
{
    STK_TRY(open_format(av, err));
    if (!header_is_complete(av->format, choose_stream(av->format, av->type))) {
        int result = avformat_find_stream_info(av->format, NULL);
        if (result < 0 && av->format->nb_streams == 0)
            return stk_av_fail(av, result, STOKER_ERR_CORRUPT, "cannot read the streams", err);
    }
    av->stream = choose_stream(av->format, av->type);
    if (!av->stream)
        return stk_fail(err, STOKER_ERR_NOT_FOUND, "no %s stream", av->type == AVMEDIA_TYPE_AUDIO ? "audio" : "video");
    for (unsigned i = 0; i < av->format->nb_streams; i++)
        if (av->format->streams[i] != av->stream) av->format->streams[i]->discard = AVDISCARD_ALL;
    av->next = 0;
    av->held = UINT32_MAX;
    return STOKER_OK;
}

static int32_t rotation_of(const AVStream *stream)
{
    size_t size = 0;
    const uint8_t *matrix = av_stream_get_side_data(stream, AV_PKT_DATA_DISPLAYMATRIX, &size);
    if (!matrix || size < 9 * sizeof(int32_t)) return 0;
    double counter_clockwise = av_display_rotation_get((const int32_t *)(const void *)matrix);
    if (!isfinite(counter_clockwise)) return 0;
    int quarters = (int)lrint(-counter_clockwise / 90.0);
    return ((quarters % 4 + 4) % 4) * 90;
}

static void set_facts(struct stk_av *av)
{
    const AVCodecParameters *codec = av->stream->codecpar;
    struct stk_av_facts *facts = &av->facts;
    (void)snprintf(facts->codec, sizeof facts->codec, "%s", avcodec_get_name(codec->codec_id));
    facts->width = codec->width > 0 ? (uint32_t)codec->width : 0;
    facts->height = codec->height > 0 ? (uint32_t)codec->height : 0;
    facts->rotation = rotation_of(av->stream);
    facts->time_base = av_q2d(av->stream->time_base);
    AVRational rate = av->stream->avg_frame_rate.num > 0 ? av->stream->avg_frame_rate : av->stream->r_frame_rate;
    facts->frame_rate = rate.num > 0 && rate.den > 0 ? av_q2d(rate) : 0;
    facts->skips = codec->codec_id == AV_CODEC_ID_H264 || codec->codec_id == AV_CODEC_ID_HEVC ||
                   codec->codec_id == AV_CODEC_ID_MPEG4 || codec->codec_id == AV_CODEC_ID_MPEG2VIDEO ||
                   codec->codec_id == AV_CODEC_ID_MPEG1VIDEO;
}

stoker_status stk_av_open_type(const struct stk_file *file, enum AVMediaType type, struct stk_av **out_av,
                               stoker_error *err)
{
    if (file->size == 0) return stk_fail(err, STOKER_ERR_CORRUPT, "the file is empty (0 bytes)");
    struct stk_av *av = calloc(1, sizeof *av);
    if (!av) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    av->file = file;
    av->type = type;
    stk_av_log_enter(&av->log);
    stoker_status status = open_stream(av, err);
    if (status == STOKER_OK) {
        set_facts(av);
        av->packet = av_packet_alloc();
        if (!av->packet) status = stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
    }
    stk_av_log_leave();
    if (status < 0) {
        stk_av_close(av);
        return status;
    }
    *out_av = av;
    return STOKER_OK;
}

stoker_status stk_av_open(const struct stk_file *file, struct stk_av **out_av, stoker_error *err)
{
    return stk_av_open_type(file, AVMEDIA_TYPE_VIDEO, out_av, err);
}

static void drop_kept(struct stk_av *av)
{
    if (!av->kept) return;
    for (size_t i = 0; i < av->table.count; i++) av_packet_free(&av->kept[i]);
    free(av->kept);
    av->kept = NULL;
}

void stk_av_close(struct stk_av *av)
{
    if (!av) return;
    stk_av_log_enter(&av->log);
    avcodec_free_context(&av->decoder);
    av_frame_free(&av->frame);
    drop_kept(av);
    av_packet_free(&av->packet);
    close_format(av);
    stk_av_log_leave();
    free(av->packets);
    free(av->shown);
    free(av);
}

const struct stk_av_facts *stk_av_facts(const struct stk_av *av) { return &av->facts; }

const char *stk_av_last_message(const struct stk_av *av) { return av->log.text; }

/* ---------------------------------------------------------------------------------------------------------------- scan
 */

stoker_status stk_av_read(struct stk_av *av, uint64_t *reads, stoker_error *err)
{
    for (;;) {
        if (++*reads > READS_MAX)
            return stk_fail(err, STOKER_ERR_LIMIT, "more than %llu packets", (unsigned long long)READS_MAX);
        av_packet_unref(av->packet);
        int result = av_read_frame(av->format, av->packet);
        if (result == AVERROR(EAGAIN)) continue;
        if (result == AVERROR(ENOMEM) || av->io_error.status != STOKER_OK)
            return stk_av_fail(av, result, STOKER_ERR_IO, "cannot read a packet", err);
        if (result < 0) return STOKER_END; /* the end, or damage that the demultiplexer cannot pass */
        if (av->packet->stream_index == av->stream->index && av->packet->size > 0) return STOKER_OK;
    }
}

static stoker_status grow(void **array, size_t element, size_t *capacity, stoker_error *err)
{
    size_t wanted = *capacity ? *capacity * 2 : 512, bytes;
    void *larger = stk_mul_size(wanted, element, &bytes) ? realloc(*array, bytes) : NULL;
    if (!larger) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a table of %zu packets", wanted);
    *array = larger;
    *capacity = wanted;
    return STOKER_OK;
}

static struct stk_packet describe(const AVPacket *packet)
{
    struct stk_packet out = {packet->pts, packet->dts, (uint32_t)packet->size, 0, 0};
    if (packet->flags & AV_PKT_FLAG_KEY) out.flags |= STK_PACKET_KEY;
    if (packet->flags & AV_PKT_FLAG_DISCARD) out.flags |= STK_PACKET_HIDDEN;
    return out;
}

/* Bytes of the length before each unit of a packet, 0 if units are not stored so. */
static uint32_t unit_length_bytes(const AVCodecParameters *codec)
{
    const uint8_t *extra = codec->extradata;
    if (codec->codec_id == AV_CODEC_ID_H264 && codec->extradata_size >= 7 && extra[0] == 1) return (extra[4] & 3u) + 1;
    if (codec->codec_id == AV_CODEC_ID_HEVC && codec->extradata_size >= 23 && extra[0] == 1)
        return (extra[21] & 3u) + 1;
    return 0;
}

/* Do the units of a packet fill it? The decoder refuses a packet of which one reaches past the end. */
static bool is_whole(const AVPacket *packet, uint32_t length_bytes)
{
    const uint8_t *at = packet->data;
    size_t left = packet->size > 0 ? (size_t)packet->size : 0;
    while (length_bytes > 0 && left >= length_bytes) {
        uint64_t size = 0;
        for (uint32_t i = 0; i < length_bytes; i++) size = size << 8 | at[i];
        if (size == 0 || size > left - length_bytes) return false;
        at += length_bytes + size;
        left -= length_bytes + (size_t)size;
    }
    return true;
}

static stoker_status scan_packets(struct stk_av *av, uint64_t keep_bytes_max, stoker_error *err)
{
    size_t packets_cap = 0, kept_cap = 0;
    uint64_t bytes = 0, reads = 0;
    bool keep = true, last_is_cut = false;
    int64_t latest = INT64_MIN;
    const uint32_t length_bytes = unit_length_bytes(av->stream->codecpar);
    for (;;) {
        stoker_status status = stk_av_read(av, &reads, err);
        if (status == STOKER_END) break;
        STK_TRY(status);
        size_t index = av->table.count;
        bytes += (uint64_t)av->packet->size;
        if (keep && bytes > keep_bytes_max) {
            drop_kept(av);
            keep = false;
        }
        if (index == packets_cap) STK_TRY(grow((void **)&av->packets, sizeof *av->packets, &packets_cap, err));
        if (keep && index == kept_cap) STK_TRY(grow((void **)&av->kept, sizeof *av->kept, &kept_cap, err));
        av->packets[index] = describe(av->packet);
        last_is_cut = av->packet->flags & AV_PKT_FLAG_CORRUPT;
        if (!last_is_cut && !is_whole(av->packet, length_bytes)) av->table.broken = true;
        if (av->packet->pts != STK_TIME_NONE && av->packet->pts >= latest) {
            latest = av->packet->pts;
            av->last_duration = (double)av->packet->duration;
        }
        if (keep) {
            av->kept[index] = av_packet_alloc();
            if (!av->kept[index]) return stk_fail(err, STOKER_ERR_NO_MEMORY, "out of memory");
            av->table.count = index + 1; /* owned from here on */
            int result = av_packet_make_refcounted(av->packet);
            if (result < 0) return stk_av_fail(av, result, STOKER_ERR_IO, "cannot keep a packet", err);
            av_packet_move_ref(av->kept[index], av->packet);
        }
        av->table.count = index + 1;
    }
    if (last_is_cut && av->table.count > 0) {
        av->table.count--;
        if (av->kept) av_packet_free(&av->kept[av->table.count]);
    }
    return STOKER_OK;
}

stoker_status stk_av_scan(struct stk_av *av, uint64_t keep_bytes_max, stoker_error *err)
{
    STK_ASSERT(!av->packets);
    stk_av_log_enter(&av->log);
    stoker_status status = scan_packets(av, keep_bytes_max, err);
    stk_av_log_leave();
    STK_TRY(status);
    av->next = av->held = UINT32_MAX;
    size_t bytes;
    av->shown = stk_mul_size(av->table.count + 1, sizeof *av->shown, &bytes) ? malloc(bytes) : NULL;
    if (!av->shown) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a table of %zu frames", av->table.count);
    av->table.packets = av->packets;
    av->table.shown = av->shown;
    av->table.shown_count = stk_plan_shown(av->packets, av->table.count, av->shown, &av->table.by_time);
    return STOKER_OK;
}

const struct stk_packet_table *stk_av_table(const struct stk_av *av) { return &av->table; }

double stk_av_duration(const struct stk_av *av)
{
    const struct stk_packet_table *table = &av->table;
    if (table->shown_count == 0) return 0;
    double by_rate = av->facts.frame_rate > 0 ? (double)table->shown_count / av->facts.frame_rate : 0;
    if (!table->by_time) return by_rate;
    double last = av->last_duration;
    double span = (double)table->shown[table->shown_count - 1].pts - (double)table->shown[0].pts;
    if (!(last > 0)) last = table->shown_count > 1 ? span / (double)(table->shown_count - 1) : 0;
    if (!(span + last > 0)) return by_rate;
    return (span + last) * av->facts.time_base;
}

/* ----------------------------------------------------------------------------------------------------------------
 * fetch */

static bool is_packet(const struct stk_av *av, uint32_t index)
{
    const struct stk_packet *expected = &av->packets[index];
    return av->packet->pts == expected->pts && av->packet->size == (int)expected->size;
}

/* Where the packet that was just read stands in the table, near `target`; UINT32_MAX if it cannot be said for certain.
 */
static uint32_t recognise(const struct stk_av *av, uint32_t target)
{
    uint32_t found = UINT32_MAX;
    uint32_t from = target > 4096 ? target - 4096 : 0;
    for (uint32_t i = from; i <= target; i++) {
        if (!is_packet(av, i)) continue;
        if (found != UINT32_MAX) return UINT32_MAX;
        found = i;
    }
    return found;
}

static stoker_status reopen(struct stk_av *av, stoker_error *err)
{
    int index = av->stream->index;
    close_format(av);
    STK_TRY(open_stream(av, err));
    if (av->stream->index != index) return stk_fail(err, STOKER_ERR_CORRUPT, "the file changed while it was read");
    return STOKER_OK; /* av->next is 0 */
}

/* Makes a read give packet `target` or one not far before it. */
static stoker_status move_to(struct stk_av *av, uint32_t target, uint64_t *reads, stoker_error *err)
{
    int64_t dts = av->packets[target].dts;
    av->held = UINT32_MAX;
    if (target > 0 && dts != STK_TIME_NONE &&
        av_seek_frame(av->format, av->stream->index, dts, AVSEEK_FLAG_BACKWARD) >= 0) {
        stoker_status status = stk_av_read(av, reads, err);
        STK_TRY(status);
        uint32_t at = status == STOKER_OK ? recognise(av, target) : UINT32_MAX;
        if (at != UINT32_MAX) {
            av->held = at;
            av->next = at + 1;
            return STOKER_OK;
        }
    }
    return reopen(av, err); /* some formats cannot seek, or land after the target: start again and read on */
}

static stoker_status read_until(struct stk_av *av, uint32_t index, uint64_t *reads, stoker_error *err)
{
    while (av->held != index) {
        stoker_status status = stk_av_read(av, reads, err);
        STK_TRY(status);
        if (status == STOKER_END || !is_packet(av, av->next)) {
            av->stale = av->adopted;
            return stk_fail(err, STOKER_ERR_CORRUPT, "packet %u of %zu reads differently the second time", av->next,
                            av->table.count);
        }
        av->held = av->next++;
    }
    return STOKER_OK;
}

stoker_status stk_av_fetch(struct stk_av *av, uint32_t index, AVPacket **out_packet, stoker_error *err)
{
    STK_ASSERT(index < av->table.count);
    if (av->kept) {
        *out_packet = av->kept[index];
        return STOKER_OK;
    }
    uint64_t reads = 0;
    if (av->held != index && (av->next > index || index - av->next > READ_ON_PACKETS))
        STK_TRY(move_to(av, index, &reads, err));
    STK_TRY(read_until(av, index, &reads, err));
    *out_packet = av->packet;
    return STOKER_OK;
}
