/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker manifest`: commands on media manifests. Each has a file of its own, cmd_manifest_<name>.c; merge is here.
 *
 * To add one: a row in the table below, its prototype in cmd_manifest.h, its file in meson.build, its section in
 * docs/reference/cli.md and cases in tests/cli/.
 */
#include "cli/cmd_manifest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/command.h"
#include "cli/lists.h"
#include "cli/output.h"

enum { JOBS_MAX = 16 };

static const struct cli_command subcommands[] = {
    {"build", "scan files, or bring a manifest up to date", cmd_manifest_build},
    {"verify", "are the files still those of the manifest?", cmd_manifest_verify},
    {"show", "its entries, also as JSON lines", cmd_manifest_show},
    {"merge", "several manifests as one", cmd_manifest_merge},
};

int cmd_manifest(int argc, char **argv)
{
    static const struct cli_group group = {
        "manifest",
        "Keep what one scan of each video found, so that nothing is probed again.",
        subcommands,
        sizeof subcommands / sizeof subcommands[0],
    };
    return cli_group_run(&group, argc, argv);
}

bool manifest_jobs(const struct cli_usage *usage, const char *text, uint32_t *out_jobs)
{
    if (!text) {
        long processors = sysconf(_SC_NPROCESSORS_ONLN);
        *out_jobs = processors < 1 ? 1 : processors > JOBS_MAX ? JOBS_MAX : (uint32_t)processors;
        return true;
    }
    char *end = NULL;
    unsigned long jobs = strtoul(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end || jobs < 1 || jobs > JOBS_MAX) {
        (void)cli_usage_error(usage, "--jobs '%s' is not between 1 and %d", text, JOBS_MAX);
        return false;
    }
    *out_jobs = (uint32_t)jobs;
    return true;
}

static const char *variable(void *user, const char *name)
{
    (void)user;
    return getenv(name);
}

stoker_status manifest_settings(stoker_object_settings **out_settings, stoker_error *err)
{
    return stoker_object_settings_create(variable, NULL, out_settings, err);
}

stoker_status manifest_open(const char *path, stoker_manifest **out_manifest, stoker_error *err)
{
    stoker_status status = stoker_manifest_open(path, out_manifest, err);
    if (status != STOKER_ERR_CORRUPT || !cli_is_list(path) || strncmp(err->message, "no manifest", 11) != 0)
        return status;
    return stk_fail(err, STOKER_ERR_CORRUPT,
                    "'%s' is a list of files; make a manifest of it: stoker manifest build OUT %s", path, path);
}

void manifest_print_name(const stoker_manifest_entry *entry)
{
    printf("%s%s%s", entry->path, entry->member ? "::" : "", entry->member ? entry->member : "");
}

/* ------------------------------------------------------------------------------------------------------------ merge */

static int print_merged(const char *path, size_t count, bool as_json)
{
    stoker_manifest *manifest = NULL;
    stoker_manifest_facts facts;
    stoker_error err = {0};
    if (stoker_manifest_open(path, &manifest, &err) < 0) return cli_fail("manifest merge", &err);
    stoker_manifest_get_facts(manifest, &facts);
    stoker_manifest_close(manifest);
    if (!as_json) {
        printf("%s: %llu files of %zu manifests, %llu cannot be used\n", path, (unsigned long long)facts.entries, count,
               (unsigned long long)facts.bad);
        return CLI_EXIT_DONE;
    }
    struct cli_json *json = cli_json_begin();
    cli_json_text(json, "schema", "stoker.manifest.merge/1");
    cli_json_text(json, "path", path);
    cli_json_integer(json, "manifests", (int64_t)count);
    cli_json_integer(json, "entries", (int64_t)facts.entries);
    cli_json_integer(json, "bad", (int64_t)facts.bad);
    cli_json_end(json);
    return CLI_EXIT_DONE;
}

int cmd_manifest_merge(int argc, char **argv)
{
    bool json = false;
    int count = 0;
    stoker_error err = {0};
    const struct cli_option options[] = {
        {0, "json", NULL, "print the result as one JSON object", &json, NULL},
    };
    const struct cli_usage usage = {
        "manifest merge", "[--json] OUT MANIFEST...",
        "Join manifests in the given order. A file may stand in one of them only. The result appears when it is whole.",
        options, sizeof options / sizeof options[0]};
    enum cli_parsed parsed = cli_options_parse(&usage, argc, argv, &count);
    if (parsed != CLI_PARSED_RUN) return parsed == CLI_PARSED_HELP ? CLI_EXIT_DONE : CLI_EXIT_USAGE;
    if (count < 2) return cli_usage_error(&usage, "OUT and at least one MANIFEST are needed");
    cli_interrupt_removes(NULL);
    const stoker_manifest_sources manifests = {(const char *const *)argv + 2, (size_t)count - 1};
    if (stoker_manifest_merge(argv[1], &manifests, &err) < 0) return cli_fail("manifest merge", &err);
    return print_merged(argv[1], manifests.count, json);
}
