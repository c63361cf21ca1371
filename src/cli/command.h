/* SPDX-License-Identifier: Apache-2.0
 *
 * One command of the program: each cmd_<name>.c defines cmd_<name>, main.c lists them.
 */
#ifndef STK_CLI_COMMAND_H
#define STK_CLI_COMMAND_H

#include <stddef.h>

/* Exit status of every command. */
enum cli_exit {
    CLI_EXIT_DONE = 0,
    CLI_EXIT_NO = 1,      /* the answer is no (a check failed) */
    CLI_EXIT_USAGE = 2,   /* the command line is wrong */
    CLI_EXIT_DATA = 3,    /* a file is missing, damaged or of an unknown kind */
    CLI_EXIT_MACHINE = 4, /* memory, disk, limits */
    CLI_EXIT_PEER = 5,    /* another process did not answer as it should */
    CLI_EXIT_BUG = 70,    /* ours */
    CLI_EXIT_INTERRUPTED = 130
};

struct cli_command {
    const char *name;
    const char *summary;               /* one line for `stoker help` */
    int (*run)(int argc, char **argv); /* argv[0] is the command's name; gives an exit status */
};

/* A command that has commands of its own. */
struct cli_group {
    const char *name;
    const char *about; /* one sentence of its help */
    const struct cli_command *commands;
    size_t count;
};
/* Runs the one that argv[1] names, or prints the help. Gives an exit status. */
int cli_group_run(const struct cli_group *group, int argc, char **argv);

int cmd_probe(int argc, char **argv);
int cmd_decode(int argc, char **argv);
int cmd_index(int argc, char **argv);
int cmd_manifest(int argc, char **argv);
int cmd_quarantine(int argc, char **argv);
int cmd_profile(int argc, char **argv);
int cmd_preprocess(int argc, char **argv);
int cmd_index_build(int argc, char **argv); /* a subcommand: cmd_index.c calls it */
int cmd_dataserver(int argc, char **argv);
int cmd_worker(int argc, char **argv);

#endif
