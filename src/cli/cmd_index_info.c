/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker index info`: what datasets are, as a table or one JSON object a line. Every value of the index is checked on
 * the way.
 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "cli/cmd_index.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"

struct info {
    uint64_t documents, tokens, idx_bytes;
    stoker_dataset_facts facts;
};

static stoker_status look(const char *prefix, bool multimodal, struct info *out, stoker_error *err)
{
    stoker_dataset_options options = STOKER_DATASET_OPTIONS_INIT;
    stoker_dataset *dataset = NULL;
    char path[INDEX_PATH_BYTES_MAX];
    struct stat stats;
    options.multimodal = multimodal;
    options.access = STOKER_DATASET_FILE; /* the data need not be mapped */
    options.open_retries = -1;
    STK_TRY(stoker_dataset_open(prefix, &options, &dataset, err));
    stoker_dataset_get_facts(dataset, &out->facts);
    out->documents = index_documents(&out->facts);
    out->tokens = index_tokens(&out->facts);
    if (snprintf(path, sizeof path, "%s.idx", prefix) < (int)sizeof path && stat(path, &stats) == 0)
        out->idx_bytes = (uint64_t)stats.st_size;
    stoker_dataset_close(dataset); /* what is used below are numbers */
    return STOKER_OK;
}

static void print_json(const char *prefix, const struct info *info, const char *error)
{
    struct cli_json *json = cli_json_begin();
    cli_json_text(json, "schema", "stoker.index.info/1");
    cli_json_text(json, "prefix", prefix);
    cli_json_text(json, "dtype", error ? NULL : index_dtype_name(info->facts.dtype_code));
    cli_json_integer(json, "sequences", (int64_t)info->facts.sequences);
    cli_json_integer(json, "documents", (int64_t)info->documents);
    cli_json_integer(json, "tokens", (int64_t)info->tokens);
    cli_json_integer(json, "bin_bytes", (int64_t)info->facts.bin_bytes);
    cli_json_integer(json, "idx_bytes", (int64_t)info->idx_bytes);
    cli_json_text(json, "error", error);
    cli_json_end(json);
}

int cmd_index_info(int argc, char **argv)
{
    bool json = false, multimodal = false;
    int count = 0, result = CLI_EXIT_DONE;
    const struct cli_option options[] = {
        {0, "json", NULL, "print one JSON object a dataset", &json, NULL},
        {0, "multimodal", NULL, "the files have a mode for each sequence", &multimodal, NULL},
    };
    const struct cli_usage usage = {
        "index info", "[--json] [--multimodal] PREFIX...",
        "Print element type, counts and sizes of datasets. The exit status is 3 if one cannot be used.", options,
        sizeof options / sizeof options[0]};
    enum cli_parsed parsed = cli_options_parse(&usage, argc, argv, &count);
    if (parsed != CLI_PARSED_RUN) return parsed == CLI_PARSED_HELP ? CLI_EXIT_DONE : CLI_EXIT_USAGE;
    if (count == 0) return cli_usage_error(&usage, "no prefix is given");
    cli_interrupt_removes(NULL);
    if (!json) printf("%-8s %14s %14s %16s %16s  %s\n", "type", "sequences", "documents", "tokens", "bytes", "prefix");
    for (int i = 1; i <= count; i++) {
        struct info info;
        stoker_error err = {0};
        memset(&info, 0, sizeof info);
        index_cut_extension(argv[i]);
        stoker_status status = look(argv[i], multimodal, &info, &err);
        if (json) {
            print_json(argv[i], &info, status < 0 ? err.message : NULL);
        } else if (status < 0) {
            (void)cli_fail("index info", &err);
        } else {
            printf("%-8s %14llu %14llu %16llu %16llu  %s\n", index_dtype_name(info.facts.dtype_code),
                   (unsigned long long)info.facts.sequences, (unsigned long long)info.documents,
                   (unsigned long long)info.tokens, (unsigned long long)info.facts.bin_bytes, argv[i]);
        }
        if (status < 0 && result == CLI_EXIT_DONE) result = cli_exit_of(status);
    }
    return result;
}
