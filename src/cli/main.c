/* SPDX-License-Identifier: Apache-2.0
 *
 * The `stoker` program: finds the command and runs it.
 *
 * To add a command: 1. a row in the table below; 2. its prototype in command.h; 3. cmd_<name>.c with an option table,
 * and its name in meson.build; 4. its section in docs/reference/cli.md, which a test compares with `stoker <name>
 * --help`; 5. cases in tests/cli/.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <stoker/stoker.h>

#include "cli/command.h"
#include "cli/output.h"

static const struct cli_command commands[] = {
    {"probe", "facts of video files: codec, size, frames, duration", cmd_probe},
    {"decode", "decode frames of a video file into a .npy file", cmd_decode},
    {"index", "work with token files: info, stats, verify, cat, merge, ...", cmd_index},
    {"manifest", "scans of many videos, kept: build, verify, show, merge", cmd_manifest},
    {"quarantine", "lists of bad files: list, export, clear", cmd_quarantine},
    {"profile", "what samples of your videos cost, as JSON lines", cmd_profile},
    {"preprocess", "JSON lines to token files", cmd_preprocess},
    {"dataserver", "serve the ranks of one job on this host", cmd_dataserver},
    {"worker", "decode for a DataServer, which starts it", cmd_worker},
};
enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static const struct cli_command *find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0) return &commands[i];
    return NULL;
}

static void print_help(FILE *out)
{
    fprintf(out, "usage: stoker <command> [options] [arguments]\n\ncommands:\n");
    for (size_t i = 0; i < COMMAND_COUNT; i++) fprintf(out, "  %-12s %s\n", commands[i].name, commands[i].summary);
    fprintf(out, "  %-12s %s\n", "help", "print this text, or the help of a command");
    fprintf(out,
            "\noptions:\n  -h, --help   print this text\n  --version    print the version\n\n"
            "exit status: 0 done, 1 the answer is no, 2 usage, 3 data, 4 machine, 5 peer, 70 bug, 130 interrupted\n");
}

static int unknown(const char *name)
{
    fprintf(stderr, "stoker: command '%s' is not known\nhint: stoker help\n", name);
    return CLI_EXIT_USAGE;
}

static int help(int argc, char **argv)
{
    if (argc < 3) {
        print_help(stdout);
        return CLI_EXIT_DONE;
    }
    const struct cli_command *command = find(argv[2]);
    if (!command) return unknown(argv[2]);
    char flag[] = "--help";
    char *arguments[] = {argv[2], flag, NULL};
    return command->run(2, arguments);
}

int main(int argc, char **argv)
{
    /* Past `ulimit -f` a write fails with EFBIG, which is told, instead of a signal that ends the process. */
    (void)signal(SIGXFSZ, SIG_IGN);
    if (argc < 2) {
        print_help(stderr);
        return CLI_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0)
        return cli_finish("help", help(argc, argv));
    if (strcmp(name, "--version") == 0) {
        printf("stoker %s\n", stoker_version());
        return cli_finish("--version", CLI_EXIT_DONE);
    }
    const struct cli_command *command = find(name);
    if (!command) return unknown(name);
    return cli_finish(name, command->run(argc - 1, argv + 1));
}
