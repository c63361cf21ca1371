/* SPDX-License-Identifier: Apache-2.0
 *
 * Where the CPU time of a sample goes: the calls into libavcodec, and all the rest.
 *
 * media_clocks FRAMES SIDE uint8|float32 cost|in-order REPEATS FILE...
 *
 * Scans each file alone, as a manifest is built; then makes one sample of each, as a worker does: opened, scanned,
 * planned, decoded, scaled, stored into memory that was touched before. The linker puts the functions below between
 * stoker's decoder and libavcodec, so that what is measured is the code that ships. Of REPEATS scans and samples of a
 * file the one with the least CPU time counts. The answer is one line of JSON; `scan_shares` is the scan of each file
 * over its sample.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <libavcodec/avcodec.h>

#include "media/decode.h"
#include "media/scan.h"
#include "store/file.h"

static double inside; /* seconds in libavcodec since it was set to 0 */

static double cpu_seconds(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int __real_avcodec_open2(AVCodecContext *context, const AVCodec *codec, AVDictionary **options);
int __wrap_avcodec_open2(AVCodecContext *context, const AVCodec *codec, AVDictionary **options);
int __real_avcodec_send_packet(AVCodecContext *context, const AVPacket *packet);
int __wrap_avcodec_send_packet(AVCodecContext *context, const AVPacket *packet);
int __real_avcodec_receive_frame(AVCodecContext *context, AVFrame *frame);
int __wrap_avcodec_receive_frame(AVCodecContext *context, AVFrame *frame);
void __real_avcodec_flush_buffers(AVCodecContext *context);
void __wrap_avcodec_flush_buffers(AVCodecContext *context);
void __real_avcodec_free_context(AVCodecContext **context);
void __wrap_avcodec_free_context(AVCodecContext **context);

int __wrap_avcodec_open2(AVCodecContext *context, const AVCodec *codec, AVDictionary **options)
{
    double begin = cpu_seconds();
    int result = __real_avcodec_open2(context, codec, options);
    inside += cpu_seconds() - begin;
    return result;
}

int __wrap_avcodec_send_packet(AVCodecContext *context, const AVPacket *packet)
{
    double begin = cpu_seconds();
    int result = __real_avcodec_send_packet(context, packet);
    inside += cpu_seconds() - begin;
    return result;
}

int __wrap_avcodec_receive_frame(AVCodecContext *context, AVFrame *frame)
{
    double begin = cpu_seconds();
    int result = __real_avcodec_receive_frame(context, frame);
    inside += cpu_seconds() - begin;
    return result;
}

void __wrap_avcodec_flush_buffers(AVCodecContext *context)
{
    double begin = cpu_seconds();
    __real_avcodec_flush_buffers(context);
    inside += cpu_seconds() - begin;
}

void __wrap_avcodec_free_context(AVCodecContext **context)
{
    double begin = cpu_seconds();
    __real_avcodec_free_context(context);
    inside += cpu_seconds() - begin;
}

struct measured {
    double cpu, codec;
    uint64_t packets;
};

/* One sample of one file. False: stderr says why. */
static bool measure(struct stk_decoder *decoder, const struct stk_form *form, const char *path, void *sample,
                    struct measured *out)
{
    stoker_video_result result = {0};
    struct stk_file file;
    stoker_error err;
    double begin = cpu_seconds();
    inside = 0;
    stoker_status status = stk_file_open(path, &file, &err);
    if (status == STOKER_OK) {
        status = stk_decoder_video(decoder, &file, form, 0, NULL, sample, &result, &err);
        stk_file_close(&file);
    }
    *out = (struct measured){cpu_seconds() - begin, inside, result.packets_decoded};
    if (status != STOKER_OK) (void)fprintf(stderr, "media_clocks: %s: %s\n", path, err.message);
    return status == STOKER_OK;
}

/* One scan of one file, from its opening on. */
static bool measure_scan(const char *path, double *out_cpu)
{
    struct stk_file file;
    struct stk_scan scan;
    stoker_error err;
    double begin = cpu_seconds();
    stoker_status status = stk_file_open(path, &file, &err);
    if (status == STOKER_OK) {
        status = stk_scan_file(&file, &scan, &err);
        stk_file_close(&file);
    }
    if (status == STOKER_OK) stk_scan_fini(&scan);
    *out_cpu = cpu_seconds() - begin;
    if (status != STOKER_OK) (void)fprintf(stderr, "media_clocks: %s: %s\n", path, err.message);
    return status == STOKER_OK;
}

/* The scan of each file alone, one file after another as a manifest is built; false after one that fails. */
static bool scan_all(long repeats, char **paths, int count, double *out_least)
{
    double one;
    for (long r = 0; r < repeats; r++) {
        for (int i = 0; i < count; i++) {
            if (!measure_scan(paths[i], &one)) return false;
            if (r == 0 || one < out_least[i]) out_least[i] = one;
        }
    }
    return true;
}

/* All files; false after one that fails. */
static bool measure_all(struct stk_decoder *decoder, const struct stk_form *form, long repeats, char **paths, int count,
                        void *sample, const double *scans)
{
    struct measured sum = {0, 0, 0};
    double scan = 0;
    (void)printf("{\"scan_shares\": [");
    for (int i = 0; i < count; i++) {
        struct measured least = {0, 0, 0}, turn;
        for (long r = 0; r < repeats; r++) {
            if (!measure(decoder, form, paths[i], sample, &turn)) return false;
            if (r == 0 || turn.cpu < least.cpu) least = turn;
        }
        sum.cpu += least.cpu;
        sum.codec += least.codec;
        sum.packets += least.packets;
        scan += scans[i];
        (void)printf("%s%.6f", i > 0 ? ", " : "", scans[i] / least.cpu);
    }
    (void)printf("], \"files\": %d, \"cpu_s\": %.6f, \"scan_s\": %.6f, \"libavcodec_s\": %.6f, \"packets\": %llu}\n",
                 count, sum.cpu, scan, sum.codec, (unsigned long long)sum.packets);
    return true;
}

int main(int argc, char **argv)
{
    long frames = argc > 6 ? strtol(argv[1], NULL, 10) : 0, side = argc > 6 ? strtol(argv[2], NULL, 10) : 0;
    long repeats = argc > 6 ? strtol(argv[5], NULL, 10) : 0;
    if (frames < 1 || side < 1 || frames > 65536 || side > 65536 || repeats < 1) {
        (void)fprintf(stderr, "usage: media_clocks FRAMES SIDE uint8|float32 cost|in-order REPEATS FILE...\n");
        return 2;
    }
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    spec.frames = (uint32_t)frames;
    spec.width = spec.height = (uint32_t)side;
    spec.dtype = strcmp(argv[3], "float32") == 0 ? STOKER_DTYPE_FLOAT32 : STOKER_DTYPE_UINT8;
    struct stk_decoder *decoder = NULL;
    struct stk_form form;
    stoker_error err;
    if (stk_form_init(&form, &spec, &err) != STOKER_OK || stk_decoder_create(&decoder, &err) != STOKER_OK) {
        (void)fprintf(stderr, "media_clocks: %s\n", err.message);
        return 1;
    }
    if (strcmp(argv[4], "in-order") == 0) stk_decoder_set_choice(decoder, STK_PLAN_IN_ORDER);
    bool done = false;
    void *sample = malloc(form.sample_bytes);
    double *scans = calloc((size_t)(argc - 6), sizeof *scans);
    if (sample && scans && scan_all(repeats, argv + 6, argc - 6, scans)) {
        memset(sample, 1, form.sample_bytes); /* page faults are the arena's, which reuses its memory */
        done = measure_all(decoder, &form, repeats, argv + 6, argc - 6, sample, scans);
    }
    free(scans);
    free(sample);
    stk_decoder_destroy(decoder);
    return done ? 0 : 1;
}
