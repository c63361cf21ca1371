/* SPDX-License-Identifier: Apache-2.0
 *
 * How the claims of the reproduction stand when a constant that nobody measured, fitted or assumed, is another one:
 * each claim's sign must hold at half and at one and a half of it. And the one assumption on which most of them hang,
 * how many stalls meet every try, from none to all. Fewer seeds than the main tables: a sign needs less.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/compare.h"

enum { SEEDS = 4 };

struct claims {
    double rate, miss, p95;
    uint32_t slower, above_pool;
};

/* Who is in them. */
static const enum sim_contender contenders[] = {SIM_STUDY_ACTOR_POOL, SIM_STUDY_PUBLISHED, SIM_STUDY_OURS};
enum { CONTENDERS = sizeof contenders / sizeof contenders[0] };

static struct sim_study_point point_of(enum sim_contender contender, uint32_t workload)
{
    return (struct sim_study_point){
        .world = SIM_REPRODUCTION, .workload = workload, .contender = contender, .remote = 16};
}

static bool claims_of(struct sim_report *report, const struct sim_constants *constants, struct sim_main_cells *cells,
                      struct claims *out)
{
    for (uint32_t i = 0; i < CONTENDERS; i++)
        for (uint32_t workload = 0; workload < SIM_STUDY_WORKLOADS; workload++) {
            struct sim_study_point point = point_of(contenders[i], workload);
            if (!sim_report_cell_with(report, constants, &point, &cells->cell[contenders[i]][workload])) return false;
        }
    struct sim_aggregate plane = sim_aggregate_of(cells->cell[SIM_STUDY_PUBLISHED]);
    struct sim_aggregate ours = sim_aggregate_of(cells->cell[SIM_STUDY_OURS]);
    *out = (struct claims){.rate = ours.rate / plane.rate,
                           .miss = plane.miss > 0 ? ours.miss / plane.miss : 1,
                           .p95 = plane.wait_p95_s > 0 ? ours.wait_p95_s / plane.wait_p95_s : 1};
    for (uint32_t workload = 0; workload < SIM_STUDY_WORKLOADS; workload++) {
        const struct sim_cell *own = &cells->cell[SIM_STUDY_OURS][workload];
        out->slower += sim_slower(own, &cells->cell[SIM_STUDY_PUBLISHED][workload]);
        out->above_pool += sim_later(own, &cells->cell[SIM_STUDY_ACTOR_POOL][workload]);
    }
    return true;
}

static bool signs_hold(const struct claims *claims)
{
    return claims->rate > 1 && claims->miss < 1 && claims->p95 < 1 && claims->slower == 0 && claims->above_pool == 0;
}

/* Of rank-local, of the ladder's first steps, and of the fair world but for the age of news: nobody whom the claims
 * compare has them. */
static bool matters(const struct sim_constant *constant)
{
    static const char *const others[] = {"local_", "base_", "fair_depth", "fair_control_s"};
    if (constant->origin != SIM_FITTED && constant->origin != SIM_ASSUMED) return false;
    for (uint32_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (strncmp(constant->name, others[i], strlen(others[i])) == 0) return false;
    return true;
}

static void vary(struct sim_report *report, struct sim_table *table, uint32_t index, struct sim_main_cells *cells,
                 uint32_t *settings, uint32_t *lost)
{
    static const char *const origins[] = {"fitted", "measured", "assumed", "tuned"};
    static const double times[] = {0.5, 1.5}, instead_of_zero[] = {0.05, 0.1};
    const struct sim_constant *constant = &sim_constant_list[index];
    for (uint32_t i = 0; i < 2; i++) {
        struct sim_constants constants = report->options->constants;
        double *value = sim_constant_at(&constants, index);
        bool zero = *value == 0;
        *value = zero ? instead_of_zero[i] : *value * times[i];
        struct claims claims;
        if (!claims_of(report, &constants, cells, &claims)) return;
        bool hold = signs_hold(&claims);
        ++*settings;
        *lost += !hold;
        sim_table_add(table, constant->name, origins[constant->origin], zero ? (double)NAN : times[i], *value,
                      claims.rate, claims.miss, claims.p95, (double)claims.slower, (double)claims.above_pool,
                      hold ? "hold" : "LOST");
    }
}

static struct sim_main_cells *begin(struct sim_report *report)
{
    struct sim_main_cells *cells = calloc(1, sizeof *cells);
    STK_ASSERT(cells != NULL);
    if (report->seeds.count > SEEDS) report->seeds.count = SEEDS;
    return cells;
}

void sim_part_sensitivity(struct sim_report *report)
{
    static const struct sim_column columns[] = {
        {"constant", -1}, {"origin", -1},          {"times", 1},
        {"value", 6},     {"throughput_ratio", 3}, {"miss_ratio", 3},
        {"p95_ratio", 3}, {"workloads_slower", 0}, {"workloads_p95_above_actor_pool", 0},
        {"signs", -1}};
    struct sim_table *table = sim_table_make(
        "sensitivity",
        "Ours against the published policy with each fitted or assumed constant halved and half again (0: 0.05, 0.1)",
        columns, sizeof columns / sizeof columns[0]);
    struct sim_seeds seeds = report->seeds;
    struct sim_main_cells *cells = begin(report);
    uint32_t settings = 0, lost = 0;
    for (uint32_t i = 0; i < sim_constant_count; i++)
        if (matters(&sim_constant_list[i])) vary(report, table, i, cells, &settings, &lost);
    free(cells);
    report->seeds = seeds;
    sim_report_table(report, table);
    struct sim_table *marks = sim_claims("sensitivity_marks", "Sensitivity");
    sim_claim(report, marks, "settings that matter", settings, ">=", 1);
    sim_claim(report, marks, "settings at which a sign is lost", lost, "<=", 0);
    sim_report_table(report, marks);
}

enum { MARKS = 5 };

static void test_marks(const struct claims *claims, bool *out)
{
    out[0] = claims->rate >= 1.05;
    out[1] = claims->slower == 0;
    out[2] = claims->miss <= 0.8;
    out[3] = claims->p95 <= 0.8;
    out[4] = claims->above_pool == 0;
}

void sim_part_sticky(struct sim_report *report)
{
    static const double values[] = {0, 0.1, 0.3, 0.5, 0.7, 0.8, 0.9, 1};
    static const struct sim_column columns[] = {
        {"stall_sticky", 1}, {"throughput_ratio", 3},     {"miss_ratio", 3}, {"p95_ratio", 3},
        {"slower", 0},       {"p95_above_actor_pool", 0}, {"signs", -1}};
    static const struct sim_column fall_columns[] = {{"claim", -1}, {"holds_up_to", 1}, {"falls_at", 1}};
    static const char *const names[MARKS] = {
        "throughput against the published policy >= 1.05", "workloads slower than the published policy <= 0",
        "misses against the published policy <= 0.8", "wait p95 against the published policy <= 0.8",
        "workloads with a wait p95 above the actor pool's <= 0"};
    struct sim_table *table =
        sim_table_make("sticky", "Ours against the published policy by the share of stalls that meet every try",
                       columns, sizeof columns / sizeof columns[0]);
    struct sim_table *falls = sim_table_make("sticky_falls", "Where each claim falls", fall_columns, 3);
    struct sim_seeds seeds = report->seeds;
    struct sim_main_cells *cells = begin(report);
    double up_to[MARKS], at[MARKS];
    for (uint32_t mark = 0; mark < MARKS; mark++) up_to[mark] = at[mark] = (double)NAN;
    for (uint32_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        struct sim_constants constants = report->options->constants;
        constants.stall_sticky = values[i];
        struct claims claims;
        if (!claims_of(report, &constants, cells, &claims)) break;
        sim_table_add(table, values[i], claims.rate, claims.miss, claims.p95, (double)claims.slower,
                      (double)claims.above_pool, signs_hold(&claims) ? "hold" : "LOST");
        bool holds[MARKS];
        test_marks(&claims, holds);
        for (uint32_t mark = 0; mark < MARKS; mark++) {
            if (!isnan(at[mark])) continue;
            *(holds[mark] ? &up_to[mark] : &at[mark]) = values[i];
        }
    }
    free(cells);
    report->seeds = seeds;
    for (uint32_t mark = 0; mark < MARKS; mark++) sim_table_add(falls, names[mark], up_to[mark], at[mark]);
    sim_report_table(report, table);
    sim_report_table(report, falls);
}
