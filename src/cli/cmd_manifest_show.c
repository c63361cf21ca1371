/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker manifest show`: the entries of a manifest as a table or as JSON lines, which are streamed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cmd_manifest.h"
#include "cli/command.h"
#include "cli/output.h"

struct show {
    bool json, packets, bad;
};

static void text_member(const char *name, const char *value)
{
    printf(",\"%s\":", name);
    if (value)
        cli_print_json_text(stdout, value);
    else
        printf("null");
}

static void integer_member(const char *name, int64_t value) { printf(",\"%s\":%" PRId64, name, value); }

static void time_list(const char *name, const stoker_packet *packets, uint64_t count, bool decode)
{
    printf(",\"%s\":[", name);
    for (uint64_t i = 0; i < count; i++) {
        int64_t time = decode ? packets[i].dts : packets[i].pts;
        if (i > 0) putchar(',');
        if (time == STOKER_TIME_UNKNOWN)
            printf("null");
        else
            printf("%" PRId64, time);
    }
    putchar(']');
}

static stoker_status packet_lists(const stoker_manifest *manifest, uint64_t index, uint64_t count, stoker_error *err)
{
    stoker_packet *packets = calloc((size_t)count + 1, sizeof *packets);
    if (!packets) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %llu packets", (unsigned long long)count);
    stoker_status status = stoker_manifest_get_packets(manifest, index, packets, err);
    if (status >= 0) {
        time_list("pts", packets, count, false);
        time_list("dts", packets, count, true);
        printf(",\"sizes\":[");
        for (uint64_t i = 0; i < count; i++) printf("%s%" PRIu32, i ? "," : "", packets[i].size);
        printf("],\"flags\":[");
        for (uint64_t i = 0; i < count; i++) printf("%s%" PRIu32, i ? "," : "", packets[i].flags);
        putchar(']');
    }
    free(packets);
    return status;
}

static stoker_status print_json(const stoker_manifest *manifest, uint64_t index, const stoker_manifest_entry *entry,
                                bool packets, stoker_error *err)
{
    char path[8192];
    STK_TRY(stoker_manifest_get_path(manifest, index, path, sizeof path, err));
    printf("{\"schema\":\"stoker.manifest.entry/1\"");
    text_member("path", path);
    text_member("member", entry->member);
    text_member("codec", entry->codec);
    integer_member("width", entry->width);
    integer_member("height", entry->height);
    integer_member("rotation", entry->rotation);
    integer_member("frames", (int64_t)entry->frames);
    if (entry->frames_exact == STOKER_FRAMES_UNKNOWN)
        printf(",\"frames_exact\":null");
    else
        integer_member("frames_exact", entry->frames_exact);
    printf(",\"duration_s\":%.15g,\"frame_rate\":%.15g", entry->duration_s, entry->frame_rate);
    integer_member("bytes", (int64_t)entry->bytes);
    integer_member("mtime_ns", entry->mtime_ns);
    integer_member("offset", (int64_t)entry->offset);
    integer_member("packets", (int64_t)entry->packets);
    integer_member("key_packets", (int64_t)entry->key_packets);
    integer_member("packet_bytes", (int64_t)entry->packet_bytes);
    text_member("error", entry->error);
    if (packets) {
        printf(",\"time_base\":%.17g", entry->time_base);
        STK_TRY(packet_lists(manifest, index, entry->packets, err));
    }
    puts("}");
    return STOKER_OK;
}

static void print_row(const stoker_manifest_entry *entry)
{
    char size[32];
    (void)snprintf(size, sizeof size, "%ux%u", entry->width, entry->height);
    if (entry->error)
        printf("%-12s %-11s %4s %8s %10s %12llu  ", "-", "-", "-", "-", "-", (unsigned long long)entry->bytes);
    else
        printf("%-12s %-11s %4d %8llu %10.3f %12llu  ", entry->codec, size, entry->rotation,
               (unsigned long long)entry->frames, entry->duration_s, (unsigned long long)entry->bytes);
    manifest_print_name(entry);
    if (entry->error) printf(": %s", entry->error);
    putchar('\n');
}

static stoker_status print_entries(const stoker_manifest *manifest, const struct show *show, stoker_error *err)
{
    stoker_manifest_facts facts;
    stoker_manifest_get_facts(manifest, &facts);
    if (!show->json)
        printf("%-12s %-11s %4s %8s %10s %12s  %s\n", "codec", "size", "turn", "frames", "seconds", "bytes", "path");
    for (uint64_t i = 0; i < facts.entries; i++) {
        stoker_manifest_entry entry;
        STK_TRY(stoker_manifest_get_entry(manifest, i, &entry, err));
        if (show->bad && !entry.error) continue;
        if (show->json)
            STK_TRY(print_json(manifest, i, &entry, show->packets, err));
        else
            print_row(&entry);
    }
    return STOKER_OK;
}

int cmd_manifest_show(int argc, char **argv)
{
    struct show show = {false, false, false};
    int count = 0;
    stoker_manifest *manifest = NULL;
    stoker_error err = {0};
    const struct cli_option options[] = {
        {0, "json", NULL, "print one JSON object an entry", &show.json, NULL},
        {0, "packets", NULL, "with the times, sizes and flags of the packets (needs --json)", &show.packets, NULL},
        {0, "bad", NULL, "only files that cannot be used", &show.bad, NULL},
    };
    const struct cli_usage usage = {"manifest show", "[--json [--packets]] [--bad] MANIFEST",
                                    "Print the entries of a manifest in their order.", options,
                                    sizeof options / sizeof options[0]};
    enum cli_parsed parsed = cli_options_parse(&usage, argc, argv, &count);
    if (parsed != CLI_PARSED_RUN) return parsed == CLI_PARSED_HELP ? CLI_EXIT_DONE : CLI_EXIT_USAGE;
    if (count != 1) return cli_usage_error(&usage, "one MANIFEST is needed");
    if (show.packets && !show.json) return cli_usage_error(&usage, "--packets needs --json");
    cli_interrupt_removes(NULL);
    stoker_status status = manifest_open(argv[1], &manifest, &err);
    if (status >= 0) status = print_entries(manifest, &show, &err);
    stoker_manifest_close(manifest);
    return status < 0 ? cli_fail("manifest show", &err) : CLI_EXIT_DONE;
}
