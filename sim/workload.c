/* SPDX-License-Identifier: Apache-2.0
 *
 * See workload.h.
 */
#include "sim/workload.h"

#include "base/limits.h"
#include "sim/random.h"

struct shape {
    uint32_t frames, side;
};

static const struct shape shapes[SIM_SHAPES] = {{16, 224}, {32, 336}, {64, 448}};

/* Millions of pixels of one source frame: clips near the target size, and high definition. */
static const double kinetics_mpx[SIM_SHAPES] = {0.085, 0.21, 0.31};
static const double openvid_mpx = 0.92, tail_mpx = 1.6;

struct codec {
    double share, a_ms, b_ms; /* a million pixels, a million bytes */
};

static const struct codec codecs[] = {
    {0.66, 0.95, 92}, {0.12, 1.24, 151}, {0.09, 0.90, 119}, {0.07, 0.53, 91}, {0.06, 0.46, 16}};
enum { CODEC_COUNT = sizeof codecs / sizeof codecs[0] };

static uint32_t shape_of(const struct sim_workload *workload, uint64_t step)
{
    return workload->mix == SIM_MIXED ? (uint32_t)(step % SIM_SHAPES) : (uint32_t)workload->mix;
}

static uint64_t tokens_of(enum sim_family family, const struct shape *shape)
{
    uint64_t frames = shape->frames, side = shape->side;
    switch (family) {
    case SIM_VIDEOMAE: return frames / 2 * (side / 16) * (side / 16);
    case SIM_WAN: return ((frames - 1) / 4 + 1) * (side / 16) * (side / 16);
    case SIM_QWEN: break;
    }
    uint64_t enlarged = side < 336 ? 336 : side / 28 * 28; /* the floor of 128 merged patches a frame */
    return frames / 2 * (enlarged / 28) * (enlarged / 28);
}

static double bytes_of(const struct sim_workload *workload, const struct shape *shape)
{
    double values = 3.0 * shape->frames * shape->side * shape->side;
    return values * (workload->family == SIM_QWEN ? 2 : 4) * workload->bytes_scale;
}

static double media_cost_s(const struct sim_workload *workload, uint64_t seed, uint64_t id, uint32_t shape_index)
{
    const struct shape *shape = &shapes[shape_index];
    bool tail = sim_uniform(seed, SIM_STREAM_TAIL, id) < workload->tail_share;
    double time = sim_uniform(seed, SIM_STREAM_TIME, id);
    double seconds = tail ? 20 + 40 * time : workload->data == SIM_OPENVID ? 3 + 7 * time : 2 + 8 * time;
    double frame = tail ? tail_mpx : workload->data == SIM_OPENVID ? openvid_mpx : kinetics_mpx[shape_index];
    frame *= 0.75 + 0.5 * sim_uniform(seed, SIM_STREAM_SIZE, id);
    double pixels = 25 * seconds * frame;
    /* 0.08 bits a pixel is a usual rate of such clips; it varies by half and double. */
    double megabytes = pixels * 0.010 * sim_exp(0.5 * sim_normal(seed, SIM_STREAM_BITRATE, id));
    double draw = sim_uniform(seed, SIM_STREAM_CODEC, id);
    uint32_t codec = 0;
    while (codec + 1 < CODEC_COUNT && draw >= codecs[codec].share) draw -= codecs[codec++].share;
    double out = (double)shape->frames * shape->side * shape->side / 1e6;
    double milliseconds = 1.5 + codecs[codec].a_ms * pixels + codecs[codec].b_ms * megabytes + 2.7 * out;
    milliseconds *= sim_exp(0.05 * sim_normal(seed, SIM_STREAM_NOISE, id));
    return milliseconds / 1e3 * workload->cost_scale;
}

void sim_sample_make(const struct sim_workload *workload, uint64_t seed, uint64_t step, uint64_t id,
                     struct sim_sample *out)
{
    uint32_t shape = shape_of(workload, step);
    double cost = workload->cost_median_s;
    if (workload->cost == SIM_COST_MEDIA)
        cost = media_cost_s(workload, seed, id, shape);
    else if (workload->cost == SIM_COST_LOGNORMAL)
        cost *= sim_exp(workload->cost_sigma * sim_normal(seed, SIM_STREAM_NOISE, id));
    double wrong = sim_exp(workload->predict_sigma * sim_normal(seed, SIM_STREAM_PREDICT, id));
    *out = (struct sim_sample){.id = id,
                               .cost_ns = (uint64_t)(cost * 1e9),
                               .predicted_ns = (uint64_t)(cost * wrong * 1e9),
                               .bytes = (uint64_t)bytes_of(workload, &shapes[shape]),
                               .tokens = tokens_of(workload->family, &shapes[shape]),
                               .shape = shape};
}

uint64_t sim_window_ns(const struct sim_workload *workload, uint64_t seed, uint64_t step, uint32_t rank,
                       uint32_t samples, uint64_t tokens, bool noise)
{
    double window = samples * workload->window_fixed_s + (double)tokens * workload->window_token_s;
    if (noise && workload->window_noise > 0)
        window *= sim_exp(workload->window_noise * sim_normal(seed, SIM_STREAM_WINDOW, step * SIM_RANKS_MAX + rank));
    return (uint64_t)(window * 1e9);
}

static double mean_over_shapes(const struct sim_workload *workload, double (*of)(const struct sim_workload *, uint32_t))
{
    if (workload->mix != SIM_MIXED) return of(workload, (uint32_t)workload->mix);
    double sum = 0;
    for (uint32_t shape = 0; shape < SIM_SHAPES; shape++) sum += of(workload, shape);
    return sum / SIM_SHAPES;
}

static double shape_bytes(const struct sim_workload *workload, uint32_t shape)
{
    return bytes_of(workload, &shapes[shape]);
}

static double shape_window(const struct sim_workload *workload, uint32_t shape)
{
    double tokens = (double)tokens_of(workload->family, &shapes[shape]);
    return workload->batch * (workload->window_fixed_s + tokens * workload->window_token_s);
}

double sim_mean_bytes(const struct sim_workload *workload) { return mean_over_shapes(workload, shape_bytes); }

double sim_nominal_window_s(const struct sim_workload *workload) { return mean_over_shapes(workload, shape_window); }
