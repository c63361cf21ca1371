/* SPDX-License-Identifier: Apache-2.0
 *
 * Cost profiles (include/stoker/profile.h): measures single samples, and judges the cost model on them.
 */
#include <stoker/profile.h>

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sched/cost.h"
#include "source/work.h"
#include "sys/clock.h"

static const struct {
    const char *name;
    uint32_t kind;
} kinds[] = {
    {"other", STK_COST_OTHER}, {"tokens", STK_COST_TOKENS},      {"video", STK_COST_VIDEO}, {"image", STK_COST_IMAGE},
    {"audio", STK_COST_AUDIO}, {"h264", STK_COST_H264},          {"hevc", STK_COST_HEVC},   {"vp9", STK_COST_VP9},
    {"av1", STK_COST_AV1},     {"mpeg4", STK_COST_MPEG4},        {"jpeg", STK_COST_JPEG},   {"png", STK_COST_PNG},
    {"webp", STK_COST_WEBP},   {"codec", STK_COST_VIDEO_SIMPLE},
};
enum { KIND_COUNT = sizeof kinds / sizeof kinds[0] };

uint32_t stoker_cost_kind_of(const char *name)
{
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (strcmp(kinds[i].name, name) == 0) return kinds[i].kind;
    return STK_COST_VIDEO_SIMPLE;
}

const char *stoker_cost_kind_name(uint32_t kind)
{
    for (size_t i = 0; i < KIND_COUNT; i++)
        if (kinds[i].kind == kind) return kinds[i].name;
    return "other";
}

stoker_status stoker_profile_video(const char *path, const stoker_video_spec *spec, void *dst, stoker_cost_row *out_row,
                                   stoker_error *err)
{
    stoker_media_info info;
    struct stk_source_work work;
    STK_TRY(stoker_media_probe(path, 0, &info, err));
    uint64_t wall = stk_clock_now_ns(), cpu = stk_clock_thread_cpu_ns();
    STK_TRY(stk_source_measure(path, spec, dst, &work, err));
    cpu = stk_clock_thread_cpu_ns() - cpu;
    wall = stk_clock_now_ns() - wall;
    *out_row = (stoker_cost_row){.kind = stoker_cost_kind_of(info.codec),
                                 .samples = 1,
                                 .pixels_in = work.pixels,
                                 .bytes_in = work.bytes,
                                 .pixels_out = (uint64_t)spec->frames * spec->width * spec->height,
                                 .cpu_ns = cpu,
                                 .wall_ns = wall,
                                 .input_bytes = info.bytes,
                                 .output_bytes = stoker_video_sample_bytes(spec)};
    return STOKER_OK;
}

/* ---- judging ---- */

static struct stk_cost_features features_of(const stoker_cost_row *row)
{
    return (struct stk_cost_features){row->samples, row->pixels_in, row->bytes_in, row->pixels_out, row->estimate_ns};
}

static struct stk_cost_key key_of(const stoker_cost_row *row)
{
    return (struct stk_cost_key){0, row->kind, STK_COST_ANY_HOST};
}

static void teach(struct stk_cost_model *model, const stoker_cost_row *row)
{
    const struct stk_cost_result result = {features_of(row), row->cpu_ns, row->wall_ns, row->output_bytes, 0};
    const struct stk_cost_key key = key_of(row);
    (void)stk_cost_learn(model, &key, &result);
}

static double error_of(const struct stk_cost_model *model, const stoker_cost_row *row)
{
    const struct stk_cost_features features = features_of(row);
    const struct stk_cost_key key = key_of(row);
    struct stk_cost cost;
    stk_cost_predict(model, &key, &features, &cost);
    double actual = row->cpu_ns > 0 ? (double)row->cpu_ns : 1, error = (double)cost.cpu_ns / actual - 1;
    return error < 0 ? -error : error;
}

static int rising(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return left < right ? -1 : left > right;
}

static double quantile(const double *sorted, size_t count, double share)
{
    size_t at = (size_t)(share * (double)count);
    return sorted[at < count ? at : count - 1];
}

stoker_status stoker_profile_judge(const stoker_cost_row *rows, size_t count, size_t taught, int go_on,
                                   stoker_cost_judgement *out, stoker_error *err)
{
    if (!rows || taught >= count)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%zu rows of which %zu are taught: none is left to judge",
                        count, taught);
    size_t size = (stk_cost_bytes(STK_COST_CLASSES) + 15) & ~(size_t)15, judged = count - taught;
    void *block = aligned_alloc(16, size), *prior_block = aligned_alloc(16, size);
    double *errors = calloc(2 * judged, sizeof *errors), *prior = errors ? errors + judged : NULL;
    stoker_status status = STOKER_OK;
    if (!block || !prior_block || !errors) {
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to judge %zu rows", count);
    } else {
        struct stk_cost_model *model = stk_cost_init(block, size, STK_COST_CLASSES);
        struct stk_cost_model *untaught = stk_cost_init(prior_block, size, STK_COST_CLASSES);
        for (size_t i = 0; i < taught; i++) teach(model, &rows[i]);
        for (size_t i = taught; i < count; i++) {
            errors[i - taught] = error_of(model, &rows[i]);
            prior[i - taught] = error_of(untaught, &rows[i]);
            if (go_on) teach(model, &rows[i]);
        }
        qsort(errors, judged, sizeof *errors, rising);
        qsort(prior, judged, sizeof *prior, rising);
        *out =
            (stoker_cost_judgement){(uint32_t)judged,   quantile(errors, judged, 0.5), quantile(errors, judged, 0.95),
                                    errors[judged - 1], quantile(prior, judged, 0.5),  quantile(prior, judged, 0.95)};
    }
    free(errors);
    free(prior_block);
    free(block);
    return status;
}
