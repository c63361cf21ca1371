/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker quarantine`: what is on a list of bad files, as a table or one JSON object a line, and how to clear it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <stoker/stoker.h>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"

enum { PATH_BYTES_MAX = 4096 };

static const char command[] = "quarantine";

static void format_time(int64_t seconds, char out[24])
{
    time_t at = (time_t)seconds;
    struct tm parts;
    if (!gmtime_r(&at, &parts) || strftime(out, 24, "%Y-%m-%dT%H:%M:%SZ", &parts) == 0) out[0] = 0;
}

static stoker_status print_json(void *user, const stoker_quarantine_entry *entry, stoker_error *err)
{
    (void)user, (void)err;
    char first[24], last[24];
    format_time(entry->first_seen_s, first);
    format_time(entry->last_seen_s, last);
    struct cli_json *json = cli_json_begin();
    cli_json_text(json, "schema", "stoker.quarantine/1");
    cli_json_text(json, "path", entry->path);
    cli_json_integer(json, "bytes", (int64_t)entry->bytes);
    cli_json_integer(json, "mtime_ns", entry->mtime_ns);
    cli_json_text(json, "status", stoker_status_name(entry->status));
    cli_json_text(json, "error", entry->error);
    cli_json_integer(json, "count", (int64_t)entry->count);
    cli_json_text(json, "first_seen", first);
    cli_json_text(json, "last_seen", last);
    cli_json_end(json);
    return STOKER_OK;
}

static stoker_status print_row(void *user, const stoker_quarantine_entry *entry, stoker_error *err)
{
    (void)user, (void)err;
    char last[24];
    format_time(entry->last_seen_s, last);
    printf("%-11s %6" PRIu64 " %-20s  %s: %s\n", stoker_status_name(entry->status), entry->count, last, entry->path,
           entry->error);
    return STOKER_OK;
}

static stoker_status show(stoker_quarantine *list, bool json, stoker_error *err)
{
    char digest[STOKER_DIGEST_HEX_BYTES];
    uint64_t count = 0;
    if (!json) printf("%-11s %6s %-20s  %s\n", "status", "count", "last seen", "file: error");
    STK_TRY(stoker_quarantine_walk(list, json ? print_json : print_row, NULL, err));
    if (json) return STOKER_OK;
    STK_TRY(stoker_quarantine_digest(list, digest, &count, err));
    printf("%" PRIu64 " files, digest %s\n", count, digest);
    return STOKER_OK;
}

/* Loaders name files by absolute paths. */
static stoker_status clear_path(stoker_quarantine *list, const char *path, uint64_t *removed, bool *unknown,
                                stoker_error *err)
{
    char absolute[PATH_BYTES_MAX];
    uint64_t count = 0;
    size_t used = 0;
    if (path[0] != '/' && getcwd(absolute, sizeof absolute)) {
        used = strlen(absolute);
        absolute[used++] = '/';
    }
    if (used + strlen(path) >= sizeof absolute)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a path of %zu bytes, expected less than %d",
                        used + strlen(path), PATH_BYTES_MAX);
    memcpy(absolute + used, path, strlen(path) + 1);
    stoker_status status = stoker_quarantine_clear(list, absolute, &count, err);
    *removed += count;
    if (status == STOKER_OK && count == 0) {
        fprintf(stderr, "stoker %s: '%s' is not on the list\n", command, absolute);
        *unknown = true;
    }
    return status;
}

static stoker_status clear(stoker_quarantine *list, char **paths, int count, bool *unknown, stoker_error *err)
{
    uint64_t removed = 0;
    if (count == 0) STK_TRY(stoker_quarantine_clear(list, NULL, &removed, err));
    for (int i = 0; i < count; i++) STK_TRY(clear_path(list, paths[i], &removed, unknown, err));
    printf("%" PRIu64 " entries removed\n", removed);
    return STOKER_OK;
}

int cmd_quarantine(int argc, char **argv)
{
    bool json = false, all = false, unknown = false;
    const struct cli_option table[] = {
        {0, "json", NULL, "with list: one JSON object a line, as export prints it", &json, NULL},
        {0, "all", NULL, "with clear: every entry", &all, NULL},
    };
    const struct cli_usage usage = {
        command, "list|export|clear LIST [PATH...] [--json] [--all]",
        "Lists of bad files that loaders keep (quarantine=). `list` shows one, `export` prints it as JSON lines,\n"
        "`clear` removes the entries of the given files, which are tried again then, or --all. Exit status 1: a file\n"
        "was not on the list.",
        table, sizeof table / sizeof table[0]};
    int count;
    switch (cli_options_parse(&usage, argc, argv, &count)) {
    case CLI_PARSED_HELP: return CLI_EXIT_DONE;
    case CLI_PARSED_WRONG: return CLI_EXIT_USAGE;
    case CLI_PARSED_RUN: break;
    }
    if (count == 0) {
        fprintf(stderr, "usage: stoker %s %s\n", command, usage.synopsis);
        return cli_usage_error(&usage, "a command is needed: list, export or clear");
    }
    const char *verb = argv[1];
    bool clears = strcmp(verb, "clear") == 0, exports = strcmp(verb, "export") == 0;
    if (!clears && !exports && strcmp(verb, "list") != 0)
        return cli_usage_error(&usage, "'%s' is none of list, export, clear", verb);
    if (count < 2) return cli_usage_error(&usage, "%s needs the path of a list", verb);
    if (!clears && count > 2) return cli_usage_error(&usage, "unexpected argument '%s'", argv[3]);
    if (clears && (count == 2) != all) return cli_usage_error(&usage, "clear needs either files or --all");
    if (!clears && all) return cli_usage_error(&usage, "--all belongs to clear");
    stoker_error err = {0};
    stoker_quarantine *list = NULL;
    /* A list that does not exist is not made by a look at it. */
    stoker_status status = stoker_quarantine_open(argv[2], STOKER_QUARANTINE_READ, &list, &err);
    if (status == STOKER_OK && clears) {
        stoker_quarantine_close(list);
        list = NULL;
        status = stoker_quarantine_open(argv[2], STOKER_QUARANTINE_WRITE, &list, &err);
    }
    if (status == STOKER_OK)
        status = clears ? clear(list, argv + 3, count - 2, &unknown, &err) : show(list, json || exports, &err);
    stoker_quarantine_close(list);
    if (status != STOKER_OK) return cli_fail(command, &err);
    return unknown ? CLI_EXIT_NO : CLI_EXIT_DONE;
}
