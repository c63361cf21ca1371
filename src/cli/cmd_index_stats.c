/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker index stats`: how long documents and sequences are. Quantiles are exact and take bounded memory: lengths
 * below 2^20 are counted one by one, the few above are kept and sorted.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/cmd_index.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"

enum { COUNTED = 1 << 20, BIN_COUNT = 65, QUANTILE_COUNT = 7 };
static const int percents[QUANTILE_COUNT] = {1, 10, 25, 50, 75, 90, 99};

struct lengths {
    uint64_t *counts; /* [COUNTED] */
    uint64_t *large;  /* lengths of COUNTED and more */
    size_t large_count, large_room;
    uint64_t count, sum, least, most, empty;
    uint64_t bins[BIN_COUNT]; /* 0; then [2^k, 2^(k+1)) at k + 1 */
};

static stoker_status lengths_begin(struct lengths *lengths, stoker_error *err)
{
    memset(lengths, 0, sizeof *lengths);
    lengths->least = UINT64_MAX;
    lengths->counts = calloc(COUNTED, sizeof *lengths->counts);
    return lengths->counts ? STOKER_OK : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to count lengths");
}

static stoker_status lengths_add(struct lengths *lengths, uint64_t length, stoker_error *err)
{
    lengths->count++;
    lengths->sum += length;
    lengths->empty += length == 0;
    if (length < lengths->least) lengths->least = length;
    if (length > lengths->most) lengths->most = length;
    lengths->bins[length ? 64 - __builtin_clzll(length) : 0]++;
    if (length < COUNTED) {
        lengths->counts[length]++;
        return STOKER_OK;
    }
    if (lengths->large_count == lengths->large_room) {
        size_t room = lengths->large_room ? lengths->large_room * 2 : 1024;
        uint64_t *large = realloc(lengths->large, room * sizeof *large);
        if (!large) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to count lengths");
        lengths->large = large;
        lengths->large_room = room;
    }
    lengths->large[lengths->large_count++] = length;
    return STOKER_OK;
}

static int by_value(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* The least length that at least `percent` of all do not exceed. */
static uint64_t quantile(const struct lengths *lengths, int percent)
{
    uint64_t rank = (uint64_t)(((unsigned __int128)lengths->count * (unsigned)percent + 99) / 100), seen = 0;
    if (rank == 0) rank = 1;
    for (uint64_t length = 0; length < COUNTED; length++) {
        seen += lengths->counts[length];
        if (seen >= rank) return length;
    }
    return lengths->large_count ? lengths->large[rank - seen - 1] : 0;
}

static void lengths_end(struct lengths *lengths)
{
    free(lengths->counts);
    free(lengths->large);
    lengths->counts = lengths->large = NULL;
}

struct stats {
    uint64_t sequences, documents;
    struct lengths of_sequences, of_documents;
};

static stoker_status count_all(const stoker_dataset_facts *facts, struct stats *stats, stoker_error *err)
{
    stats->sequences = facts->sequences;
    stats->documents = index_documents(facts);
    for (uint64_t i = 0; i < stats->documents; i++) {
        uint64_t length = 0, end = (uint64_t)index_document(facts, i + 1);
        for (uint64_t s = (uint64_t)index_document(facts, i); s < end; s++) {
            uint64_t one = (uint64_t)index_length(facts, s);
            length += one;
            STK_TRY(lengths_add(&stats->of_sequences, one, err));
        }
        STK_TRY(lengths_add(&stats->of_documents, length, err));
    }
    qsort(stats->of_sequences.large, stats->of_sequences.large_count, sizeof(uint64_t), by_value);
    qsort(stats->of_documents.large, stats->of_documents.large_count, sizeof(uint64_t), by_value);
    return STOKER_OK;
}

static void print_lengths(const char *noun, const struct lengths *lengths)
{
    printf("%s: %" PRIu64 ", of which empty %" PRIu64 "\n", noun, lengths->count, lengths->empty);
    if (lengths->count == 0) return;
    printf("  length: least %" PRIu64 ", mean %.1f, most %" PRIu64 "\n  quantiles:", lengths->least,
           (double)lengths->sum / (double)lengths->count, lengths->most);
    for (int i = 0; i < QUANTILE_COUNT; i++)
        printf("%s %d%% %" PRIu64, i ? "," : "", percents[i], quantile(lengths, percents[i]));
    printf("\n");
    for (int bin = 0; bin < BIN_COUNT; bin++) {
        if (lengths->bins[bin] == 0) continue;
        uint64_t low = bin ? UINT64_C(1) << (bin - 1) : 0, high = bin ? low * 2 - 1 : 0;
        printf("  %12" PRIu64 " to %12" PRIu64 " %14" PRIu64 "  %5.1f%%\n", low, high, lengths->bins[bin],
               100.0 * (double)lengths->bins[bin] / (double)lengths->count);
    }
}

static void json_lengths(struct cli_json *json, const char *noun, const struct lengths *lengths)
{
    char name[64];
    int64_t bounds[BIN_COUNT], counts[BIN_COUNT];
    size_t used = 0;
    bool any = lengths->count > 0;
#define NAME(suffix) ((void)snprintf(name, sizeof name, "%s_%s", noun, suffix), name)
    cli_json_integer(json, NAME("empty"), (int64_t)lengths->empty);
    cli_json_integer(json, NAME("length_least"), any ? (int64_t)lengths->least : 0);
    cli_json_real(json, NAME("length_mean"), any ? (double)lengths->sum / (double)lengths->count : 0);
    cli_json_integer(json, NAME("length_most"), (int64_t)lengths->most);
    for (int i = 0; i < QUANTILE_COUNT; i++) {
        (void)snprintf(name, sizeof name, "%s_length_p%d", noun, percents[i]);
        cli_json_integer(json, name, any ? (int64_t)quantile(lengths, percents[i]) : 0);
    }
    for (int bin = 0; bin < BIN_COUNT; bin++) {
        if (lengths->bins[bin] == 0) continue;
        bounds[used] = bin ? (int64_t)(UINT64_C(1) << (bin - 1)) : 0;
        counts[used++] = (int64_t)lengths->bins[bin];
    }
    cli_json_integers(json, NAME("histogram_from"), bounds, used);
    cli_json_integers(json, NAME("histogram_count"), counts, used);
#undef NAME
}

static void print_stats(const char *prefix, const struct stats *stats, bool as_json)
{
    if (!as_json) {
        printf("%s: %" PRIu64 " tokens\n", prefix, stats->of_sequences.sum);
        print_lengths("documents", &stats->of_documents);
        print_lengths("sequences", &stats->of_sequences);
        return;
    }
    struct cli_json *json = cli_json_begin();
    cli_json_text(json, "schema", "stoker.index.stats/1");
    cli_json_text(json, "prefix", prefix);
    cli_json_integer(json, "tokens", (int64_t)stats->of_sequences.sum);
    cli_json_integer(json, "documents", (int64_t)stats->documents);
    cli_json_integer(json, "sequences", (int64_t)stats->sequences);
    json_lengths(json, "document", &stats->of_documents);
    json_lengths(json, "sequence", &stats->of_sequences);
    cli_json_end(json);
}

static int run(const char *prefix, bool json, bool multimodal)
{
    stoker_dataset_options options = STOKER_DATASET_OPTIONS_INIT;
    stoker_dataset *dataset = NULL;
    stoker_error err = {0};
    struct stats stats;
    memset(&stats, 0, sizeof stats);
    options.multimodal = multimodal;
    options.access = STOKER_DATASET_FILE;
    options.open_retries = -1;
    stoker_status status = stoker_dataset_open(prefix, &options, &dataset, &err);
    if (status == STOKER_OK) status = lengths_begin(&stats.of_documents, &err);
    if (status == STOKER_OK) status = lengths_begin(&stats.of_sequences, &err);
    if (status == STOKER_OK) {
        stoker_dataset_facts facts;
        stoker_dataset_get_facts(dataset, &facts);
        status = count_all(&facts, &stats, &err);
    }
    if (status == STOKER_OK) print_stats(prefix, &stats, json);
    lengths_end(&stats.of_documents);
    lengths_end(&stats.of_sequences);
    stoker_dataset_close(dataset);
    return status < 0 ? cli_fail("index stats", &err) : CLI_EXIT_DONE;
}

int cmd_index_stats(int argc, char **argv)
{
    bool json = false, multimodal = false;
    int count = 0, result = CLI_EXIT_DONE;
    const struct cli_option options[] = {
        {0, "json", NULL, "print one JSON object a dataset", &json, NULL},
        {0, "multimodal", NULL, "the files have a mode for each sequence", &multimodal, NULL},
    };
    const struct cli_usage usage = {
        "index stats", "[--json] [--multimodal] PREFIX...",
        "Print the number of tokens, and how long documents and sequences are: least, mean, "
        "most, quantiles, and\nhow many there are between powers of two.",
        options, sizeof options / sizeof options[0]};
    enum cli_parsed parsed = cli_options_parse(&usage, argc, argv, &count);
    if (parsed != CLI_PARSED_RUN) return parsed == CLI_PARSED_HELP ? CLI_EXIT_DONE : CLI_EXIT_USAGE;
    if (count == 0) return cli_usage_error(&usage, "no prefix is given");
    cli_interrupt_removes(NULL);
    for (int i = 1; i <= count; i++) {
        index_cut_extension(argv[i]);
        int one = run(argv[i], json, multimodal);
        if (result == CLI_EXIT_DONE) result = one;
    }
    return result;
}
