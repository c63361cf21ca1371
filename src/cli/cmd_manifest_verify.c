/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker manifest verify`: is a manifest whole, and are the files still those that it describes?
 */
#include <stdio.h>

#include "base/error.h"
#include "cli/cmd_manifest.h"
#include "cli/command.h"
#include "cli/output.h"

struct verify {
    const stoker_manifest *manifest;
    bool json;
};

static void print_fault(void *user, uint64_t index, const char *message)
{
    const struct verify *verify = user;
    stoker_manifest_entry entry;
    /* The index is one that the library gave. */
    if (stoker_manifest_get_entry(verify->manifest, index, &entry, NULL) < 0) return;
    if (!verify->json) {
        manifest_print_name(&entry);
        printf(": %s\n", message);
        return;
    }
    printf("{\"schema\":\"stoker.manifest.fault/1\",\"index\":%llu,\"path\":", (unsigned long long)index);
    cli_print_json_text(stdout, entry.path);
    printf(",\"member\":");
    if (entry.member)
        cli_print_json_text(stdout, entry.member);
    else
        printf("null");
    printf(",\"error\":");
    cli_print_json_text(stdout, message);
    puts("}");
}

static stoker_status run(struct verify *verify, stoker_manifest_verify_options *how, uint64_t *out_faults,
                         stoker_error *err)
{
    stoker_object_settings *settings = NULL;
    STK_TRY(manifest_settings(&settings, err));
    how->object = stoker_object_settings_options(settings);
    how->fault_fn = print_fault;
    how->fault_user = verify;
    stoker_status status = stoker_manifest_verify(verify->manifest, how, out_faults, err);
    stoker_object_settings_destroy(settings);
    return status;
}

static void print_sum(const struct verify *verify, const char *path, uint64_t faults)
{
    stoker_manifest_facts facts;
    stoker_manifest_get_facts(verify->manifest, &facts);
    if (verify->json)
        printf("{\"schema\":\"stoker.manifest.verify/1\",\"result\":\"%s\",\"entries\":%llu,\"faults\":%llu}\n",
               faults ? "bad" : "good", (unsigned long long)facts.entries, (unsigned long long)faults);
    else
        printf("%s: %s, %llu files, %llu differ\n", path, faults ? "bad" : "good", (unsigned long long)facts.entries,
               (unsigned long long)faults);
}

int cmd_manifest_verify(int argc, char **argv)
{
    struct verify verify = {NULL, false};
    bool deep = false, exact = false;
    const char *jobs = NULL;
    int count = 0;
    uint64_t faults = 0;
    stoker_error err = {0};
    stoker_manifest *manifest = NULL;
    const struct cli_option options[] = {
        {'j', "jobs", "N", "files that are looked at at once (the processors, at most 16)", NULL, &jobs},
        {0, "deep", NULL, "scan the packets of each file again", &deep, NULL},
        {0, "exact", NULL, "and decode it, and count the frames that come out", &exact, NULL},
        {0, "json", NULL, "print one JSON object a file that differs, and one at the end", &verify.json, NULL},
    };
    const struct cli_usage usage = {
        "manifest verify", "[--deep | --exact] [--jobs N] [--json] MANIFEST",
        "Check the checksums of a manifest, and compare size and time of each file with its entry. The exit status is\n"
        "1 if a file differs.",
        options, sizeof options / sizeof options[0]};
    enum cli_parsed parsed = cli_options_parse(&usage, argc, argv, &count);
    if (parsed != CLI_PARSED_RUN) return parsed == CLI_PARSED_HELP ? CLI_EXIT_DONE : CLI_EXIT_USAGE;
    if (count != 1) return cli_usage_error(&usage, "one MANIFEST is needed");
    stoker_manifest_verify_options how = STOKER_MANIFEST_VERIFY_OPTIONS_INIT;
    if (!manifest_jobs(&usage, jobs, &how.jobs)) return CLI_EXIT_USAGE;
    how.depth = exact ? STOKER_MANIFEST_FRAMES : deep ? STOKER_MANIFEST_PACKETS : STOKER_MANIFEST_FACTS;
    cli_interrupt_removes(NULL);
    stoker_status status = manifest_open(argv[1], &manifest, &err);
    verify.manifest = manifest;
    if (status >= 0) status = run(&verify, &how, &faults, &err);
    if (status >= 0) print_sum(&verify, argv[1], faults);
    stoker_manifest_close(manifest);
    if (status < 0) return cli_fail("manifest verify", &err);
    return faults ? CLI_EXIT_NO : CLI_EXIT_DONE;
}
