/* SPDX-License-Identifier: Apache-2.0
 *
 * What a run is made of: the machines, the work, the faults, and the contender that feeds the ranks. Everything that a
 * scenario may say and everything that the study fits is a number here. Times are seconds, rates GB (1e9 bytes) a
 * second, sizes bytes; the run turns them into integers once.
 */
#ifndef SIM_CONFIG_H
#define SIM_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#define SIM_NAME_BYTES 64u
#define SIM_FAULTS_MAX 64u
#define SIM_SHAPES 3u /* 16 frames @ 224, 32 @ 336, 64 @ 448 */
#define SIM_RANKS_MAX 4096u
#define SIM_SERVERS_MAX 16384u
#define SIM_CORES_MAX 1024u /* of one server */
#define SIM_BATCH_MAX 256u  /* samples of one rank's batch */
#define SIM_DEPTH_MAX 64u
#define SIM_PEER_NS (10 * UINT64_C(1000000000))
#define SIM_STEPS_MAX 100000u

/* The machines. Ranks are spread over `rank_hosts` hosts; each rank has a local DataServer on its host, and `remote`
 * more stand on hosts of their own. */
struct sim_machines {
    uint32_t ranks, rank_hosts;
    uint32_t cores;  /* of each local and remote DataServer */
    uint32_t remote; /* remote DataServers */
    uint32_t remote_per_host;
    double link_gbps; /* of each host, each way */
    double link_latency_s;
    double link_gbps_remote; /* of the hosts of remote servers; 0: link_gbps */
    /* A host that has received from more than `peers_free` servers in SIM_PEER_NS loses its footing: a transfer stalls
       with a chance of `peers_stall` for each such server, over peers_free, for `peers_stall_s`. */
    double peers_free, peers_stall, peers_stall_s;
};

enum sim_cost_kind { SIM_COST_MEDIA, SIM_COST_LOGNORMAL, SIM_COST_CONSTANT };
enum sim_data { SIM_KINETICS, SIM_OPENVID };
enum sim_mix { SIM_SMALL, SIM_MID, SIM_LARGE, SIM_MIXED };
enum sim_family { SIM_VIDEOMAE, SIM_QWEN, SIM_WAN };

/* The work: sizes, costs and windows. */
struct sim_workload {
    char name[SIM_NAME_BYTES];
    enum sim_data data;
    enum sim_mix mix;
    enum sim_family family;
    uint32_t batch; /* samples of a rank in a step */
    uint32_t micro; /* samples of a micro-batch: what a plane with fan-out places at a time */
    enum sim_cost_kind cost;
    double cost_scale;                     /* MEDIA: times the cost of the built-in model */
    double cost_median_s, cost_sigma;      /* LOGNORMAL; CONSTANT takes the median */
    double tail_share;                     /* samples that are cut from a long clip of large frames */
    double window_fixed_s, window_token_s; /* a sample takes fixed + tokens x per token of the window */
    double window_noise;                   /* deviation of the logarithm */
    double bytes_scale;
    double predict_sigma; /* of the logarithm of predicted / real cost */
};

enum sim_fault_kind { SIM_FAULT_KILL, SIM_FAULT_SLOW, SIM_FAULT_LINK, SIM_FAULT_MUTE };

struct sim_fault {
    enum sim_fault_kind kind;
    uint32_t server;      /* LINK: its host's link; MUTE: its heartbeats are lost */
    double at_s, until_s; /* KILL: it is back, empty, at until_s; 0: never */
    double factor;        /* SLOW, LINK: how many times slower */
};

struct sim_messages {
    double lost;    /* share of heartbeats that never come */
    double doubled; /* share of results that come twice */
};

enum sim_policy_kind {
    SIM_RANK_LOCAL, /* a loader of each rank's own, batch i on worker i mod n */
    SIM_ACTOR_POOL, /* one queue before all cores */
    SIM_LEAST,      /* least outstanding requests, over all servers */
    SIM_PUBLISHED,  /* local if on time, else the best deadline score */
    SIM_ENGINE      /* the shipped engine and dispatcher */
};
enum sim_unit { SIM_UNIT_BATCH, SIM_UNIT_MICRO, SIM_UNIT_SAMPLE };

/* What a system costs beside the samples themselves. The reproduction fits these; the fair world sets only those that
 * were measured. */
struct sim_overheads {
    double cost_factor;           /* CPU time of a sample, times */
    double task_s;                /* CPU time of a piece, beside its samples */
    double task_gbps;             /* and GB of its bytes that a core handles in a second (0: for nothing) */
    double control_s;             /* from request to the decision, and from the decision to the server */
    double remote_s, remote_gbps; /* a transfer from another host: fixed, and what handles its bytes (0: nothing) */
    double local_s, local_gbps;   /* from made to ready on the rank's host */
    double next_s, next_gbps;     /* inside next() */
    double stall_rate;            /* share of samples whose making stalls, without CPU use, keeping the worker */
    double stall_median_s, stall_sigma; /* log-normal */
    double stall_bytes;                 /* the stall grows with (bytes / mean)^this */
    double stall_sticky;                /* share of stalls that meet a second try too */
    double hiccup_rate, hiccup_s;       /* share of next() calls that stall, exponential, grown as stalls are */
};

enum sim_engine_policy { SIM_ENGINE_DEADLINE, SIM_ENGINE_COST, SIM_ENGINE_LEAST, SIM_ENGINE_ROUND_ROBIN };

struct sim_system {
    char name[SIM_NAME_BYTES];
    enum sim_policy_kind policy;
    uint32_t workers;    /* RANK_LOCAL: of each rank; ACTOR_POOL: one-core slots (0: all cores) */
    uint32_t depth;      /* batches asked for ahead */
    enum sim_unit place; /* what is placed at a time */
    enum sim_unit piece; /* what one core makes at a time */
    bool planned;        /* samples of a step are dealt by predicted cost, not in order */
    struct sim_overheads overheads;
    /* PUBLISHED: its score. */
    double feedback;    /* weight of a new latency in the running mean */
    double remote_gain; /* a remote server must promise this share less than the local one */
    double miss_weight;
    /* ENGINE. */
    enum sim_engine_policy engine_policy;
    double heartbeat_s;
    uint32_t hold, copy_percent; /* the engine's options; 0: its defaults */
    double budget_gb_step;       /* bytes that may cross hosts in a step; 0: no limit */
};

struct sim_config {
    char name[SIM_NAME_BYTES];
    struct sim_machines machines;
    struct sim_workload workload;
    struct sim_system system;
    struct sim_messages messages;
    uint32_t fault_count;
    struct sim_fault faults[SIM_FAULTS_MAX];
    uint32_t warmup, steps;
    double data_deadline_s; /* a longer wait is a miss; 0: max(10 ms, 2 % of the nominal window) (rule E1) */
    bool data_only;         /* windows are the nominal ones, without noise */
};

#endif
