/* SPDX-License-Identifier: Apache-2.0
 *
 * The placement rule: see place.h. Gains are signed and saturate, so that no sum of weights and times can wrap.
 */
#include "sched/place.h"

#include <string.h>

#include "base/assert.h"

#define MISS_WEIGHT 4096u
#define GAIN_WEIGHT 1024u
#define TRANSFER_WEIGHT 1024u
#define GAIN_MIN_NS (2 * STK_SECOND_NS / 1000)
#define WEIGHT_MAX (1u << 20)
#define TIME_MAX (INT64_C(1) << 42) /* of a difference: 73 minutes; times WEIGHT_MAX it fits 63 bits */

static const char *const policy_names[] = {"deadline", "cost", "least-request", "round-robin"};
static const char *const reason_names[] = {"only",     "least loaded",  "tie, local",        "round robin",
                                           "cheapest", "local on time", "remote on time",    "earliest finish",
                                           "no gain",  "budget",        "copy of straggler", "probe"};

const char *stk_policy_name(enum stk_policy policy)
{
    STK_ASSERT(policy < sizeof policy_names / sizeof *policy_names);
    return policy_names[policy];
}

const char *stk_place_reason_name(enum stk_place_reason reason)
{
    STK_ASSERT(reason < sizeof reason_names / sizeof *reason_names);
    return reason_names[reason];
}

bool stk_policy_parse(const char *text, enum stk_policy *out_policy)
{
    for (uint32_t i = 0; i < sizeof policy_names / sizeof *policy_names; i++) {
        if (strcmp(text, policy_names[i]) != 0) continue;
        *out_policy = (enum stk_policy)i;
        return true;
    }
    return false;
}

static uint64_t add(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

uint64_t stk_candidate_total_ns(const struct stk_candidate *c)
{
    return add(add(c->cpu_ns, c->io_ns), add(c->queue_ns, c->net_ns));
}

static uint64_t lateness(uint64_t total_ns, uint64_t left_ns) { return total_ns > left_ns ? total_ns - left_ns : 0; }

static uint32_t weight_of(uint32_t weight, uint32_t otherwise)
{
    if (weight == 0) weight = otherwise;
    return weight < WEIGHT_MAX ? weight : WEIGHT_MAX;
}

/* weight / 1024 of a - b */
static int64_t weighted(uint32_t weight, uint64_t a, uint64_t b)
{
    bool negative = a < b;
    uint64_t size = negative ? b - a : a - b;
    int64_t value = (size < (uint64_t)TIME_MAX ? (int64_t)size : TIME_MAX) * weight / 1024;
    return negative ? -value : value;
}

/* Fewer items a worker once each had `items` more? Compared without division. */
static int compare_load(const struct stk_candidate *a, const struct stk_candidate *b, uint32_t items)
{
    uint64_t left = (a->load + items) * b->workers, right = (b->load + items) * a->workers;
    return left < right ? -1 : left > right;
}

static bool wins_tie(const struct stk_candidate *a, const struct stk_candidate *b)
{
    if (a->own != b->own) return a->own;
    if (a->local != b->local) return a->local;
    return a->server < b->server;
}

static uint32_t least_loaded(const struct stk_candidate *c, uint32_t count, uint32_t items,
                             enum stk_place_reason *out_reason)
{
    uint32_t best = STK_PLACE_NONE;
    bool tie = false;
    for (uint32_t i = 0; i < count; i++) {
        if (!c[i].accepts) continue;
        int order = best == STK_PLACE_NONE ? -1 : compare_load(&c[i], &c[best], items);
        if (order < 0) tie = false;
        if (order == 0) tie = true;
        if (order < 0 || (order == 0 && wins_tie(&c[i], &c[best]))) best = i;
    }
    if (best != STK_PLACE_NONE) *out_reason = tie && c[best].local ? STK_REASON_TIE_LOCAL : STK_REASON_LEAST_LOADED;
    return best;
}

/* The smallest T of those that accept (all, if told so) and are local (all, if told so). */
static uint32_t earliest(const struct stk_candidate *c, uint32_t count, bool local_only, bool accepting_only)
{
    uint32_t best = STK_PLACE_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if ((local_only && !c[i].local) || (accepting_only && !c[i].accepts)) continue;
        if (best == STK_PLACE_NONE) {
            best = i;
            continue;
        }
        uint64_t a = stk_candidate_total_ns(&c[i]), b = stk_candidate_total_ns(&c[best]);
        if (a < b || (a == b && wins_tie(&c[i], &c[best]))) best = i;
    }
    return best;
}

/* Half of the time that is left: the other half is for what nobody predicts, work that others place in between. */
static uint64_t safe_ns(const struct stk_place_question *q) { return q->left_ns / 2; }

static int64_t gain_of(const struct stk_place_options *options, const struct stk_candidate *local,
                       const struct stk_candidate *remote, const struct stk_place_question *q)
{
    uint64_t local_ns = stk_candidate_total_ns(local), remote_ns = stk_candidate_total_ns(remote);
    int64_t gain = weighted(weight_of(options->miss_weight, MISS_WEIGHT), lateness(local_ns, safe_ns(q)),
                            lateness(remote_ns, safe_ns(q))) /
                       2 +
                   weighted(weight_of(options->gain_weight, GAIN_WEIGHT), local_ns, remote_ns) / 2;
    int64_t cost = weighted(weight_of(options->transfer_weight, TRANSFER_WEIGHT), remote->net_ns, 0) / 2;
    return gain / 2 - cost / 2; /* each step halves, so that no sum can wrap; the comparison below knows */
}

#define GAIN_SCALE 4 /* gain_of() returns quarters */

/* The remote candidate that gains most over the local one, and more than it must; NONE if there is none. */
static uint32_t best_remote(const struct stk_place_options *options, const struct stk_candidate *c, uint32_t count,
                            const struct stk_candidate *local, const struct stk_place_question *q)
{
    uint64_t need_ns = options->gain_min_ns ? options->gain_min_ns : GAIN_MIN_NS;
    int64_t need = (need_ns < (uint64_t)TIME_MAX ? (int64_t)need_ns : TIME_MAX) / GAIN_SCALE, best_gain = 0;
    uint32_t best = STK_PLACE_NONE;
    for (uint32_t i = 0; i < count; i++) {
        if (c[i].local || !c[i].accepts) continue;
        int64_t gain = gain_of(options, local, &c[i], q);
        if (c[i].server == q->last_remote) gain += need / 2; /* hysteresis */
        if (gain <= need) continue;
        if (best == STK_PLACE_NONE || gain > best_gain || (gain == best_gain && c[i].server < c[best].server)) {
            best = i;
            best_gain = gain;
        }
    }
    return best;
}

/* Neither is the local one on time, nor is there just one candidate. */
static uint32_t choose_late(const struct stk_place_options *options, const struct stk_candidate *c, uint32_t count,
                            uint32_t local, const struct stk_place_question *q, enum stk_place_reason *out_reason)
{
    if (local == STK_PLACE_NONE) { /* nothing local is associated: bytes must cross, whatever the budget says */
        uint32_t best = earliest(c, count, false, true);
        if (best == STK_PLACE_NONE) return best;
        bool late = stk_candidate_total_ns(&c[best]) > q->left_ns;
        *out_reason = late ? STK_REASON_EARLIEST : STK_REASON_REMOTE_ON_TIME;
        return best;
    }
    uint32_t remote = best_remote(options, c, count, &c[local], q);
    if (remote != STK_PLACE_NONE && q->affordable) {
        bool late = stk_candidate_total_ns(&c[remote]) > q->left_ns;
        *out_reason = late ? STK_REASON_EARLIEST : STK_REASON_REMOTE_ON_TIME;
        return remote;
    }
    if (!c[local].accepts) return STK_PLACE_NONE;
    if (remote != STK_PLACE_NONE)
        *out_reason = STK_REASON_BUDGET;
    else if (stk_candidate_total_ns(&c[local]) <= q->left_ns)
        *out_reason = STK_REASON_LOCAL_ON_TIME; /* but for the margin of the model, and nobody is better */
    else
        *out_reason = earliest(c, count, false, false) == local ? STK_REASON_EARLIEST : STK_REASON_NO_GAIN;
    return local;
}

/* Also if the model errs by its 95 % quantile. */
static bool is_on_time(const struct stk_candidate *c, uint64_t left_ns)
{
    return add(stk_candidate_total_ns(c), c->margin_ns) <= left_ns;
}

static uint32_t own_of(const struct stk_candidate *c, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        if (c[i].own) return i;
    return STK_PLACE_NONE;
}

static uint32_t by_deadline(const struct stk_place_options *options, const struct stk_candidate *c, uint32_t count,
                            const struct stk_place_question *q, enum stk_place_reason *out_reason)
{
    uint32_t local = earliest(c, count, true, true);
    if (local == STK_PLACE_NONE) local = earliest(c, count, true, false);
    uint32_t own = own_of(c, count);
    if (own != STK_PLACE_NONE && is_on_time(&c[own], safe_ns(q))) local = own; /* no other can do better than that */
    if (local != STK_PLACE_NONE && is_on_time(&c[local], safe_ns(q))) {
        *out_reason = count == 1 ? STK_REASON_ONLY : STK_REASON_LOCAL_ON_TIME;
        return local; /* also beyond its back-pressure: it is on time with what it has */
    }
    uint32_t chosen = choose_late(options, c, count, local, q, out_reason);
    if (chosen != STK_PLACE_NONE && count == 1) *out_reason = STK_REASON_ONLY;
    return chosen;
}

struct stk_place_answer stk_place_choose(const struct stk_place_options *options,
                                         const struct stk_candidate *candidates, uint32_t count,
                                         const struct stk_place_question *question)
{
    STK_ASSERT(count > 0);
    struct stk_place_answer answer = {.reason = STK_REASON_ONLY};
    switch (options->policy) {
    case STK_POLICY_ROUND_ROBIN:
        answer.index = candidates[0].accepts ? 0 : STK_PLACE_NONE;
        answer.reason = STK_REASON_ROUND_ROBIN;
        break;
    case STK_POLICY_LEAST_REQUEST:
        answer.index = least_loaded(candidates, count, question->items, &answer.reason);
        if (count == 1) answer.reason = STK_REASON_ONLY;
        break;
    case STK_POLICY_COST:
        answer.index = earliest(candidates, count, false, true);
        answer.reason = count == 1 ? STK_REASON_ONLY : STK_REASON_CHEAPEST;
        break;
    case STK_POLICY_DEADLINE: answer.index = by_deadline(options, candidates, count, question, &answer.reason); break;
    }
    if (answer.index == STK_PLACE_NONE) return answer;
    answer.total_ns = stk_candidate_total_ns(&candidates[answer.index]);
    answer.late_ns = lateness(answer.total_ns, question->left_ns);
    return answer;
}
