/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker worker`: a native worker process; started by a DataServer, not by people.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <stoker/stoker.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"

int cmd_worker(int argc, char **argv)
{
    const char *fd_text = NULL;
    const struct cli_option table[] = {
        {0, "fd", "N", "descriptor of the connected socket to the DataServer", NULL, &fd_text}};
    const struct cli_usage usage = {
        "worker", "--fd N",
        "Decode the samples that a DataServer asks for until it closes the socket. DataServers start it.", table, 1};
    int count;
    switch (cli_options_parse(&usage, argc, argv, &count)) {
    case CLI_PARSED_HELP: return CLI_EXIT_DONE;
    case CLI_PARSED_WRONG: return CLI_EXIT_USAGE;
    case CLI_PARSED_RUN: break;
    }
    if (count > 0) return cli_usage_error(&usage, "unexpected argument '%s'", argv[1]);
    char *end = NULL;
    int fd = fd_text ? (int)strtol(fd_text, &end, 10) : -1;
    if (!fd_text || !*fd_text || *end || fcntl(fd, F_GETFD) < 0)
        return cli_usage_error(&usage, "--fd '%s' is not an open descriptor", fd_text ? fd_text : "");
    (void)signal(SIGINT, SIG_IGN);  /* a terminal's Ctrl-C is the trainer's; this process ends with its socket */
    (void)signal(SIGPIPE, SIG_IGN); /* the closed socket is found when it is read */
    stoker_error err = {0};
    stoker_status status = stoker_worker_run(fd, &err);
    if (status >= 0) return CLI_EXIT_DONE;
    fprintf(stderr, "stoker worker: %s\n", err.message);
    return cli_exit_of(status);
}
