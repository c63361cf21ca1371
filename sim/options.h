/* SPDX-License-Identifier: Apache-2.0
 *
 * What the commands of stoker-sim were told, and how they say what went wrong.
 */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/error.h>

#include "sim/cell.h"
#include "sim/constants.h"

enum {
    SIM_EXIT_DONE = 0,
    SIM_EXIT_NO = 1,
    SIM_EXIT_USAGE = 2,
    SIM_EXIT_DATA = 3,
    SIM_EXIT_MACHINE = 4,
    SIM_EXIT_BUG = 70
};

struct sim_options {
    struct sim_seeds seeds;
    bool seeds_given, json;
    const char *study, *parts, *journal;
    struct sim_constants constants; /* with what --set changed */
    uint32_t changed;               /* by --set */
    int argument_count;
    char **arguments;
};

/* SIM_EXIT_DONE, or the status to end with (help was printed: *out_help). */
int sim_options_parse(int argc, char **argv, struct sim_options *out, bool *out_help);
void sim_help(void *file); /* FILE * */
/* "stoker-sim run: <context>: <message>" on stderr; gives the exit status. */
int sim_report_failure(const char *command, const stoker_error *err);
/* Do both names lead to one file that is there? */
bool sim_same_file(const char *path, const char *other);
int sim_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

int sim_command_run(const struct sim_options *options);
int sim_command_compare(const struct sim_options *options);
int sim_command_fit(const struct sim_options *options);
int sim_command_replay(const struct sim_options *options);
int sim_compare_study(const struct sim_options *options);

#endif
