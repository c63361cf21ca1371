/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker index sequences`: the counts file that lets training open datasets without reading their headers. The same
 * bytes, and the same lines on stdout, as Megatron-LM's build_sequences_per_dataset.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cmd_index.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/prefixes.h"

/* The data arguments: lists, which take all that follows up to the next option. */
enum { LIST_DATA, LIST_TRAIN, LIST_VALID, LIST_TEST, LIST_COUNT };
static const char *const list_names[LIST_COUNT] = {"data-path", "train-data-path", "valid-data-path", "test-data-path"};

struct sequences {
    bool given[LIST_COUNT], json;
    struct cli_texts lists[LIST_COUNT];
    const char *blend_file, *split_file, *output;
};

static int list_of(const char *argument)
{
    if (strncmp(argument, "--", 2) != 0) return -1;
    size_t size = strcspn(argument + 2, "=");
    for (int i = 0; i < LIST_COUNT; i++)
        if (strlen(list_names[i]) == size && memcmp(list_names[i], argument + 2, size) == 0) return i;
    return -1;
}

/* Takes the lists out of argv; gives the number of arguments that are left. */
static int take_lists(struct sequences *sequences, int argc, char **argv, stoker_error *err, stoker_status *out_status)
{
    int kept = 1;
    *out_status = STOKER_OK;
    for (int at = 1; at < argc; at++) {
        int list = list_of(argv[at]);
        if (list < 0) {
            argv[kept++] = argv[at];
            continue;
        }
        const char *equals = strchr(argv[at], '=');
        sequences->given[list] = true;
        if (equals) *out_status = cli_texts_add(&sequences->lists[list], equals + 1, strlen(equals + 1), err);
        while (at + 1 < argc && strncmp(argv[at + 1], "--", 2) != 0 && strcmp(argv[at + 1], "-h") != 0) {
            at++;
            *out_status = cli_texts_add(&sequences->lists[list], argv[at], strlen(argv[at]), err);
        }
        if (*out_status < 0) return kept;
    }
    argv[kept] = NULL;
    return kept;
}

/* One blend wins over blends of splits, a list over a file, as in Megatron-LM. */
static stoker_status collect(struct sequences *sequences, struct cli_texts *prefixes, stoker_error *err)
{
    struct cli_texts items = {NULL, 0, 0};
    if (sequences->given[LIST_DATA]) return cli_blend_prefixes(&sequences->lists[LIST_DATA], prefixes, err);
    if (sequences->blend_file) {
        stoker_status status = cli_texts_read(&items, sequences->blend_file, err);
        if (status == STOKER_OK) status = cli_blend_prefixes(&items, prefixes, err);
        cli_texts_free(&items);
        return status;
    }
    bool split = false;
    for (int i = LIST_TRAIN; i < LIST_COUNT; i++) {
        if (!sequences->given[i]) continue;
        split = true;
        STK_TRY(cli_blend_prefixes(&sequences->lists[i], prefixes, err));
    }
    if (!split && sequences->split_file) return cli_blend_file_prefixes(sequences->split_file, prefixes, err);
    return STOKER_OK;
}

static stoker_status write_counts(FILE *out, const struct cli_texts *prefixes, stoker_error *err)
{
    fputc('{', out);
    for (size_t i = 0; i < prefixes->count; i++) {
        stoker_dataset_options options = STOKER_DATASET_OPTIONS_INIT;
        stoker_dataset *dataset = NULL;
        stoker_dataset_facts facts;
        options.access = STOKER_DATASET_FILE;
        options.open_retries = -1;
        options.unchecked = 1; /* counts only: the data need not be on this host */
        STK_TRY(stoker_dataset_open(prefixes->texts[i], &options, &dataset, err));
        stoker_dataset_get_facts(dataset, &facts);
        if (i > 0) fputs(", ", out);
        cli_print_json_text(out, prefixes->texts[i]);
        fprintf(out, ": [%" PRIu64 ", %" PRIu64 "]", facts.sequences, facts.document_entries);
        stoker_dataset_close(dataset);
    }
    fputc('}', out);
    return STOKER_OK;
}

/* The file appears whole: written beside, then renamed. */
static stoker_status publish(const char *path, const struct cli_texts *prefixes, stoker_error *err)
{
    char temporary[INDEX_PATH_BYTES_MAX];
    if (snprintf(temporary, sizeof temporary, "%s.%ld.partial", path, (long)getpid()) >= (int)sizeof temporary)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the output path is too long");
    STK_TRY(cli_check_output(path, err));
    cli_interrupt_removes(temporary);
    FILE *out = fopen(temporary, "wb");
    if (!out) return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot create '%s'", temporary);
    stoker_status status = write_counts(out, prefixes, err);
    if (status == STOKER_OK && (fflush(out) != 0 || ferror(out) || (fsync(fileno(out)) != 0 && errno != EINVAL)))
        status = stk_fail_os(err, errno == ENOSPC ? STOKER_ERR_NO_SPACE : STOKER_ERR_IO, errno, "cannot write '%s'",
                             temporary);
    if (fclose(out) != 0 && status == STOKER_OK)
        status = stk_fail_os(err, STOKER_ERR_IO, errno, "cannot write '%s'", temporary);
    if (status == STOKER_OK && rename(temporary, path) != 0)
        status = stk_fail_os(err, STOKER_ERR_IO, errno, "cannot create '%s'", path);
    if (status < 0) (void)unlink(temporary); /* it may not be there */
    cli_interrupt_removes(NULL);
    return status;
}

static int run(struct sequences *sequences)
{
    struct cli_texts prefixes = {NULL, 0, 0};
    stoker_error err = {0};
    if (!sequences->json) printf("Building sequences per dataset...\n");
    stoker_status status = collect(sequences, &prefixes, &err);
    if (status == STOKER_OK && !sequences->json) printf("Number of unique file prefixes: %zu\n", prefixes.count);
    if (status == STOKER_OK) status = publish(sequences->output, &prefixes, &err);
    if (status == STOKER_OK && sequences->json) {
        struct cli_json *json = cli_json_begin();
        cli_json_text(json, "schema", "stoker.index.sequences/1");
        cli_json_text(json, "path", sequences->output);
        cli_json_integer(json, "prefixes", (int64_t)prefixes.count);
        cli_json_end(json);
    } else if (status == STOKER_OK) {
        printf("Done! Saving --per-dataset-sequences-path file to %s\n", sequences->output);
    }
    cli_texts_free(&prefixes);
    return status < 0 ? cli_fail("index sequences", &err) : CLI_EXIT_DONE;
}

int cmd_index_sequences(int argc, char **argv)
{
    struct sequences sequences = {.output = NULL};
    const char *unused = NULL;
    int count = 0;
    const struct cli_option options[] = {
        {0, "per-dataset-sequences-path", "FILE", "write the counts to this file", NULL, &sequences.output},
        {0, "data-path", "ITEM...", "prefixes, or weights and prefixes in turn, of all splits", NULL, &unused},
        {0, "data-args-path", "FILE", "such items in a file", NULL, &sequences.blend_file},
        {0, "train-data-path", "ITEM...", "items of the training split", NULL, &unused},
        {0, "valid-data-path", "ITEM...", "items of the validation split", NULL, &unused},
        {0, "test-data-path", "ITEM...", "items of the test split", NULL, &unused},
        {0, "per-split-data-args-path", "FILE", "JSON with items of train, valid and test", NULL,
         &sequences.split_file},
        {0, "json", NULL, "print the result as one JSON object", &sequences.json, NULL},
    };
    const struct cli_usage usage = {
        "index sequences", "--per-dataset-sequences-path FILE (--data-path ITEM... | ...) [--json]",
        "Write the numbers of sequences and document entries of datasets as JSON, so that training opens them without\n"
        "reading their headers.",
        options, sizeof options / sizeof options[0]};
    stoker_error err = {0};
    stoker_status status;
    argc = take_lists(&sequences, argc, argv, &err, &status);
    enum cli_parsed parsed = status < 0 ? CLI_PARSED_WRONG : cli_options_parse(&usage, argc, argv, &count);
    int result = parsed == CLI_PARSED_HELP ? CLI_EXIT_DONE
                 : status < 0              ? cli_fail("index sequences", &err)
                                           : CLI_EXIT_USAGE;
    if (parsed == CLI_PARSED_RUN) {
        bool any = sequences.blend_file || sequences.split_file;
        for (int i = 0; i < LIST_COUNT; i++) any = any || sequences.given[i];
        cli_interrupt_removes(NULL);
        if (count != 0)
            result = cli_usage_error(&usage, "argument '%s' is not expected", argv[1]);
        else if (!sequences.output)
            result = cli_usage_error(&usage, "--per-dataset-sequences-path is needed");
        else if (!any)
            result = cli_usage_error(&usage, "no data are given");
        else
            result = run(&sequences);
    }
    for (int i = 0; i < LIST_COUNT; i++) cli_texts_free(&sequences.lists[i]);
    return result;
}
