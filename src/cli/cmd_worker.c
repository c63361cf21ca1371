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

static int parse_isolation(const char *text, stoker_isolation *out)
{
    static const char *const names[] = {"auto", "on", "off"};
    *out = STOKER_ISOLATION_AUTO;
    for (int i = 0; i < 3; i++)
        if (text && strcmp(text, names[i]) == 0) return *out = (stoker_isolation)i, 1;
    return !text;
}

int cmd_worker(int argc, char **argv)
{
    const char *fd_text = NULL, *isolation = NULL, *max_bytes = NULL;
    bool network = false;
    const struct cli_option table[] = {
        {0, "fd", "N", "descriptor of the connected socket to the DataServer", NULL, &fd_text},
        {0, "isolation", "MODE", "give up what a decoder does not need: auto (default), on or off", NULL, &isolation},
        {0, "network", NULL, "keep the right to open connections: files lie in object storage", &network, NULL},
        {0, "max-bytes", "N", "private memory that the process may use (default: no limit)", NULL, &max_bytes}};
    const struct cli_usage usage = {
        "worker", "--fd N [--isolation MODE] [--network] [--max-bytes N]",
        "Decode the samples that a DataServer asks for until it closes the socket. DataServers start it.", table, 4};
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
    stoker_worker_options options = STOKER_WORKER_OPTIONS_INIT;
    if (!parse_isolation(isolation, &options.isolation))
        return cli_usage_error(&usage, "--isolation '%s' is none of auto, on, off", isolation);
    options.network = network;
    if (max_bytes) options.max_bytes = strtoull(max_bytes, &end, 10);
    if (max_bytes && (max_bytes[0] < '0' || max_bytes[0] > '9' || *end))
        return cli_usage_error(&usage, "--max-bytes '%s' is no number of bytes", max_bytes);
    stoker_status status = stoker_worker_serve(fd, &options, &err);
    if (status >= 0) return CLI_EXIT_DONE;
    fprintf(stderr, "stoker worker: %s\n", err.message);
    return cli_exit_of(status);
}
