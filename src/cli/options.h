/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of a command from one table, which also prints its help. `--name value`, `--name=value`, `-n value`; `--`
 * ends the options; options and arguments may be mixed. -h and --help are understood by every command.
 */
#ifndef STK_CLI_OPTIONS_H
#define STK_CLI_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

struct cli_option {
    char letter;          /* 0: none */
    const char *name;     /* without the dashes */
    const char *argument; /* what the help calls its value; NULL: a flag */
    const char *help;
    bool *flag;         /* set to true */
    const char **value; /* set to the text */
};

struct cli_usage {
    const char *command;
    const char *synopsis; /* after "stoker <command> " */
    const char *about;    /* one paragraph */
    const struct cli_option *options;
    size_t option_count;
};

/* What to do after parsing. */
enum cli_parsed { CLI_PARSED_RUN, CLI_PARSED_HELP, CLI_PARSED_WRONG };

/* Moves the plain arguments to argv[1..*out_count] in their order. HELP: the help was printed to stdout; WRONG: an
 * error to stderr. */
enum cli_parsed cli_options_parse(const struct cli_usage *usage, int argc, char **argv, int *out_count);

/* "stoker probe: <text>" and a pointer to the help, on stderr. Gives CLI_EXIT_USAGE. */
int cli_usage_error(const struct cli_usage *usage, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
