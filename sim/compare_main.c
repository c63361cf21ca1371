/* SPDX-License-Identifier: Apache-2.0
 *
 * The main tables of the study: all workloads with 16 remote servers, in both worlds.
 */
#include <stdlib.h>

#include "base/assert.h"
#include "sim/compare.h"

static const struct sim_column cell_columns[] = {
    {"workload", -1},  {"system", -1},    {"samples_per_s", 2}, {"share_of_ideal", 3}, {"miss", 3},
    {"wait_p50_s", 3}, {"wait_p95_s", 3}, {"wait_mean_s", 3},   {"ready_p95_s", 3},    {"cross_host_gb", 1},
    {"remote", 3},     {"copies", 1},     {"cpu_s_sample", 3},
};

static void add_cells(struct sim_report *report, const struct sim_main_cells *cells, const char *name,
                      const char *title)
{
    struct sim_table *table = sim_table_make(name, title, cell_columns, sizeof cell_columns / sizeof cell_columns[0]);
    for (uint32_t workload = 0; workload < SIM_STUDY_WORKLOADS; workload++)
        for (uint32_t contender = 0; contender < SIM_MAIN_CONTENDERS; contender++) {
            const struct sim_cell *cell = &cells->cell[contender][workload];
            sim_table_add(table, sim_study_workload_name(workload), sim_study_names[contender], cell->rate_geomean,
                          cell->share_geomean, cell->miss_mean, cell->wait_p50_s, cell->wait_p95_s, cell->wait_mean_s,
                          cell->ready_p95_s, cell->cross_host_gb, cell->remote_share, cell->copies, cell->cpu_s_sample);
        }
    sim_report_table(report, table);
}

static void add_aggregate(struct sim_report *report, const struct sim_main_cells *cells, const char *name,
                          const char *title)
{
    static const struct sim_column columns[] = {
        {"system", -1}, {"samples_per_s", 2}, {"against_rank_local", 3}, {"share_of_ideal", 3}, {"share_min", 3},
        {"miss", 3},    {"wait_p95_s", 3},    {"ready_p95_s", 3},        {"cross_host_gb", 1},  {"cross_server_gb", 1},
    };
    struct sim_table *table = sim_table_make(name, title, columns, sizeof columns / sizeof columns[0]);
    double local = sim_aggregate_of(cells->cell[SIM_STUDY_RANK_LOCAL]).rate;
    for (uint32_t contender = 0; contender < SIM_MAIN_CONTENDERS; contender++) {
        struct sim_aggregate all = sim_aggregate_of(cells->cell[contender]);
        sim_table_add(table, sim_study_names[contender], all.rate, all.rate / local, all.share, all.share_min, all.miss,
                      all.wait_p95_s, all.ready_p95_s, all.cross_host_gb, all.cross_server_gb);
    }
    sim_report_table(report, table);
}

static void add_relation(struct sim_table *table, const char *text, double published, double simulated)
{
    sim_table_add(table, text, published, simulated, (simulated / published - 1) * 100);
}

static void add_relations(struct sim_report *report, const struct sim_main_cells *cells)
{
    static const struct sim_column columns[] = {
        {"relation", -1}, {"published", 3}, {"simulated", 3}, {"deviation_percent", 1}};
    struct sim_table *table = sim_table_make(
        "relations", "Reproduction: the published relations and how far the simulated ones are off", columns, 4);
    struct sim_aggregate local = sim_aggregate_of(cells->cell[SIM_STUDY_RANK_LOCAL]);
    struct sim_aggregate pool = sim_aggregate_of(cells->cell[SIM_STUDY_ACTOR_POOL]);
    struct sim_aggregate plane = sim_aggregate_of(cells->cell[SIM_STUDY_PUBLISHED]);
    add_relation(table, "throughput: actor pool / rank-local", 10.24 / 6.86, pool.rate / local.rate);
    add_relation(table, "throughput: published / rank-local", 18.66 / 6.86, plane.rate / local.rate);
    add_relation(table, "throughput: rank-local, samples/s", 6.86, local.rate);
    add_relation(table, "misses: rank-local", 0.506, local.miss);
    add_relation(table, "misses: actor pool", 0.554, pool.miss);
    add_relation(table, "misses: published", 0.163, plane.miss);
    add_relation(table, "wait p95: rank-local, s", 70.848, local.wait_p95_s);
    add_relation(table, "wait p95: actor pool, s", 7.902, pool.wait_p95_s);
    add_relation(table, "wait p95: published, s", 9.216, plane.wait_p95_s);
    add_relation(table, "ready p95: rank-local, s", 0.219, local.ready_p95_s);
    add_relation(table, "ready p95: actor pool, s", 0.311, pool.ready_p95_s);
    add_relation(table, "ready p95: published, s", 0.129, plane.ready_p95_s);
    double ratios[SIM_STUDY_WORKLOADS];
    for (uint32_t workload = 0; workload < SIM_STUDY_WORKLOADS; workload++) {
        struct sim_cell more;
        struct sim_study_point point = {
            .world = SIM_REPRODUCTION, .workload = workload, .contender = SIM_STUDY_PUBLISHED, .remote = 24};
        if (!sim_report_cell(report, &point, &more)) break;
        ratios[workload] = more.rate_geomean / cells->cell[SIM_STUDY_PUBLISHED][workload].rate_geomean;
    }
    if (report->status >= 0)
        add_relation(table, "throughput: published with 24 / with 16 remote servers", 2.10 / 2.53,
                     sim_geomean(ratios, SIM_STUDY_WORKLOADS));
    sim_report_table(report, table);
}

static void add_ours(struct sim_report *report, const struct sim_main_cells *cells)
{
    struct sim_aggregate local = sim_aggregate_of(cells->cell[SIM_STUDY_RANK_LOCAL]);
    struct sim_aggregate pool = sim_aggregate_of(cells->cell[SIM_STUDY_ACTOR_POOL]);
    struct sim_aggregate plane = sim_aggregate_of(cells->cell[SIM_STUDY_PUBLISHED]);
    struct sim_aggregate ours = sim_aggregate_of(cells->cell[SIM_STUDY_OURS]);
    uint32_t slower = 0, above_pool = 0;
    for (uint32_t workload = 0; workload < SIM_STUDY_WORKLOADS; workload++) {
        const struct sim_cell *own = &cells->cell[SIM_STUDY_OURS][workload];
        slower += sim_slower(own, &cells->cell[SIM_STUDY_PUBLISHED][workload]);
        above_pool += sim_later(own, &cells->cell[SIM_STUDY_ACTOR_POOL][workload]);
    }
    struct sim_table *claims = sim_claims("ours_in_reproduction", "Ours in the frozen world of the reproduction");
    sim_claim(report, claims, "throughput against the published policy", ours.rate / plane.rate, ">=", 1.05);
    sim_claim(report, claims, "workloads slower than the published policy", slower, "<=", 0);
    sim_claim(report, claims, "misses against the published policy", ours.miss / plane.miss, "<=", 0.8);
    sim_claim(report, claims, "wait p95 against the published policy", ours.wait_p95_s / plane.wait_p95_s, "<=", 0.8);
    sim_claim(report, claims, "workloads with a wait p95 above the actor pool's", above_pool, "<=", 0);
    sim_report_table(report, claims);
    struct sim_json *summary = sim_json_object();
    sim_json_real(summary, "throughput_ratio_rank_local", ours.rate / local.rate);
    sim_json_real(summary, "throughput_ratio_actor_pool", ours.rate / pool.rate);
    sim_json_real(summary, "throughput_ratio_published", ours.rate / plane.rate);
    sim_json_real(summary, "miss_reduction", 1 - ours.miss / local.miss);
    sim_json_real(summary, "p95_wait_reduction", 1 - ours.wait_p95_s / local.wait_p95_s);
    sim_json_integer(summary, "workloads_p95_above_actor_pool", above_pool);
    sim_json_member(report->summary, "reproduction", summary);
}

static struct sim_main_cells *cells_make(void)
{
    struct sim_main_cells *cells = calloc(1, sizeof *cells);
    STK_ASSERT(cells != NULL);
    return cells;
}

void sim_part_reproduction(struct sim_report *report)
{
    struct sim_main_cells *cells = cells_make();
    if (sim_main_run(report, &report->options->constants, SIM_REPRODUCTION, SIM_MAIN_CONTENDERS, cells)) {
        add_aggregate(report, cells, "reproduction",
                      "Reproduction, simulated: 11 workloads, 16 remote servers (rates: geometric mean)");
        add_cells(report, cells, "reproduction_workloads", "Reproduction, by workload");
        add_relations(report, cells);
        add_ours(report, cells);
    }
    free(cells);
}

void sim_part_fair(struct sim_report *report)
{
    struct sim_main_cells *cells = cells_make();
    if (sim_main_run(report, &report->options->constants, SIM_FAIR, SIM_MAIN_CONTENDERS, cells)) {
        add_aggregate(report, cells, "fair", "Fair world, simulated: 11 workloads, 16 remote servers, equal cores");
        add_cells(report, cells, "fair_workloads", "Fair world, by workload");
        struct sim_aggregate ours = sim_aggregate_of(cells->cell[SIM_STUDY_OURS]);
        uint32_t below = 0;
        for (uint32_t workload = 0; workload < SIM_STUDY_WORKLOADS; workload++) {
            bool worse = false;
            for (uint32_t contender = 0; contender < SIM_STUDY_OURS; contender++)
                worse = worse || sim_slower(&cells->cell[SIM_STUDY_OURS][workload], &cells->cell[contender][workload]);
            below += worse;
        }
        struct sim_table *claims = sim_claims("ours_in_fair", "Ours in the fair world");
        sim_claim(report, claims, "share of the ideal bound, geometric mean", ours.share, ">=", 0.95);
        sim_claim(report, claims, "workloads on which a baseline is faster", below, "<=", 0);
        sim_report_table(report, claims);
        struct sim_json *summary = sim_json_object();
        sim_json_real(summary, "share_of_ideal_geomean", ours.share);
        sim_json_real(summary, "share_of_ideal_min", ours.share_min);
        sim_json_integer(summary, "workloads_below_a_baseline", below);
        sim_json_member(report->summary, "fair", summary);
    }
    free(cells);
}
