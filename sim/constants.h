/* SPDX-License-Identifier: Apache-2.0
 *
 * The numbers of the published study that it did not publish. Each has a name, where it comes from, and what it says;
 * the tables, --set and the sensitivity runs all walk this one list.
 */
#ifndef SIM_CONSTANTS_H
#define SIM_CONSTANTS_H

#include <stdbool.h>
#include <stdint.h>

enum sim_origin {
    SIM_FITTED,   /* chosen so that the published relations come out */
    SIM_MEASURED, /* by a command of this repository */
    SIM_ASSUMED,  /* read from the published set-up, or a plain figure of such machines */
    SIM_TUNED     /* an option of ours, chosen on seeds 1 to 20 */
};

/* name, value, origin, what it says */
#define SIM_CONSTANTS(X)                                                                                               \
    X(batch, 4, SIM_ASSUMED, "samples of a rank in a step")                                                            \
    X(link_gbps, 12.5, SIM_ASSUMED, "GB/s of a host's link, each way")                                                 \
    X(link_latency_s, 50e-6, SIM_ASSUMED, "one way between hosts")                                                     \
    X(tail_share, 0.003, SIM_ASSUMED, "samples cut from long clips of large frames")                                   \
    X(window_noise, 0.03, SIM_ASSUMED, "deviation of log(window)")                                                     \
    X(predict_sigma, 0.15, SIM_MEASURED, "deviation of log(predicted / real cost): median error 10 %, p95 28 %")       \
    X(videomae_fixed_s, 0.15, SIM_ASSUMED, "window of a sample, fixed part")                                           \
    X(videomae_token_s, 1.0e-5, SIM_ASSUMED, "and for each token")                                                     \
    X(qwen_fixed_s, 0.17, SIM_ASSUMED, "window of a sample, fixed part")                                               \
    X(qwen_token_s, 2.4e-5, SIM_ASSUMED, "and for each token")                                                         \
    X(wan_fixed_s, 0.13, SIM_ASSUMED, "window of a sample, fixed part")                                                \
    X(wan_token_s, 2.0e-5, SIM_ASSUMED, "and for each token")                                                          \
    X(window_scale, 0.5354, SIM_FITTED, "all windows, times")                                                          \
    X(cost_scale, 0.1412, SIM_FITTED, "CPU time of a sample, times that of the decode model")                          \
    X(data_deadline_s, 0.01332, SIM_FITTED, "an input wait above it is a miss")                                        \
    X(peers_free, 16, SIM_ASSUMED, "servers that a host may receive from without harm: throughput falls beyond 16")    \
    X(peers_stall, 0.07056, SIM_FITTED, "chance that a transfer stalls, for each server more, over peers_free")        \
    X(peers_stall_s, 8.333, SIM_FITTED, "how long")                                                                    \
    X(stall_bytes, 0.5313, SIM_FITTED, "stalls grow with (bytes / mean bytes)^this")                                   \
    X(stall_sticky, 0.1, SIM_ASSUMED, "samples whose stall meets every try")                                           \
    X(local_workers, 4, SIM_ASSUMED, "rank-local: workers of a rank")                                                  \
    X(local_depth, 8, SIM_ASSUMED, "rank-local: batches asked for ahead (two a worker)")                               \
    X(local_task_s, 0.0375, SIM_FITTED, "rank-local: CPU time of a batch beside its samples")                          \
    X(local_stall_rate, 0.00425, SIM_FITTED, "rank-local: share of samples whose making stalls")                       \
    X(local_stall_s, 70.59, SIM_FITTED, "rank-local: median stall")                                                    \
    X(local_stall_sigma, 0.01189, SIM_FITTED, "rank-local: deviation of log(stall)")                                   \
    X(local_hiccup_rate, 0.09563, SIM_FITTED, "rank-local: share of next() calls that stall")                          \
    X(local_hiccup_s, 0.05265, SIM_FITTED, "rank-local: mean of those")                                                \
    X(pool_depth, 2, SIM_ASSUMED, "actor pool: batches asked for ahead")                                               \
    X(pool_task_s, 0.15, SIM_FITTED, "actor pool: CPU time of a task beside its sample")                               \
    X(pool_ready_s, 0.02833, SIM_FITTED, "actor pool: from made to ready")                                             \
    X(pool_stall_rate, 0.0014, SIM_FITTED, "actor pool: share of samples whose making stalls")                         \
    X(pool_stall_s, 24, SIM_FITTED, "actor pool: median stall")                                                        \
    X(pool_stall_sigma, 0.8, SIM_FITTED, "actor pool: deviation of log(stall)")                                        \
    X(pool_hiccup_rate, 0.078, SIM_FITTED, "actor pool: share of next() calls that stall")                             \
    X(pool_hiccup_s, 2.222, SIM_FITTED, "actor pool: mean of those")                                                   \
    X(plane_depth, 2, SIM_ASSUMED, "published: batches asked for ahead")                                               \
    X(plane_control_s, 0.000806, SIM_FITTED, "published: one way of a control message")                                \
    X(plane_task_s, 0.0007934, SIM_FITTED, "published: CPU time of a task beside its samples")                         \
    X(plane_ready_s, 0.0001982, SIM_FITTED, "published: from made to ready")                                           \
    X(plane_remote_s, 0.0006193, SIM_FITTED, "published: a transfer between hosts, fixed part")                        \
    X(plane_remote_gbps, 100.9, SIM_FITTED, "published: what handles the bytes of a transfer")                         \
    X(plane_stall_rate, 0.006275, SIM_FITTED, "published: share of samples whose making stalls")                       \
    X(plane_stall_s, 9.297, SIM_FITTED, "published: median stall")                                                     \
    X(plane_stall_sigma, 0.1264, SIM_FITTED, "published: deviation of log(stall)")                                     \
    X(plane_feedback, 0.04759, SIM_FITTED, "published: weight of a new latency in the running mean")                   \
    X(plane_remote_gain, 0, SIM_FITTED, "published: share by which a remote server must be better")                    \
    X(plane_miss_weight, 4, SIM_FITTED, "published: weight of lateness in the score")                                  \
    X(base_depth, 1, SIM_ASSUMED, "published, first two steps of the ladder: batches asked for ahead")                 \
    X(base_remote_s, 0.05, SIM_FITTED, "published, without its transport: a transfer, fixed part")                     \
    X(base_remote_gbps, 1.5, SIM_FITTED, "published, without its transport: what handles the bytes")                   \
    X(base_ready_s, 0.05, SIM_FITTED, "published, without its transport: from made to ready")                          \
    X(ours_hold, 0, SIM_TUNED, "ours: items of a worker beyond which a server takes no more; 0: no limit")             \
    X(ours_copy_percent, 0, SIM_TUNED,                                                                                 \
      "ours: a task is a straggler past this share of its predicted time; 0: the engine's default")                    \
    X(fair_cost_scale, 1, SIM_MEASURED, "fair world: CPU time of a sample, times the decode model's (bench loader)")   \
    X(fair_depth, 8, SIM_ASSUMED, "fair world: batches asked for ahead, by every system")                              \
    X(fair_control_s, 1e-4, SIM_ASSUMED, "fair world: one way of a control message, any system")                       \
    X(fair_heartbeat_s, 1, SIM_ASSUMED, "age that news of a server may have")                                          \
    X(fair_local_task_gbps, 1.72, SIM_MEASURED,                                                                        \
      "fair world: GB/s of a stock worker's hand-off: 64 MiB in 39.0 ms (bench handoff)")                              \
    X(fair_ours_task_gbps, 15.8, SIM_MEASURED, "fair world: GB/s of our hand-off: 64 MiB in 4.24 ms (bench handoff)")

#define SIM_CONSTANT_FIELD(name, value, origin, text) double name;
struct sim_constants {
    SIM_CONSTANTS(SIM_CONSTANT_FIELD)
};
#undef SIM_CONSTANT_FIELD

struct sim_constant {
    const char *name, *text;
    double value; /* the default */
    enum sim_origin origin;
    uint32_t offset;
};

extern const struct sim_constant sim_constant_list[];
extern const uint32_t sim_constant_count;

void sim_constants_default(struct sim_constants *out);
double *sim_constant_at(struct sim_constants *constants, uint32_t index);
/* NULL for a name that is none. */
double *sim_constant_named(struct sim_constants *constants, const char *name);

#endif
