/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker index verify`: are datasets exactly what their index says? The first fault is named with its place.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "cli/cmd_index.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"

static stoker_status verify(const char *prefix, bool multimodal, stoker_dataset_facts *out_facts,
                            uint64_t *out_sequence, stoker_error *err)
{
    stoker_dataset_options options = STOKER_DATASET_OPTIONS_INIT;
    stoker_dataset *dataset = NULL;
    options.multimodal = multimodal;
    options.access = STOKER_DATASET_FILE;
    options.open_retries = -1;
    options.unchecked = 1; /* the check comes next, and tells the sequence */
    STK_TRY(stoker_dataset_open(prefix, &options, &dataset, err));
    stoker_dataset_get_facts(dataset, out_facts);
    stoker_status status = stoker_dataset_verify(dataset, out_sequence, err);
    stoker_dataset_close(dataset);
    return status;
}

static void print_json(const char *prefix, const stoker_dataset_facts *facts, uint64_t sequence, const char *error)
{
    struct cli_json *json = cli_json_begin();
    cli_json_text(json, "schema", "stoker.index.verify/1");
    cli_json_text(json, "prefix", prefix);
    cli_json_text(json, "result", error ? "bad" : "good");
    cli_json_integer(json, "sequences", (int64_t)facts->sequences);
    if (error && sequence != UINT64_MAX)
        cli_json_integer(json, "sequence", (int64_t)sequence);
    else
        cli_json_null(json, "sequence");
    cli_json_text(json, "error", error);
    cli_json_end(json);
}

int cmd_index_verify(int argc, char **argv)
{
    bool json = false, multimodal = false;
    int count = 0, result = CLI_EXIT_DONE;
    const struct cli_option options[] = {
        {0, "json", NULL, "print one JSON object a dataset", &json, NULL},
        {0, "multimodal", NULL, "the files have a mode for each sequence", &multimodal, NULL},
    };
    const struct cli_usage usage = {
        "index verify", "[--json] [--multimodal] PREFIX...",
        "Check header, lengths, offsets and documents of datasets, that offsets are the running sum of the lengths, "
        "and\n"
        "that the data are exactly as long. The exit status is 1 if a dataset is bad, 3 if one cannot be read.",
        options, sizeof options / sizeof options[0]};
    enum cli_parsed parsed = cli_options_parse(&usage, argc, argv, &count);
    if (parsed != CLI_PARSED_RUN) return parsed == CLI_PARSED_HELP ? CLI_EXIT_DONE : CLI_EXIT_USAGE;
    if (count == 0) return cli_usage_error(&usage, "no prefix is given");
    cli_interrupt_removes(NULL);
    for (int i = 1; i <= count; i++) {
        stoker_dataset_facts facts;
        stoker_error err = {0};
        uint64_t sequence = UINT64_MAX;
        memset(&facts, 0, sizeof facts);
        index_cut_extension(argv[i]);
        stoker_status status = verify(argv[i], multimodal, &facts, &sequence, &err);
        bool bad = status == STOKER_ERR_CORRUPT || status == STOKER_ERR_UNSUPPORTED;
        int one = bad ? CLI_EXIT_NO : cli_exit_of(status);
        if (json)
            print_json(argv[i], &facts, sequence, status < 0 ? err.message : NULL);
        else if (bad)
            printf("%s: bad: %s\n", argv[i], err.message);
        else if (status < 0)
            (void)cli_fail("index verify", &err);
        else
            printf("%s: good, %llu sequences\n", argv[i], (unsigned long long)facts.sequences);
        if (one > result) result = one; /* what could not be read says more than what is bad */
    }
    return result;
}
