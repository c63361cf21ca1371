/* SPDX-License-Identifier: Apache-2.0
 *
 * The `stoker-sim` program: finds the command and runs it. docs/reference/sim.md describes it.
 */
#include <stdio.h>
#include <string.h>

#include "sim/json.h"
#include "sim/options.h"
#include "sim/scenario.h"
#include "sim/table.h"

static const struct sim_column run_columns[] = {
    {"scenario", -1},  {"system", -1},    {"samples_per_s", 2}, {"share_of_ideal", 3}, {"miss", 3},
    {"wait_p50_s", 3}, {"wait_p95_s", 3}, {"wait_mean_s", 3},   {"ready_p95_s", 3},    {"cross_host_gb", 1},
    {"remote", 3},     {"copies", 1},     {"cpu_s_sample", 3},
};

static int run_scenario(const struct sim_options *options, const char *path, struct sim_table *table,
                        struct sim_json *digests)
{
    struct sim_scenario scenario;
    stoker_error err = {0};
    if (sim_scenario_load(path, &scenario, &err) < 0) return sim_report_failure(options->study, &err);
    struct sim_config config = scenario.base;
    const char *journal = options->journal;
    for (uint32_t i = 0; i < scenario.system_count; i++) {
        config.system = scenario.systems[i];
        struct sim_cell cell;
        if (sim_cell_run(&config, &options->seeds, &cell, &err) < 0) return sim_report_failure(options->study, &err);
        sim_table_add(table, config.name, config.system.name, cell.rate_geomean, cell.share_geomean, cell.miss_mean,
                      cell.wait_p50_s, cell.wait_p95_s, cell.wait_mean_s, cell.ready_p95_s, cell.cross_host_gb,
                      cell.remote_share, cell.copies, cell.cpu_s_sample);
        if (journal && config.system.policy == SIM_ENGINE) {
            if (sim_cell_record(&config, options->seeds.first, journal, &err) < 0)
                return sim_report_failure(options->study, &err);
            journal = NULL;
        }
        char digest[20];
        snprintf(digest, sizeof digest, "%016llx", (unsigned long long)cell.digest);
        struct sim_json *entry = sim_json_object();
        sim_json_text(entry, "scenario", config.name);
        sim_json_text(entry, "system", config.system.name);
        sim_json_text(entry, "digest", digest);
        sim_json_append(digests, entry);
    }
    if (journal) return sim_usage_error("--journal: no system of the scenario has an engine");
    return SIM_EXIT_DONE;
}

static int run_all(const struct sim_options *options)
{
    uint32_t count = sizeof run_columns / sizeof run_columns[0];
    struct sim_table *table = sim_table_make("runs", "Simulated; cross-host GB in 100 steps.", run_columns, count);
    struct sim_json *digests = sim_json_array();
    int status = SIM_EXIT_DONE;
    for (int i = 0; i < options->argument_count && status == SIM_EXIT_DONE; i++)
        status = run_scenario(options, options->arguments[i], table, digests);
    if (status == SIM_EXIT_DONE && options->json) {
        struct sim_json *json = sim_json_object();
        sim_json_text(json, "schema", "stoker.sim.run/1");
        sim_json_bool(json, "simulated", true);
        sim_json_integer(json, "first_seed", (int64_t)options->seeds.first);
        sim_json_integer(json, "seeds", options->seeds.count);
        sim_json_member(json, "runs", sim_table_json(table));
        sim_json_member(json, "digests", digests);
        digests = NULL;
        sim_json_print(json, stdout);
        sim_json_free(json);
    } else if (status == SIM_EXIT_DONE) {
        sim_table_print(table, stdout);
    }
    sim_json_free(digests);
    sim_table_free(table);
    return status;
}

int sim_command_run(const struct sim_options *given)
{
    struct sim_options options = *given;
    options.study = "run";
    if (given->study || given->parts || given->changed) return sim_usage_error("run takes no --study, --part or --set");
    if (options.argument_count != 1) return sim_usage_error("run needs one scenario");
    if (options.journal && sim_same_file(options.journal, options.arguments[0]))
        return sim_usage_error("--journal '%s' is the scenario itself; expected another file", options.journal);
    if (!options.seeds_given) options.seeds.first = 1;
    if (options.seeds.count == 0) options.seeds.count = 1;
    return run_all(&options);
}

int sim_command_compare(const struct sim_options *given)
{
    if (given->study) return sim_compare_study(given);
    struct sim_options options = *given;
    options.study = "compare";
    if (given->parts || given->changed || given->journal)
        return sim_usage_error("--part and --set belong to --study, --journal to run");
    if (options.argument_count == 0) return sim_usage_error("compare needs scenarios, or --study published");
    if (!options.seeds_given) options.seeds.first = 1;
    if (options.seeds.count == 0) options.seeds.count = 20;
    return run_all(&options);
}

static const char *const origins[] = {"fitted", "measured", "assumed", "tuned"};

static int command_constants(const struct sim_options *options)
{
    struct sim_json *list = sim_json_array();
    for (uint32_t i = 0; i < sim_constant_count; i++) {
        const struct sim_constant *constant = &sim_constant_list[i];
        if (!options->json) {
            printf("%-20s %-10g %-9s %s\n", constant->name, constant->value, origins[constant->origin], constant->text);
            continue;
        }
        struct sim_json *entry = sim_json_object();
        sim_json_text(entry, "name", constant->name);
        sim_json_real(entry, "value", constant->value);
        sim_json_text(entry, "origin", origins[constant->origin]);
        sim_json_text(entry, "text", constant->text);
        sim_json_append(list, entry);
    }
    struct sim_json *json = sim_json_object();
    sim_json_text(json, "schema", "stoker.sim.constants/1");
    sim_json_member(json, "constants", list);
    if (options->json) sim_json_print(json, stdout);
    sim_json_free(json);
    return SIM_EXIT_DONE;
}

static const struct {
    const char *name;
    int (*run)(const struct sim_options *options);
} commands[] = {
    {"run", sim_command_run}, {"compare", sim_command_compare}, {"constants", command_constants},
    {"fit", sim_command_fit}, {"replay", sim_command_replay},
};

int main(int argc, char **argv)
{
    if (argc < 2) {
        sim_help(stderr);
        return SIM_EXIT_USAGE;
    }
    struct sim_options options = {0};
    bool help = strcmp(argv[1], "help") == 0 || strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0;
    int status = help ? SIM_EXIT_DONE : sim_options_parse(argc - 2, argv + 2, &options, &help);
    if (help) {
        sim_help(stdout);
        return SIM_EXIT_DONE;
    }
    if (status != SIM_EXIT_DONE) return status;
    size_t chosen = 0, count = sizeof commands / sizeof commands[0];
    while (chosen < count && strcmp(commands[chosen].name, argv[1]) != 0) chosen++;
    if (chosen == count) return sim_usage_error("command '%s' is not known", argv[1]);
    status = commands[chosen].run(&options);
    sim_cell_free();
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fputs("stoker-sim: cannot write to stdout\n", stderr);
        return SIM_EXIT_MACHINE;
    }
    return status;
}
