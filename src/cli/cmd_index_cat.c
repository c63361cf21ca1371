/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker index cat`: token ids, a line for each sequence. Long sequences are read and printed in pieces.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cmd_index.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"

enum { STEP_ELEMENTS = 65536 };

struct cat {
    const char *prefix;
    bool json;
    stoker_dataset *dataset;
    stoker_dataset_facts facts;
    uint64_t document; /* that holds the sequence printed last; they mostly come in order */
    union {
        int64_t whole[STEP_ELEMENTS];
        double real[STEP_ELEMENTS];
        float single[STEP_ELEMENTS];
    } step;
};

/* ------------------------------------------------------------------------------------------------------- printing */

static void print_piece(const struct cat *cat, uint64_t count, bool first)
{
    const char *comma = cat->json ? "," : " ";
    for (uint64_t i = 0; i < count; i++) {
        if (!first || i > 0) fputs(comma, stdout);
        if (cat->facts.dtype_code == STOKER_TOKEN_FLOAT64)
            printf("%.17g", cat->step.real[i]);
        else if (cat->facts.dtype_code == STOKER_TOKEN_FLOAT32)
            printf("%.9g", (double)cat->step.single[i]);
        else
            printf("%" PRId64, cat->step.whole[i]);
    }
}

static stoker_status read_piece(struct cat *cat, stoker_dataset_run run, stoker_error *err)
{
    int code = cat->facts.dtype_code;
    if (code == STOKER_TOKEN_FLOAT64 || code == STOKER_TOKEN_FLOAT32)
        return stoker_dataset_read(cat->dataset, run, &cat->step, err);
    return stoker_dataset_read_int64(cat->dataset, run, cat->step.whole, err);
}

/* Of the documents that end after the sequence, the first. */
static uint64_t document_of(const struct cat *cat, uint64_t sequence)
{
    uint64_t low = 0, high = index_documents(&cat->facts) - 1;
    if ((uint64_t)index_document(&cat->facts, cat->document) <= sequence &&
        sequence < (uint64_t)index_document(&cat->facts, cat->document + 1))
        return cat->document;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if ((uint64_t)index_document(&cat->facts, middle + 1) > sequence)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static stoker_status print_sequence(struct cat *cat, uint64_t sequence, stoker_error *err)
{
    uint64_t length = (uint64_t)index_length(&cat->facts, sequence);
    if (cat->json) {
        cat->document = document_of(cat, sequence);
        printf("{\"schema\":\"stoker.index.cat/1\",\"prefix\":");
        cli_print_json_text(stdout, cat->prefix);
        printf(",\"document\":%" PRIu64 ",\"sequence\":%" PRIu64 ",\"mode\":", cat->document, sequence);
        if (cat->facts.modes)
            printf("%d", ((const int8_t *)cat->facts.modes)[sequence]);
        else
            printf("null");
        printf(",\"tokens\":[");
    }
    for (uint64_t done = 0; done < length;) {
        uint64_t part = length - done < STEP_ELEMENTS ? length - done : STEP_ELEMENTS;
        STK_TRY(read_piece(cat, (stoker_dataset_run){sequence, done, part}, err));
        print_piece(cat, part, done == 0);
        done += part;
    }
    printf(cat->json ? "]}\n" : "\n");
    return STOKER_OK;
}

static stoker_status print_item(struct cat *cat, bool documents, uint64_t number, stoker_error *err)
{
    if (!documents) return print_sequence(cat, number, err);
    uint64_t end = (uint64_t)index_document(&cat->facts, number + 1);
    for (uint64_t s = (uint64_t)index_document(&cat->facts, number); s < end; s++) STK_TRY(print_sequence(cat, s, err));
    return STOKER_OK;
}

/* ---------------------------------------------------------------------------------------------------------- lists */

static bool read_number(const char **at, uint64_t *out)
{
    char *stop = NULL;
    if (**at < '0' || **at > '9') return false;
    errno = 0;
    unsigned long long value = strtoull(*at, &stop, 10);
    if (errno != 0) return false;
    *at = stop;
    *out = value;
    return true;
}

/* The next part of "0,5,9-12": a number or a run. False if there is none to read; *at is then where it failed. */
static bool next_run(const char **at, uint64_t *out_first, uint64_t *out_last)
{
    if (!read_number(at, out_first)) return false;
    *out_last = *out_first;
    if (**at == '-') {
        (*at)++;
        if (!read_number(at, out_last) || *out_last < *out_first) return false;
    }
    if (**at == ',' && (*at)[1] != 0) {
        (*at)++;
        return true;
    }
    return **at == 0;
}

static bool is_list(const char *text)
{
    uint64_t first, last;
    if (strcmp(text, "all") == 0) return true;
    while (next_run(&text, &first, &last))
        if (*text == 0) return true;
    return false;
}

static stoker_status print_list(struct cat *cat, bool documents, const char *text, stoker_error *err)
{
    uint64_t count = documents ? index_documents(&cat->facts) : cat->facts.sequences, first, last;
    if (strcmp(text, "all") == 0) {
        for (uint64_t i = 0; i < count; i++) STK_TRY(print_item(cat, documents, i, err));
        return STOKER_OK;
    }
    while (*text && next_run(&text, &first, &last))
        for (uint64_t i = first; i <= last; i++) {
            if (i >= count)
                return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s %llu is past the last: '%s' has %llu",
                                documents ? "document" : "sequence", (unsigned long long)i, cat->prefix,
                                (unsigned long long)count);
            STK_TRY(print_item(cat, documents, i, err));
        }
    return STOKER_OK;
}

int cmd_index_cat(int argc, char **argv)
{
    bool json = false, multimodal = false;
    const char *sequences = NULL, *documents = NULL;
    int count = 0;
    const struct cli_option options[] = {
        {0, "sequences", "LIST", "numbers of sequences, such as 0,5,9-12, or all", NULL, &sequences},
        {0, "documents", "LIST", "the sequences of these documents", NULL, &documents},
        {0, "json", NULL, "print one JSON object a sequence", &json, NULL},
        {0, "multimodal", NULL, "the files have a mode for each sequence", &multimodal, NULL},
    };
    const struct cli_usage usage = {"index cat", "[--sequences LIST | --documents LIST] [--json] [--multimodal] PREFIX",
                                    "Print the token ids of sequences, a line for each; all of them without a list.",
                                    options, sizeof options / sizeof options[0]};
    enum cli_parsed parsed = cli_options_parse(&usage, argc, argv, &count);
    if (parsed != CLI_PARSED_RUN) return parsed == CLI_PARSED_HELP ? CLI_EXIT_DONE : CLI_EXIT_USAGE;
    if (count != 1) return cli_usage_error(&usage, "one prefix is expected, %d are given", count);
    if (sequences && documents) return cli_usage_error(&usage, "--sequences and --documents exclude each other");
    const char *list = documents ? documents : sequences ? sequences : "all";
    if (!is_list(list)) return cli_usage_error(&usage, "'%s' is not a list of numbers such as 0,5,9-12", list);
    cli_interrupt_removes(NULL);
    index_cut_extension(argv[1]);
    static struct cat cat; /* half a megabyte */
    stoker_dataset_options open_options = STOKER_DATASET_OPTIONS_INIT;
    stoker_error err = {0};
    open_options.multimodal = multimodal;
    cat.prefix = argv[1];
    cat.json = json;
    stoker_status status = stoker_dataset_open(argv[1], &open_options, &cat.dataset, &err);
    if (status == STOKER_OK) {
        stoker_dataset_get_facts(cat.dataset, &cat.facts);
        status = print_list(&cat, documents != NULL, list, &err);
        stoker_dataset_close(cat.dataset);
    }
    return status < 0 ? cli_fail("index cat", &err) : CLI_EXIT_DONE;
}
