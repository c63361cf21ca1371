/* SPDX-License-Identifier: Apache-2.0
 *
 * The sweeps of the study: numbers of remote servers, cross-host traffic, the ladder, batch sizes, data alone, and
 * 1,024 ranks.
 */
#include "sim/compare.h"

#include <stdio.h>
#include <string.h>

static const uint32_t remotes[] = {0, 8, 16, 24, 64};
enum { REMOTES = sizeof remotes / sizeof remotes[0] };

static const struct sim_column sweep_columns[] = {
    {"world", -1},         {"workload", -1}, {"system", -1},    {"remote_servers", 0}, {"samples_per_s", 2},
    {"share_of_ideal", 3}, {"miss", 3},      {"wait_p95_s", 3}, {"cross_host_gb", 1},  {"against_before", -1},
};
static const char *const world_names[] = {"reproduction", "fair"};

struct losses {
    uint32_t rate, p95;
};

static void sweep_one(struct sim_report *report, struct sim_table *table, struct sim_study_point point,
                      struct losses *losses)
{
    struct sim_cell before = {0}, now = {0};
    for (uint32_t i = 0; i < REMOTES; i++) {
        point.remote = remotes[i];
        if (!sim_report_cell(report, &point, &now)) return;
        bool slower = i > 0 && sim_slower(&now, &before), later = i > 0 && sim_later(&now, &before);
        losses->rate += slower;
        losses->p95 += later;
        sim_table_add(table, world_names[point.world], sim_study_workload_name(point.workload),
                      sim_study_names[point.contender], (double)remotes[i], now.rate_geomean, now.share_geomean,
                      now.miss_mean, now.wait_p95_s, now.cross_host_gb,
                      slower  ? "slower"
                      : later ? "later"
                              : "");
        before = now;
    }
}

static void against_least(struct sim_report *report, enum sim_world world, struct losses *losses)
{
    for (uint32_t workload = 0; workload < SIM_STUDY_WORKLOADS; workload++)
        for (uint32_t i = 0; i < REMOTES; i++) {
            struct sim_cell ours, least;
            struct sim_study_point point = {
                .world = world, .workload = workload, .contender = SIM_STUDY_OURS, .remote = remotes[i]};
            if (!sim_report_cell(report, &point, &ours)) return;
            point.contender = SIM_STUDY_OURS_LEAST;
            if (!sim_report_cell(report, &point, &least)) return;
            losses->rate += sim_slower(&ours, &least);
            losses->p95 += sim_later(&ours, &least);
        }
}

void sim_part_sweep(struct sim_report *report)
{
    struct sim_table *claims = sim_claims("never_worse", "Adding DataServers, and deadlines, never costs");
    for (uint32_t world = SIM_REPRODUCTION; world <= SIM_FAIR; world++) {
        struct sim_table *table = sim_table_make(world == SIM_FAIR ? "sweep_fair" : "sweep_reproduction",
                                                 world == SIM_FAIR ? "Remote servers 0 to 64, fair world"
                                                                   : "Remote servers 0 to 64, reproduction",
                                                 sweep_columns, sizeof sweep_columns / sizeof sweep_columns[0]);
        struct losses ours = {0}, published = {0}, least = {0};
        for (uint32_t workload = 0; workload < SIM_STUDY_WORKLOADS; workload++) {
            struct sim_study_point point = {.world = (enum sim_world)world, .workload = workload};
            point.contender = SIM_STUDY_OURS;
            sweep_one(report, table, point, &ours);
            point.contender = SIM_STUDY_PUBLISHED;
            sweep_one(report, table, point, &published);
        }
        against_least(report, (enum sim_world)world, &least);
        sim_report_table(report, table);
        bool fair = world == SIM_FAIR;
        sim_claim(report, claims,
                  fair ? "fair: steps up that cost ours throughput" : "steps up that cost ours throughput", ours.rate,
                  "<=", 0);
        sim_claim(report, claims, fair ? "fair: steps up that cost ours p95 wait" : "steps up that cost ours p95 wait",
                  ours.p95, "<=", 0);
        sim_claim(report, claims,
                  fair ? "fair: deadline slower than least-request" : "deadline slower than least-request", least.rate,
                  "<=", 0);
        sim_claim(report, claims,
                  fair ? "fair: deadline later than least-request" : "deadline later than least-request", least.p95,
                  "<=", 0);
    }
    sim_report_table(report, claims);
}

struct traffic {
    double all, all_budget, worst_share, worst_miss;
};

static bool traffic_of(struct sim_report *report, struct sim_table *table, const char *name,
                       struct sim_study_point point, struct traffic *traffic)
{
    struct sim_cell open, budget;
    point.contender = SIM_STUDY_OURS;
    if (!sim_report_cell(report, &point, &open)) return false;
    point.contender = SIM_STUDY_OURS_BUDGET;
    point.budget_gb_step = open.cross_host_gb / 100 * 0.45;
    if (point.budget_gb_step < 1e-6) point.budget_gb_step = 1e-6;
    if (!sim_report_cell(report, &point, &budget)) return false;
    sim_table_add(table, name, sim_study_workload_name(point.workload), point.budget_gb_step, open.cross_host_gb,
                  budget.cross_host_gb, open.miss_mean, budget.miss_mean, open.rate_geomean, budget.rate_geomean,
                  open.wait_p95_s, budget.wait_p95_s);
    traffic->all += open.cross_host_gb;
    traffic->all_budget += budget.cross_host_gb;
    /* Below a batch in 100 steps there is nothing to halve. */
    double share = open.cross_host_gb > 1 ? budget.cross_host_gb / open.cross_host_gb : 0;
    if (share > traffic->worst_share) traffic->worst_share = share;
    double more = budget.miss_mean - open.miss_mean;
    if (more > traffic->worst_miss) traffic->worst_miss = more;
    return true;
}

/* In the two worlds of the study ours sends next to nothing. The third, at a little more than what the local cores can
 * make, is where a budget has something to do. */
void sim_part_traffic(struct sim_report *report)
{
    static const struct sim_column columns[] = {{"world", -1},
                                                {"workload", -1},
                                                {"budget_gb_step", 3},
                                                {"cross_host_gb", 2},
                                                {"cross_host_gb_budget", 2},
                                                {"miss", 4},
                                                {"miss_budget", 4},
                                                {"samples_per_s", 2},
                                                {"samples_per_s_budget", 2},
                                                {"wait_p95_s", 3},
                                                {"wait_p95_s_budget", 3}};
    static const char *const names[] = {"reproduction", "fair", "load 0.36"};
    static const char *const claims_of[][3] = {
        {"reproduction: cross-host bytes, of those without", "reproduction: the same, worst workload",
         "reproduction: more misses, worst workload"},
        {"fair: cross-host bytes, of those without", "fair: the same, worst workload",
         "fair: more misses, worst workload"},
        {"load 0.36: cross-host bytes, of those without", "load 0.36: the same, worst workload",
         "load 0.36: more misses, worst workload"}};
    struct sim_table *table =
        sim_table_make("traffic", "Cross-host GB in 100 steps, without and with a byte budget of 45 %", columns,
                       sizeof columns / sizeof columns[0]);
    struct sim_table *claims = sim_claims("traffic_marks", "The byte budget");
    for (uint32_t world = 0; world < 3; world++) {
        struct traffic traffic = {0};
        struct sim_study_point point = {
            .world = world == 0 ? SIM_REPRODUCTION : SIM_FAIR, .remote = 16, .load = world == 2 ? 0.36 : 0};
        for (uint32_t workload = 0; workload < SIM_STUDY_WORKLOADS; workload++) {
            point.workload = workload;
            if (!traffic_of(report, table, names[world], point, &traffic)) break;
        }
        sim_claim(report, claims, claims_of[world][0], traffic.all > 0 ? traffic.all_budget / traffic.all : 0,
                  "<=", 0.5);
        sim_claim(report, claims, claims_of[world][1], traffic.worst_share, "<=", 0.5);
        sim_claim(report, claims, claims_of[world][2], traffic.worst_miss, "<=", 0.02);
    }
    sim_report_table(report, table);
    sim_report_table(report, claims);
}

void sim_part_ladder(struct sim_report *report)
{
    static const struct sim_column columns[] = {{"workload", -1},       {"step", -1},
                                                {"samples_per_s", 2},   {"published_samples_per_s", 2},
                                                {"wait_p95_s", 3},      {"published_wait_p95_s", 3},
                                                {"miss_percent", 1},    {"published_miss_percent", 1},
                                                {"cross_server_gb", 1}, {"published_cross_server_gb", 1}};
    /* Samples/s, wait p95, misses in percent, GB: of each step of the published ladder. */
    static const struct {
        uint32_t workload;
        double published[4][4];
    } rows[] = {
        {3,
         {{8.83, 7.792, 18.9, 199.6},
          {8.03, 7.908, 20.2, 203.5},
          {9.43, 7.877, 18.9, 178.5},
          {9.87, 7.430, 16.5, 233.0}}},
        {8,
         {{9.80, 6.075, 27.0, 131.8},
          {9.53, 5.695, 24.3, 131.5},
          {11.07, 5.271, 19.6, 121.1},
          {11.21, 4.727, 17.5, 183.5}}},
        {7,
         {{9.70, 4.889, 12.9, 96.0},
          {10.82, 4.094, 11.9, 88.8},
          {10.73, 1.805, 7.9, 106.4},
          {11.13, 2.267, 6.4, 122.6}}},
        {10,
         {{10.76, 2.687, 7.5, 65.8}, {12.84, 2.769, 7.7, 62.8}, {13.27, 1.955, 6.0, 58.0}, {12.64, 0.792, 5.2, 78.9}}},
    };
    static const enum sim_contender ladder[5] = {SIM_STUDY_BASE, SIM_STUDY_TRANSPORT, SIM_STUDY_PREFETCH,
                                                 SIM_STUDY_PUBLISHED, SIM_STUDY_OURS};
    struct sim_table *table =
        sim_table_make("ladder", "The ladder of the published system, beside its figures (ours: none)", columns,
                       sizeof columns / sizeof columns[0]);
    uint32_t agreed = 0, directions = 0;
    for (uint32_t row = 0; row < sizeof rows / sizeof rows[0]; row++) {
        double before[4] = {0};
        for (uint32_t step = 0; step < 5; step++) {
            struct sim_cell cell;
            struct sim_study_point point = {
                .world = SIM_REPRODUCTION, .workload = rows[row].workload, .contender = ladder[step], .remote = 16};
            if (!sim_report_cell(report, &point, &cell)) break;
            const double *published = step < 4 ? rows[row].published[step] : (const double[4]){0, 0, 0, 0};
            double now[4] = {cell.rate_geomean, cell.wait_p95_s, cell.miss_mean * 100, cell.cross_server_gb};
            sim_table_add(table, sim_study_workload_name(rows[row].workload), sim_study_names[ladder[step]], now[0],
                          published[0], now[1], published[1], now[2], published[2], now[3], published[3]);
            for (uint32_t i = 0; step > 0 && step < 4 && i < 4; i++) {
                double then = rows[row].published[step][i] - rows[row].published[step - 1][i];
                directions += then != 0;
                agreed += (then > 0 && now[i] > before[i]) || (then < 0 && now[i] < before[i]);
            }
            memcpy(before, now, sizeof before);
        }
    }
    sim_report_table(report, table);
    struct sim_table *claims = sim_claims("ladder_directions", "Directions of the ladder that come out as published");
    sim_claim(report, claims, "share of the directions", directions ? (double)agreed / directions : 0, ">=", 0.5);
    sim_report_table(report, claims);
}

void sim_part_batches(struct sim_report *report)
{
    static const struct sim_column columns[] = {{"system", -1},
                                                {"batch", 0},
                                                {"micro_batch", 0},
                                                {"samples_per_s", 2},
                                                {"published_samples_per_s", 2},
                                                {"miss_percent", 1},
                                                {"published_miss_percent", 1},
                                                {"wait_p95_s", 2},
                                                {"published_wait_p95_s", 2}};
    static const double published[2][2][3][3] = {{{{4.43, 46.8, 33.02}, {4.19, 59.5, 53.53}, {4.01, 78.3, 74.58}},
                                                  {{4.25, 47.5, 34.73}, {4.18, 57.7, 63.50}, {3.97, 81.1, 82.48}}},
                                                 {{{11.06, 15.1, 7.27}, {10.75, 22.2, 11.28}, {10.72, 37.8, 23.03}},
                                                  {{10.96, 17.6, 7.55}, {10.85, 22.1, 13.26}, {10.60, 42.1, 25.73}}}};
    static const enum sim_contender contenders[3] = {SIM_STUDY_RANK_LOCAL, SIM_STUDY_PUBLISHED, SIM_STUDY_OURS};
    struct sim_table *table =
        sim_table_make("batches",
                       "Batches of a rank and micro-batches, kinetics-mixed/videomae, 40 + 100 steps (ours: not "
                       "published)",
                       columns, sizeof columns / sizeof columns[0]);
    for (uint32_t contender = 0; contender < 3; contender++)
        for (uint32_t micro = 1; micro <= 2; micro++)
            for (uint32_t size = 0; size < 3; size++) {
                struct sim_cell cell;
                struct sim_study_point point = {.world = SIM_REPRODUCTION,
                                                .workload = 3,
                                                .contender = contenders[contender],
                                                .remote = 16,
                                                .batch = 2u << size,
                                                .micro = micro,
                                                .warmup = 40};
                if (!sim_report_cell(report, &point, &cell)) break;
                const double *then = contender < 2 ? published[contender][micro - 1][size] : (const double[3]){0, 0, 0};
                sim_table_add(table, sim_study_names[contenders[contender]], (double)point.batch, (double)micro,
                              cell.rate_geomean, then[0], cell.miss_mean * 100, then[1], cell.wait_p95_s, then[2]);
            }
    sim_report_table(report, table);
}

void sim_part_data(struct sim_report *report)
{
    static const struct sim_column columns[] = {
        {"workload", -1}, {"system", -1}, {"remote_servers", 0}, {"samples_per_s", 2}, {"against_rank_local", 2}};
    struct sim_table *table = sim_table_make(
        "data_only", "Data alone: a fixed window instead of the model (published medians: 2.85, 7.45, 2.22)", columns,
        sizeof columns / sizeof columns[0]);
    for (uint32_t workload = 0; workload < 8; workload++) {
        struct sim_cell local, cell;
        struct sim_study_point point = {.world = SIM_REPRODUCTION, .workload = workload, .data_only = true};
        point.contender = SIM_STUDY_RANK_LOCAL;
        if (!sim_report_cell(report, &point, &local)) break;
        for (uint32_t i = 1; i <= 3; i++) {
            point.remote = remotes[i];
            point.contender = SIM_STUDY_PUBLISHED;
            if (!sim_report_cell(report, &point, &cell)) break;
            sim_table_add(table, sim_study_workload_name(workload), "published", (double)remotes[i], cell.rate_geomean,
                          cell.rate_geomean / local.rate_geomean);
            point.contender = SIM_STUDY_OURS;
            if (!sim_report_cell(report, &point, &cell)) break;
            sim_table_add(table, sim_study_workload_name(workload), "ours", (double)remotes[i], cell.rate_geomean,
                          cell.rate_geomean / local.rate_geomean);
        }
    }
    sim_report_table(report, table);
}

void sim_part_scale(struct sim_report *report)
{
    static const struct sim_column columns[] = {{"system", -1},       {"ranks", 0},          {"servers", 0},
                                                {"samples_per_s", 1}, {"share_of_ideal", 3}, {"miss", 3},
                                                {"wait_p95_s", 3},    {"events", 0},         {"cross_host_gb", 1}};
    struct sim_table *table =
        sim_table_make("scale", "1,024 ranks on 128 hosts, 4,096 DataServers, fair world without tails, one seed",
                       columns, sizeof columns / sizeof columns[0]);
    static struct sim_config config;
    struct sim_study_point point = {
        .world = SIM_FAIR, .workload = 3, .contender = SIM_STUDY_OURS, .remote = 16, .warmup = 10, .steps = 30};
    sim_study_config(&report->options->constants, &point, &config);
    config.workload.tail_share = 0; /* of 4,096 samples in a step a dozen would be tails: all that one would see */
    config.machines.ranks = 1024;
    config.machines.rank_hosts = 128;
    config.machines.remote = 4096 - 1024;
    config.machines.remote_per_host = 8;
    struct sim_seeds seeds = {report->seeds.first, 1};
    struct sim_cell cell;
    report->status = sim_cell_run(&config, &seeds, &cell, &report->err);
    if (report->status >= 0)
        sim_table_add(table, sim_study_names[point.contender], 1024.0, 4096.0, cell.rate_geomean, cell.share_geomean,
                      cell.miss_mean, cell.wait_p95_s, cell.events, cell.cross_host_gb);
    sim_report_table(report, table);
}
