/* SPDX-License-Identifier: Apache-2.0
 *
 * A command that has commands of its own: its help, and which of them is meant. See command.h.
 */
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

static void print_help(FILE *out, const struct cli_group *group)
{
    fprintf(out, "usage: stoker %s <command> [options] [arguments]\n\n%s\n\ncommands:\n", group->name, group->about);
    for (size_t i = 0; i < group->count; i++)
        fprintf(out, "  %-12s %s\n", group->commands[i].name, group->commands[i].summary);
    fprintf(out, "\noptions:\n  %-24s %s\n", "-h, --help", "print this text, or the help of a command");
}

int cli_group_run(const struct cli_group *group, int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr, group);
        return CLI_EXIT_USAGE;
    }
    if (strcmp(argv[1], "-h") == 0 || strcmp(argv[1], "--help") == 0) {
        print_help(stdout, group);
        return CLI_EXIT_DONE;
    }
    for (size_t i = 0; i < group->count; i++)
        if (strcmp(group->commands[i].name, argv[1]) == 0) return group->commands[i].run(argc - 1, argv + 1);
    fprintf(stderr, "stoker %s: command '%s' is not known\nhint: stoker %s --help\n", group->name, argv[1],
            group->name);
    return CLI_EXIT_USAGE;
}
