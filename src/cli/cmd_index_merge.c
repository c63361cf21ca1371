/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker index merge`: the datasets of a folder, one after another in the order of their names (as code points:
 * part_10 before part_2), as Megatron-LM's merge_datasets does it, with its messages.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/error.h"
#include "cli/cmd_index.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"

/* Names without their endings, each once. */
struct stems {
    char **names;
    size_t count, room;
};

struct merge {
    const char *input, *output;
    bool multimodal, no_sync;
    struct stems stems;
    stoker_dataset_builder *builder;
    stoker_dataset_facts facts; /* sums over all inputs */
};

static bool is_folder(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISDIR(facts.st_mode);
}

static bool is_file(const char *path)
{
    struct stat facts;
    return stat(path, &facts) == 0 && S_ISREG(facts.st_mode);
}

static bool join(char *out, const char *folder, const char *name, const char *extension)
{
    const char *slash = *folder && folder[strlen(folder) - 1] != '/' ? "/" : "";
    return snprintf(out, INDEX_PATH_BYTES_MAX, "%s%s%s%s", folder, slash, name, extension) < INDEX_PATH_BYTES_MAX;
}

/* Where the ending begins: the last dot that is not one of the leading ones. */
static const char *ending_of(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && dot >= name + strspn(name, ".") ? dot : name + strlen(name);
}

static stoker_status stems_add(struct stems *stems, const char *name, size_t size, stoker_error *err)
{
    for (size_t i = 0; i < stems->count; i++)
        if (strlen(stems->names[i]) == size && memcmp(stems->names[i], name, size) == 0) return STOKER_OK;
    if (stems->count == stems->room) {
        size_t room = stems->room ? stems->room * 2 : 16;
        char **names = realloc(stems->names, room * sizeof *names);
        if (!names) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the names of the folder");
        stems->names = names;
        stems->room = room;
    }
    char *copy = strndup(name, size);
    if (!copy) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for the names of the folder");
    stems->names[stems->count++] = copy;
    return STOKER_OK;
}

/* Folders and others that are no files are none of the datasets; a link of a dataset's name that leads nowhere is one
 * that would be missing in the result. */
static stoker_status check_passed_over(const char *path, const char *ending, stoker_error *err)
{
    struct stat facts;
    if (strcmp(ending, ".idx") != 0 && strcmp(ending, ".bin") != 0) return STOKER_OK;
    if (stat(path, &facts) == 0 || lstat(path, &facts) != 0 || !S_ISLNK(facts.st_mode)) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_NOT_FOUND, "'%s' is a link that leads to no file; expected a file, or no such link",
                    path);
}

/* Adds the stem of one entry; its partner must be there. */
static stoker_status take_entry(struct merge *merge, const char *name, stoker_error *err)
{
    char path[INDEX_PATH_BYTES_MAX], stem[INDEX_PATH_BYTES_MAX];
    const char *ending = ending_of(name);
    const char *partner = strcmp(ending, ".idx") == 0 ? ".bin" : ".idx";
    size_t size = (size_t)(ending - name);
    if (!join(path, merge->input, name, ""))
        return stk_fail(err, STOKER_ERR_LIMIT, "the path of '%s' is too long", name);
    if (!is_file(path)) return check_passed_over(path, ending, err);
    (void)snprintf(stem, sizeof stem, "%.*s", (int)size, name);
    if (!join(path, merge->input, stem, partner) || !is_file(path)) {
        path[strlen(path) - strlen(partner)] = 0;
        return stk_fail(err, STOKER_ERR_NOT_FOUND, "ERROR: %s file not provided for %s", partner, path);
    }
    return stems_add(&merge->stems, name, size, err);
}

static int by_name(const void *left, const void *right)
{
    return strcmp(*(char *const *)left, *(char *const *)right); /* bytes of UTF-8 order as code points do */
}

static stoker_status list_inputs(struct merge *merge, stoker_error *err)
{
    DIR *folder = is_folder(merge->input) ? opendir(merge->input) : NULL;
    if (!folder)
        return stk_fail(err, STOKER_ERR_NOT_FOUND, "ERROR: %s is not a directory or does not exist", merge->input);
    stoker_status status = STOKER_OK;
    for (struct dirent *entry; status == STOKER_OK && (entry = readdir(folder)) != NULL;)
        status = take_entry(merge, entry->d_name, err);
    (void)closedir(folder); /* it was only read */
    STK_TRY(status);
    if (merge->stems.count == 0)
        return stk_fail(err, STOKER_ERR_NOT_FOUND, "there is no dataset in the folder '%s'", merge->input);
    qsort(merge->stems.names, merge->stems.count, sizeof *merge->stems.names, by_name);
    return STOKER_OK;
}

static stoker_status check_output(const struct merge *merge, stoker_error *err)
{
    char folder[INDEX_PATH_BYTES_MAX];
    const char *slash = strrchr(merge->output, '/');
    size_t size = slash ? (size_t)(slash - merge->output) : 0;
    if (size >= sizeof folder) return stk_fail(err, STOKER_ERR_LIMIT, "the output prefix is too long");
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(slash && size == 0 ? 1 : size), merge->output);
    if (is_folder(folder)) return STOKER_OK;
    /* Also for a prefix without a folder, as Megatron-LM has it: "./out" names one. */
    return stk_fail(err, STOKER_ERR_NOT_FOUND, "ERROR: %s is not a directory or does not exist", folder);
}

static bool same_file(const char *left, const char *right)
{
    struct stat one, other;
    return stat(left, &one) == 0 && stat(right, &other) == 0 && one.st_dev == other.st_dev &&
           one.st_ino == other.st_ino;
}

/* A result that takes the name of an input would be counted again by the next merge. */
static stoker_status check_apart(const struct merge *merge, const char *const outputs[2], stoker_error *err)
{
    static const char *const extensions[] = {".bin", ".idx"};
    char path[INDEX_PATH_BYTES_MAX];
    for (size_t i = 0; i < merge->stems.count; i++)
        for (int input = 0; input < 2; input++)
            for (int output = 0; output < 2; output++)
                if (join(path, merge->input, merge->stems.names[i], extensions[input]) &&
                    same_file(path, outputs[output]))
                    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                                    "the output '%s' is the input '%s'; expected an output prefix that is no input",
                                    outputs[output], path);
    return STOKER_OK;
}

static stoker_status add_input(struct merge *merge, const char *prefix, const char *bin_path, stoker_error *err)
{
    stoker_dataset_options options = STOKER_DATASET_OPTIONS_INIT;
    stoker_dataset *dataset = NULL;
    stoker_dataset_facts facts;
    options.multimodal = merge->multimodal;
    options.access = STOKER_DATASET_FILE;
    options.open_retries = -1;
    options.unchecked = 1; /* adding checks it */
    STK_TRY(stoker_dataset_open(prefix, &options, &dataset, err));
    stoker_dataset_get_facts(dataset, &facts);
    stoker_dataset_close(dataset); /* only its numbers are used from here on */
    if (!merge->builder) {
        stoker_dataset_builder_options made = STOKER_DATASET_BUILDER_OPTIONS_INIT;
        made.dtype_code = facts.dtype_code;
        made.multimodal = merge->multimodal;
        made.unsynced = merge->no_sync;
        STK_TRY(stoker_dataset_builder_create(bin_path, &made, &merge->builder, err));
        merge->facts.dtype_code = facts.dtype_code;
    }
    merge->facts.sequences += facts.sequences;
    merge->facts.document_entries += facts.document_entries - 1;
    return stoker_dataset_builder_add_index(merge->builder, prefix, err);
}

static stoker_status run(struct merge *merge, stoker_error *err)
{
    char bin_path[INDEX_PATH_BYTES_MAX], idx_path[INDEX_PATH_BYTES_MAX], prefix[INDEX_PATH_BYTES_MAX];
    STK_TRY(list_inputs(merge, err));
    STK_TRY(check_output(merge, err));
    if (!join(bin_path, "", merge->output, ".bin") || !join(idx_path, "", merge->output, ".idx"))
        return stk_fail(err, STOKER_ERR_LIMIT, "the output prefix is too long");
    STK_TRY(check_apart(merge, (const char *const[]){bin_path, idx_path}, err));
    for (size_t i = 0; i < merge->stems.count; i++) {
        if (!join(prefix, merge->input, merge->stems.names[i], "")) continue; /* was short enough before */
        STK_TRY(add_input(merge, prefix, bin_path, err));
    }
    return stoker_dataset_builder_finalize(merge->builder, idx_path, err);
}

static void print_result(const struct merge *merge, bool as_json)
{
    if (!as_json) {
        printf("%s: %llu sequences, %llu documents of %zu datasets\n", merge->output,
               (unsigned long long)merge->facts.sequences, (unsigned long long)merge->facts.document_entries,
               merge->stems.count);
        return;
    }
    struct cli_json *json = cli_json_begin();
    cli_json_text(json, "schema", "stoker.index.merge/1");
    cli_json_text(json, "prefix", merge->output);
    cli_json_text(json, "dtype", index_dtype_name(merge->facts.dtype_code));
    cli_json_integer(json, "datasets", (int64_t)merge->stems.count);
    cli_json_integer(json, "sequences", (int64_t)merge->facts.sequences);
    cli_json_integer(json, "documents", (int64_t)merge->facts.document_entries);
    cli_json_end(json);
}

int cmd_index_merge(int argc, char **argv)
{
    bool json = false, multimodal = false, no_sync = false;
    const char *input = NULL, *output = NULL;
    int count = 0;
    const struct cli_option options[] = {
        {0, "input", "DIR", "folder of the datasets, each NAME.idx and NAME.bin", NULL, &input},
        {0, "output-prefix", "PREFIX", "write PREFIX.idx and PREFIX.bin; its folder must exist and be named", NULL,
         &output},
        {0, "multimodal", NULL, "the files have a mode for each sequence", &multimodal, NULL},
        {0, "no-sync", NULL, "do not wait until the files are on the disk", &no_sync, NULL},
        {0, "json", NULL, "print the result as one JSON object", &json, NULL},
    };
    const struct cli_usage usage = {
        "index merge", "--input DIR --output-prefix PREFIX [--multimodal] [--no-sync] [--json]",
        "Join all datasets of a folder, in the order of their names. Their element type must be the same. The result\n"
        "appears when it is whole.",
        options, sizeof options / sizeof options[0]};
    enum cli_parsed parsed = cli_options_parse(&usage, argc, argv, &count);
    if (parsed != CLI_PARSED_RUN) return parsed == CLI_PARSED_HELP ? CLI_EXIT_DONE : CLI_EXIT_USAGE;
    if (count != 0) return cli_usage_error(&usage, "argument '%s' is not expected", argv[1]);
    if (!input || !output) return cli_usage_error(&usage, "--input and --output-prefix are needed");
    cli_interrupt_removes(NULL); /* the data have no name yet */
    struct merge merge = {.input = input, .output = output, .multimodal = multimodal, .no_sync = no_sync};
    stoker_error err = {0};
    stoker_status status = run(&merge, &err);
    stoker_dataset_builder_destroy(merge.builder);
    if (status == STOKER_OK) print_result(&merge, json);
    for (size_t i = 0; i < merge.stems.count; i++) free(merge.stems.names[i]);
    free(merge.stems.names);
    return status < 0 ? cli_fail("index merge", &err) : CLI_EXIT_DONE;
}
