/* SPDX-License-Identifier: Apache-2.0
 *
 * What a sample will cost before it is made, learned from what samples did cost (rule D2).
 *
 *     cpu_ns = c0 * samples + a * Mpx_in + b * MB_in + s * Mpx_out + h * hint_ns
 *     io_ns  = d0 * samples + d * MB_in + g * hint_ns
 *
 * Features are those of the packets that the decode plan will really decode; they add up, so the features of a batch
 * are the sums of its samples'. One model for each (job, class, host), where a class is a codec or a kind of source,
 * and one for each (job, class) over all hosts, from which a host that has done nothing yet starts.
 *
 * Least squares of relative errors (rows scaled by 1 / y) with forgetting, in information form: the prior is a part of
 * the normal equations that is never forgotten, so the covariance is bounded by it whatever comes; each solution is the
 * exact one within [prior / 8, 8 * prior], which keeps coefficients positive (docs/decisions/0175). A residual beyond
 * the model's own p95 is cut to it before it teaches. Retried, failed, killed and first-on-a-worker tasks teach
 * nothing. C_cpu learns from CPU time, C_io from wall time minus CPU time.
 *
 * Pure: one block of the caller, sized once; when the table is full the model that learned least recently makes room.
 * Same calls, same bits, on every machine. Predictions are whole nanoseconds. One owner.
 */
#ifndef STK_SCHED_COST_H
#define STK_SCHED_COST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/limits.h"

struct stk_cost_model;

/* Numbers travel in messages and stay what they are. */
enum stk_cost_class {
    STK_COST_OTHER = 0, /* no built-in prior: Python datasets. Their first results are their prior */
    STK_COST_TOKENS = 1,
    STK_COST_VIDEO = 2, /* of a codec that is not known before the file is opened */
    STK_COST_H264 = 3,
    STK_COST_HEVC = 4,
    STK_COST_VP9 = 5,
    STK_COST_AV1 = 6,
    STK_COST_MPEG4 = 7,
    STK_COST_VIDEO_SIMPLE = 8, /* MPEG-1 and -2, VP8, MJPEG, ProRes, GIF...: codecs without a prior of their own */
    STK_COST_IMAGE = 9,        /* of a format that is not known before the file is opened */
    STK_COST_JPEG = 10,
    STK_COST_PNG = 11,
    STK_COST_WEBP = 12,
    STK_COST_AUDIO = 13,
    STK_COST_CLASSES = 14
};

#define STK_COST_ANY_HOST UINT32_MAX

struct stk_cost_key {
    uint32_t job, class_id, host; /* class_id: enum stk_cost_class */
};

/* What is known before the sample is made; what is not known is 0. */
struct stk_cost_features {
    uint64_t samples;    /* 1, or of a whole batch */
    uint64_t pixels_in;  /* of the packets that will be decoded */
    uint64_t bytes_in;   /* of the same packets; of the file where there is no packet table */
    uint64_t pixels_out; /* of the tensors */
    uint64_t hint_ns;    /* what the user's estimate_cost() said */
};

/* Adds those of one more sample; sums that would not fit stay at the largest value. */
void stk_cost_features_add(struct stk_cost_features *sum, const struct stk_cost_features *more);

enum stk_cost_flag { /* a result with any of them teaches nothing */
                     STK_COST_RETRIED = 1,
                     STK_COST_FAILED = 2,         /* or killed */
                     STK_COST_FIRST_ON_WORKER = 4 /* opens files, loads codecs, touches fresh pages */
};

struct stk_cost_result {
    struct stk_cost_features features;
    uint64_t cpu_ns, wall_ns; /* a wall time below the CPU time counts as equal to it */
    uint64_t output_bytes;
    uint32_t flags; /* enum stk_cost_flag */
};

struct stk_cost {
    uint64_t cpu_ns, io_ns;
    uint64_t late_ns;      /* cpu_ns + io_ns at the model's 95 % quantile: what the deadline test compares. Never below
                              cpu_ns + io_ns */
    uint64_t output_bytes; /* the mean of samples that were made, for those whose descriptor does not tell; 0: none */
    uint32_t learned;      /* results behind it, at most UINT32_MAX; 0: the prior alone */
};

/* Bytes of the block that init needs, aligned to 16, for `models` models (1...STK_COST_MODELS_MAX). */
size_t stk_cost_bytes(uint32_t models);
struct stk_cost_model *stk_cost_init(void *block, size_t size, uint32_t models);

/* The cost of those features. A class beyond the known ones counts as OTHER. */
void stk_cost_predict(const struct stk_cost_model *model, const struct stk_cost_key *key,
                      const struct stk_cost_features *features, struct stk_cost *out);
/* Learns from a result, for the host and for all hosts (only for the latter if that is the key's host). False if it
 * teaches nothing: a flag is set, or it took no time or has no samples. */
bool stk_cost_learn(struct stk_cost_model *model, const struct stk_cost_key *key, const struct stk_cost_result *result);

/* Relative error |predicted - actual| / actual of CPU plus I/O time that 95 % (permille 950; 1...1000) of the last
 * STK_COST_RESIDUALS results stayed within, in permille; of a model without results that of the priors. */
uint32_t stk_cost_error_permille(const struct stk_cost_model *model, const struct stk_cost_key *key, uint32_t permille);
#define STK_COST_RESIDUALS 128u

/* Models of a job that ended, or of a host that left. */
void stk_cost_forget_job(struct stk_cost_model *model, uint32_t job);
void stk_cost_forget_host(struct stk_cost_model *model, uint32_t host);

/* Coefficients in nanoseconds a unit (sample, Mpx, MB, Mpx, ns), for status and tests; `io` too has five, of which two
 * are 0. */
struct stk_cost_coefficients {
    double cpu[5], io[5];
};
void stk_cost_prior(uint32_t class_id, struct stk_cost_coefficients *out);
void stk_cost_coefficients(const struct stk_cost_model *model, const struct stk_cost_key *key,
                           struct stk_cost_coefficients *out);
/* Models in the table. */
uint32_t stk_cost_count(const struct stk_cost_model *model);

#endif
