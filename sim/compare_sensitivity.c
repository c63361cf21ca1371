/* SPDX-License-Identifier: Apache-2.0
 *
 * How the claims stand when a fitted constant is half or one and a half of what was fitted: each claim's sign must
 * hold. Fewer seeds than the main tables: a sign needs less.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "sim/compare.h"

enum { SEEDS = 4 };

struct claims {
    double rate, miss, p95;
    uint32_t slower, above_pool;
};

static bool claims_of(struct sim_report *report, const struct sim_constants *constants, struct sim_main_cells *cells,
                      struct claims *out)
{
    if (!sim_main_run(report, constants, SIM_REPRODUCTION, SIM_STUDY_OURS + 1, cells)) return false;
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

void sim_part_sensitivity(struct sim_report *report)
{
    static const struct sim_column columns[] = {{"constant", -1},
                                                {"times", 1},
                                                {"throughput_ratio", 3},
                                                {"miss_ratio", 3},
                                                {"p95_ratio", 3},
                                                {"workloads_slower", 0},
                                                {"workloads_p95_above_actor_pool", 0},
                                                {"signs", -1}};
    struct sim_table *table = sim_table_make(
        "sensitivity", "Ours against the published policy with each fitted constant halved and half again", columns,
        sizeof columns / sizeof columns[0]);
    struct sim_main_cells *cells = calloc(1, sizeof *cells);
    STK_ASSERT(cells != NULL);
    struct sim_seeds seeds = report->seeds;
    if (report->seeds.count > SEEDS) report->seeds.count = SEEDS;
    uint32_t lost = 0;
    for (uint32_t i = 0; i < sim_constant_count; i++) {
        if (sim_constant_list[i].origin != SIM_FITTED) continue;
        for (uint32_t half = 1; half <= 3; half += 2) {
            struct sim_constants constants = report->options->constants;
            double *value = sim_constant_at(&constants, i);
            *value *= half / 2.0;
            struct claims claims;
            if (!claims_of(report, &constants, cells, &claims)) break;
            bool hold = claims.rate > 1 && claims.miss < 1 && claims.p95 < 1 && claims.slower == 0;
            lost += !hold;
            sim_table_add(table, sim_constant_list[i].name, half / 2.0, claims.rate, claims.miss, claims.p95,
                          (double)claims.slower, (double)claims.above_pool, hold ? "hold" : "LOST");
        }
    }
    free(cells);
    report->seeds = seeds;
    sim_report_table(report, table);
    struct sim_table *marks = sim_claims("sensitivity_marks", "Sensitivity");
    sim_claim(report, marks, "settings at which a sign is lost", lost, "<=", 0);
    sim_report_table(report, marks);
}
