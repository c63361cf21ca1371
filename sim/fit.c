/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker-sim fit`: how the fitted constants were found. Each is moved up and down by a step that shrinks, and what
 * brings the published figures nearer is kept: the sum over figures of log(simulated / published)^2. A constant of one
 * system moves that system's figures only. Seeds 1 to 20 unless told otherwise: never those that are reported.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "sim/compare.h"
#include "sim/random.h"

enum { SYSTEMS = 3, FIGURES = 4, ROUNDS = 8 };

static const enum sim_contender contenders[SYSTEMS] = {SIM_STUDY_RANK_LOCAL, SIM_STUDY_ACTOR_POOL, SIM_STUDY_PUBLISHED};
static const char *const prefixes[SYSTEMS] = {"local_", "pool_", "plane_"};
/* Samples/s, misses, wait p95, ready p95. */
static const double published[SYSTEMS][FIGURES] = {
    {6.86, 0.506, 70.848, 0.219}, {10.24, 0.554, 7.902, 0.311}, {18.66, 0.163, 9.216, 0.129}};

static double distance(double simulated, double wanted)
{
    double off = sim_log((simulated > 1e-6 ? simulated : 1e-6) / wanted);
    return off * off;
}

static double loss_of(struct sim_report *report, const struct sim_constants *constants, uint32_t system,
                      struct sim_cell *cells)
{
    double loss = 0, drop = 0;
    for (uint32_t remote = 16; remote <= 24; remote += 8) {
        for (uint32_t workload = 0; workload < SIM_STUDY_WORKLOADS; workload++) {
            struct sim_study_point point = {
                .world = SIM_REPRODUCTION, .workload = workload, .contender = contenders[system], .remote = remote};
            if (!sim_report_cell_with(report, constants, &point, &cells[workload])) return 1e9;
        }
        struct sim_aggregate all = sim_aggregate_of(cells);
        if (remote == 24) {
            loss += distance(all.rate / drop, 2.10 / 2.53);
            break;
        }
        loss += 4 * distance(all.rate, published[system][0]) + distance(all.miss, published[system][1]) +
                distance(all.wait_p95_s, published[system][2]) + distance(all.ready_p95_s, published[system][3]);
        if (contenders[system] != SIM_STUDY_PUBLISHED) break;
        drop = all.rate;
    }
    return loss;
}

/* The system whose constant it is; SYSTEMS: all of them; SYSTEMS + 1: none of these. */
static uint32_t owner_of(const char *name)
{
    for (uint32_t i = 0; i < SYSTEMS; i++)
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return i;
    return strncmp(name, "base_", 5) == 0 ? SYSTEMS + 1 : SYSTEMS;
}

static bool try_value(struct sim_report *report, struct sim_constants *constants, uint32_t index, double value,
                      double *losses, struct sim_cell *cells)
{
    double *place = sim_constant_at(constants, index), old = *place;
    uint32_t owner = owner_of(sim_constant_list[index].name);
    double now[SYSTEMS], before = 0, after = 0;
    *place = value;
    for (uint32_t system = 0; system < SYSTEMS; system++) {
        bool moved = owner == SYSTEMS || owner == system;
        now[system] = moved ? loss_of(report, constants, system, cells) : losses[system];
        before += losses[system];
        after += now[system];
    }
    if (report->status < 0) { /* a value that makes no sense is no better */
        report->status = STOKER_OK;
        after = before;
    }
    if (after >= before) {
        *place = old;
        return false;
    }
    memcpy(losses, now, sizeof now);
    return true;
}

int sim_command_fit(const struct sim_options *options)
{
    struct sim_report report = {.options = options, .seeds = options->seeds};
    if (!options->seeds_given) report.seeds.first = 1;
    if (report.seeds.count == 0) report.seeds.count = 20;
    struct sim_cell *cells = calloc(SIM_STUDY_WORKLOADS, sizeof *cells);
    STK_ASSERT(cells != NULL);
    struct sim_constants constants = options->constants;
    double losses[SYSTEMS];
    for (uint32_t system = 0; system < SYSTEMS; system++) losses[system] = loss_of(&report, &constants, system, cells);
    for (uint32_t round = 0; round < ROUNDS && report.status >= 0; round++) {
        double step = 0.5 / (1 << (round / 2));
        for (uint32_t i = 0; i < sim_constant_count; i++) {
            double value = *sim_constant_at(&constants, i);
            if (sim_constant_list[i].origin != SIM_FITTED || owner_of(sim_constant_list[i].name) > SYSTEMS) continue;
            if (!try_value(&report, &constants, i, value * (1 + step), losses, cells))
                (void)try_value(&report, &constants, i, value / (1 + step), losses, cells);
        }
        fprintf(stderr, "round %u, steps of %.0f %%: loss %.4f + %.4f + %.4f\n", round + 1, step * 100, losses[0],
                losses[1], losses[2]);
    }
    free(cells);
    if (report.status < 0) return sim_report_failure("fit", &report.err);
    for (uint32_t i = 0; i < sim_constant_count; i++)
        if (sim_constant_list[i].origin == SIM_FITTED)
            printf("%s=%.4g\n", sim_constant_list[i].name, *sim_constant_at(&constants, i));
    return SIM_EXIT_DONE;
}
