/* SPDX-License-Identifier: Apache-2.0
 *
 * See compare.h: the report as a whole, and what its parts share.
 */
#include "sim/compare.h"

#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static const struct {
    const char *name;
    void (*add)(struct sim_report *report);
    bool usual; /* without --part */
} parts[] = {
    {"reproduction", sim_part_reproduction, true},
    {"fair", sim_part_fair, true},
    {"sweep", sim_part_sweep, true},
    {"traffic", sim_part_traffic, true},
    {"ladder", sim_part_ladder, true},
    {"batches", sim_part_batches, true},
    {"data", sim_part_data, true},
    {"pressure", sim_part_pressure, true},
    {"scale", sim_part_scale, true},
    {"sticky", sim_part_sticky, true},
    {"sensitivity", sim_part_sensitivity, false},
};
enum { PART_COUNT = sizeof parts / sizeof parts[0] };

bool sim_report_cell_with(struct sim_report *report, const struct sim_constants *constants,
                          const struct sim_study_point *point, struct sim_cell *out)
{
    if (report->status < 0) return false;
    static struct sim_config config; /* the program has one thread; a configuration is large */
    sim_study_config(constants, point, &config);
    report->status = sim_cell_run(&config, &report->seeds, out, &report->err);
    return report->status >= 0;
}

bool sim_report_cell(struct sim_report *report, const struct sim_study_point *point, struct sim_cell *out)
{
    return sim_report_cell_with(report, &report->options->constants, point, out);
}

void sim_report_table(struct sim_report *report, struct sim_table *table)
{
    if (report->status >= 0) {
        if (report->tables)
            sim_json_member(report->tables, table->name, sim_table_json(table));
        else
            sim_table_print(table, stdout);
    }
    sim_table_free(table);
}

struct sim_table *sim_claims(const char *name, const char *title)
{
    static const struct sim_column columns[] = {
        {"claim", -1}, {"value", 4}, {"relation", -1}, {"mark", 4}, {"result", -1}};
    return sim_table_make(name, title, columns, sizeof columns / sizeof columns[0]);
}

void sim_claim(struct sim_report *report, struct sim_table *claims, const char *text, double value,
               const char *relation, double mark)
{
    bool pass = relation[0] == '>' ? value >= mark : value <= mark;
    if (!pass) report->marks_missed++;
    sim_table_add(claims, text, value, relation, mark, pass ? "pass" : "MISSED");
}

struct sim_aggregate sim_aggregate_of(const struct sim_cell *cells)
{
    struct sim_aggregate all = {.share_min = 1};
    double rates[SIM_STUDY_WORKLOADS], shares[SIM_STUDY_WORKLOADS];
    for (uint32_t i = 0; i < SIM_STUDY_WORKLOADS; i++) {
        rates[i] = cells[i].rate_geomean;
        shares[i] = cells[i].share_geomean;
        all.miss += cells[i].miss_mean / SIM_STUDY_WORKLOADS;
        all.wait_p95_s += cells[i].wait_p95_s / SIM_STUDY_WORKLOADS;
        all.ready_p95_s += cells[i].ready_p95_s / SIM_STUDY_WORKLOADS;
        all.wait_mean_s += cells[i].wait_mean_s / SIM_STUDY_WORKLOADS;
        all.cross_host_gb += cells[i].cross_host_gb / SIM_STUDY_WORKLOADS;
        all.cross_server_gb += cells[i].cross_server_gb / SIM_STUDY_WORKLOADS;
        if (cells[i].share_geomean < all.share_min) all.share_min = cells[i].share_geomean;
    }
    all.rate = sim_geomean(rates, SIM_STUDY_WORKLOADS);
    all.share = sim_geomean(shares, SIM_STUDY_WORKLOADS);
    return all;
}

bool sim_main_run(struct sim_report *report, const struct sim_constants *constants, enum sim_world world,
                  uint32_t contenders, struct sim_main_cells *out)
{
    for (uint32_t contender = 0; contender < contenders; contender++)
        for (uint32_t workload = 0; workload < SIM_STUDY_WORKLOADS; workload++) {
            struct sim_study_point point = {
                .world = world, .workload = workload, .contender = (enum sim_contender)contender, .remote = 16};
            if (!sim_report_cell_with(report, constants, &point, &out->cell[contender][workload])) return false;
        }
    return true;
}

static double larger(double a, double b) { return a > b ? a : b; }

bool sim_slower(const struct sim_cell *a, const struct sim_cell *b)
{
    struct sim_interval loss = sim_ratio(b->rate, a->rate, a->count, 1);
    return loss.middle - 1 > larger(0.02, (loss.high - loss.low) / 2);
}

bool sim_later(const struct sim_cell *a, const struct sim_cell *b)
{
    struct sim_interval more = sim_difference(a->p95_s, b->p95_s, a->count, 1);
    double allowed = larger(0.01, 0.02 * sim_mean(b->p95_s, b->count));
    return more.middle > larger(allowed, (more.high - more.low) / 2);
}

static bool wanted(const char *list, const char *name, bool usual)
{
    if (!list) return usual;
    size_t length = strlen(name);
    for (const char *word = list; word; word = strchr(word, ',')) {
        if (*word == ',') word++;
        if (strncmp(word, name, length) == 0 && (word[length] == ',' || word[length] == 0)) return true;
    }
    return false;
}

static bool known(const char *list)
{
    for (const char *word = list; word;) {
        size_t length = strcspn(word, ",");
        bool found = false;
        for (uint32_t i = 0; i < PART_COUNT; i++)
            found = found || (strlen(parts[i].name) == length && strncmp(parts[i].name, word, length) == 0);
        if (!found) return false;
        word = word[length] ? word + length + 1 : NULL;
    }
    return true;
}

static struct sim_json *constants_json(const struct sim_options *options)
{
    static const char *const origins[] = {"fitted", "measured", "assumed", "tuned"};
    struct sim_constants constants = options->constants;
    struct sim_json *list = sim_json_array();
    for (uint32_t i = 0; i < sim_constant_count; i++) {
        struct sim_json *entry = sim_json_object();
        sim_json_text(entry, "name", sim_constant_list[i].name);
        sim_json_real(entry, "value", *sim_constant_at(&constants, i));
        sim_json_text(entry, "origin", origins[sim_constant_list[i].origin]);
        sim_json_text(entry, "text", sim_constant_list[i].text);
        sim_json_append(list, entry);
    }
    return list;
}

static void print_json(struct sim_report *report)
{
    struct sim_json *json = sim_json_object();
    sim_json_text(json, "schema", "stoker.sim.compare/1");
    sim_json_text(json, "study", "published");
    sim_json_bool(json, "simulated", true);
    sim_json_integer(json, "first_seed", (int64_t)report->seeds.first);
    sim_json_integer(json, "seeds", report->seeds.count);
    sim_json_member(json, "summary", report->summary);
    sim_json_integer(json, "marks_missed", report->marks_missed);
    sim_json_member(json, "tables", report->tables);
    sim_json_member(json, "constants", constants_json(report->options));
    report->summary = report->tables = NULL;
    sim_json_print(json, stdout);
    sim_json_free(json);
}

int sim_compare_study(const struct sim_options *options)
{
    if (strcmp(options->study, "published") != 0)
        return sim_usage_error("no study is called '%s', expected 'published'", options->study);
    if (options->argument_count > 0) return sim_usage_error("--study and scenarios exclude each other");
    if (options->parts && !known(options->parts)) return sim_usage_error("--part '%s' names no part", options->parts);
    struct sim_report report = {.options = options, .seeds = options->seeds, .summary = sim_json_object()};
    if (!options->seeds_given) report.seeds.first = 1001;
    if (report.seeds.count == 0) report.seeds.count = 20;
    if (options->json) report.tables = sim_json_object();
    for (uint32_t i = 0; i < PART_COUNT && report.status >= 0; i++)
        if (wanted(options->parts, parts[i].name, parts[i].usual)) parts[i].add(&report);
    int status = SIM_EXIT_DONE;
    if (report.status < 0)
        status = sim_report_failure("compare", &report.err);
    else if (options->json)
        print_json(&report);
    else
        printf("Simulated, seeds %llu to %llu; marks missed: %u.\n", (unsigned long long)report.seeds.first,
               (unsigned long long)report.seeds.first + report.seeds.count - 1, report.marks_missed);
    sim_json_free(report.summary);
    sim_json_free(report.tables);
    return status;
}
