/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of a few candidates makes a task: the placement rule, apart from the tables that find the candidates.
 *
 *     T = cpu + io + queue + net        predicted time until the batch lies in its rank's host
 *     M = max(0, T - D)                 how late that is; D is the time left until the rank wants it
 *
 * Policy DEADLINE: the rank's own server, else the best local one, wins if it is on time in half of D even if the model
 * errs by its 95 % quantile: the other half is for what nobody predicts, work that others place in between. If the
 * local one would be late, the remote one that gains most wins, if it gains enough; if all are late, the earliest to
 * finish. The gain of a remote candidate over the local one, in nanoseconds and with M for half of D, is
 *
 *     gain = miss_weight * (M_local - M) + gain_weight * (T_local - T) - transfer_weight * net
 *
 * with weights in 1/1024. What may cross hosts at all is said by sched/budget. A remote candidate that was chosen last
 * for the same lane needs half the gain (hysteresis). COST knows no deadlines, LEAST_REQUEST and ROUND_ROBIN no costs.
 *
 * Pure: integers only; ties go to the rank's own server, then to local ones, then to the lower number.
 */
#ifndef STK_SCHED_PLACE_H
#define STK_SCHED_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/limits.h"

#define STK_PLACE_NONE UINT32_MAX
#define STK_PLACE_CANDIDATES_MAX 512u

enum stk_policy {
    STK_POLICY_DEADLINE = 0, /* the default */
    STK_POLICY_COST = 1,
    STK_POLICY_LEAST_REQUEST = 2, /* what the published system does by default */
    STK_POLICY_ROUND_ROBIN = 3
};

/* Numbers travel in journals and status and stay what they are. */
enum stk_place_reason {
    STK_REASON_ONLY = 0,         /* there was one candidate */
    STK_REASON_LEAST_LOADED = 1, /* LEAST_REQUEST */
    STK_REASON_TIE_LOCAL = 2,    /* LEAST_REQUEST: as little loaded as others, and local */
    STK_REASON_ROUND_ROBIN = 3,
    STK_REASON_CHEAPEST = 4, /* COST: the smallest T */
    STK_REASON_LOCAL_ON_TIME = 5,
    STK_REASON_REMOTE_ON_TIME = 6, /* the local one would be late, this one gains enough and is on time */
    STK_REASON_EARLIEST = 7,       /* all are late: the earliest to finish */
    STK_REASON_NO_GAIN = 8,        /* the local one is late, no remote one gains enough */
    STK_REASON_BUDGET = 9,         /* a remote one would gain enough, but its bytes are not in the budget */
    STK_REASON_COPY = 10,          /* a second copy of a straggler */
    STK_REASON_PROBE = 11          /* a second copy, by which a server that has not answered yet proves itself */
};

/* Short names, as status and reports show them. */
const char *stk_policy_name(enum stk_policy policy);
const char *stk_place_reason_name(enum stk_place_reason reason);
/* False for a text that names none. */
bool stk_policy_parse(const char *text, enum stk_policy *out_policy);

struct stk_place_options {
    enum stk_policy policy;
    uint32_t miss_weight, gain_weight, transfer_weight; /* in 1/1024; 0: the default (4096, 1024, 1024) */
    uint64_t gain_min_ns;                               /* what a remote placement must gain; 0: the default, 2 ms */
};

struct stk_candidate {
    uint32_t server;
    bool own;     /* the rank's own DataServer, which delivers: it wins ties */
    bool local;   /* on the rank's host: no byte crosses a network */
    bool accepts; /* below its back-pressure limit */
    uint64_t cpu_ns, io_ns, queue_ns, net_ns;
    uint64_t work_ns;       /* CPU and I/O time of the whole task there, by which its backlog grows */
    uint64_t margin_ns;     /* what the model's 95 % quantile adds to cpu + io */
    uint64_t load, workers; /* items placed and not answered: LEAST_REQUEST */
};

/* T, and T with the margin. Sums stay at the largest value. */
uint64_t stk_candidate_total_ns(const struct stk_candidate *candidate);

struct stk_place_question {
    uint64_t left_ns;     /* D */
    bool affordable;      /* the budget has them */
    uint32_t last_remote; /* the lane's remote server of last time, or STK_PLACE_NONE */
    uint32_t items;
};

struct stk_place_answer {
    uint32_t index; /* among the candidates; STK_PLACE_NONE: hold the task, nobody accepts it */
    enum stk_place_reason reason;
    uint64_t total_ns, late_ns; /* T and M of the chosen one */
};

/* `candidates` has `count` entries, at least one, in any order. For ROUND_ROBIN the caller passes the one whose turn it
 * is. */
struct stk_place_answer stk_place_choose(const struct stk_place_options *options,
                                         const struct stk_candidate *candidates, uint32_t count,
                                         const struct stk_place_question *question);

#endif
