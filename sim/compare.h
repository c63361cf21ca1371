/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker-sim compare --study published`: the parts of the report, each of which adds tables, and figures to the
 * summary. A part that fails leaves the cause in the report.
 */
#ifndef SIM_COMPARE_H
#define SIM_COMPARE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/cell.h"
#include "sim/options.h"
#include "sim/stats.h"
#include "sim/study.h"
#include "sim/table.h"

struct sim_report {
    const struct sim_options *options;
    struct sim_seeds seeds;
    struct sim_json *tables;  /* an object; NULL: text on stdout */
    struct sim_json *summary; /* an object */
    stoker_status status;
    stoker_error err;
    uint32_t marks_missed;
};

/* One cell of the study; false once the report has failed. */
bool sim_report_cell(struct sim_report *report, const struct sim_study_point *point, struct sim_cell *out);
bool sim_report_cell_with(struct sim_report *report, const struct sim_constants *constants,
                          const struct sim_study_point *point, struct sim_cell *out);
/* Prints or keeps the table, and frees it. */
void sim_report_table(struct sim_report *report, struct sim_table *table);
/* Adds a row "claim, value, mark, pass | MISSED". */
struct sim_table *sim_claims(const char *name, const char *title);
void sim_claim(struct sim_report *report, struct sim_table *claims, const char *text, double value,
               const char *relation, double mark);

/* The contenders of the main tables on all workloads. */
enum { SIM_MAIN_CONTENDERS = 6 }; /* RANK_LOCAL ... OURS_LEAST */
struct sim_main_cells {
    struct sim_cell cell[SIM_MAIN_CONTENDERS][SIM_STUDY_WORKLOADS];
};
struct sim_aggregate {
    double rate, miss, wait_p95_s, ready_p95_s, wait_mean_s, share, share_min, cross_host_gb, cross_server_gb;
};
bool sim_main_run(struct sim_report *report, const struct sim_constants *constants, enum sim_world world,
                  uint32_t contenders, struct sim_main_cells *out);
struct sim_aggregate sim_aggregate_of(const struct sim_cell *cells); /* of SIM_STUDY_WORKLOADS */
/* By more than the larger of 2 % and the interval (rule E4): a is slower than b, or its p95 longer (or of 10 ms). */
bool sim_slower(const struct sim_cell *a, const struct sim_cell *b);
bool sim_later(const struct sim_cell *a, const struct sim_cell *b);

void sim_part_reproduction(struct sim_report *report);
void sim_part_fair(struct sim_report *report);
void sim_part_sweep(struct sim_report *report);
void sim_part_traffic(struct sim_report *report);
void sim_part_ladder(struct sim_report *report);
void sim_part_batches(struct sim_report *report);
void sim_part_data(struct sim_report *report);
void sim_part_pressure(struct sim_report *report);
void sim_part_scale(struct sim_report *report);
void sim_part_sensitivity(struct sim_report *report);
void sim_part_sticky(struct sim_report *report);

#endif
