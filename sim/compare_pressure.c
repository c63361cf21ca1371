/* SPDX-License-Identifier: Apache-2.0
 *
 * The fair world under pressure: costs at which the samples ask for a given share of all cores. With the costs that
 * were measured the machines of the study are nearly idle, and every pool of cores does well; here scheduling decides.
 */
#include "sim/compare.h"

void sim_part_pressure(struct sim_report *report)
{
    static const struct sim_column columns[] = {{"load", 2},          {"workload", -1},      {"system", -1},
                                                {"samples_per_s", 2}, {"share_of_ideal", 3}, {"miss", 3},
                                                {"wait_p95_s", 3},    {"ready_p95_s", 3},    {"cross_host_gb", 1}};
    static const double loads[] = {0.3, 0.5, 0.7, 0.85, 0.95};
    static const uint32_t workloads[] = {0, 2, 3, 10};
    struct sim_table *table = sim_table_make("pressure", "Fair world, costs raised to a share of all cores", columns,
                                             sizeof columns / sizeof columns[0]);
    struct sim_table *claims = sim_claims("pressure_marks", "Under pressure");
    static const enum sim_contender contenders[] = {SIM_STUDY_RANK_LOCAL,  SIM_STUDY_ACTOR_POOL, SIM_STUDY_LEAST,
                                                    SIM_STUDY_PUBLISHED,   SIM_STUDY_OURS,       SIM_STUDY_OURS_LEAST,
                                                    SIM_STUDY_OURS_FAN_OUT};
    uint32_t slower = 0, slower_apart = 0;
    for (uint32_t i = 0; i < sizeof loads / sizeof loads[0]; i++)
        for (uint32_t k = 0; k < sizeof workloads / sizeof workloads[0]; k++) {
            static struct sim_cell cells[SIM_STUDY_CONTENDERS]; /* large; the program has one thread */
            for (uint32_t c = 0; c < sizeof contenders / sizeof contenders[0]; c++) {
                enum sim_contender contender = contenders[c];
                struct sim_study_point point = {.world = SIM_FAIR,
                                                .workload = workloads[k],
                                                .contender = contender,
                                                .remote = 16,
                                                .load = loads[i]};
                struct sim_cell *cell = &cells[contender];
                if (!sim_report_cell(report, &point, cell)) break;
                sim_table_add(table, loads[i], sim_study_workload_name(workloads[k]), sim_study_names[contender],
                              cell->rate_geomean, cell->share_geomean, cell->miss_mean, cell->wait_p95_s,
                              cell->ready_p95_s, cell->cross_host_gb);
            }
            bool worse = false, worse_apart = false;
            for (uint32_t contender = 0; contender < SIM_STUDY_OURS && report->status >= 0; contender++) {
                worse = worse || sim_slower(&cells[SIM_STUDY_OURS], &cells[contender]);
                worse_apart = worse_apart || sim_slower(&cells[SIM_STUDY_OURS_FAN_OUT], &cells[contender]);
            }
            slower += worse;
            slower_apart += worse_apart;
        }
    sim_report_table(report, table);
    sim_claim(report, claims, "cells in which a baseline is faster", slower, "<=", 0);
    sim_claim(report, claims, "cells in which a baseline is faster than ours with fan-out", slower_apart, "<=", 0);
    sim_report_table(report, claims);
}
