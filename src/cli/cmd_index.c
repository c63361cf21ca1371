/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker index`: commands on token files (PREFIX.idx, PREFIX.bin). Each has a file of its own, cmd_index_<name>.c.
 *
 * To add one: a row in the table below, its prototype in cmd_index.h, its file in meson.build, its section in
 * docs/reference/cli.md and cases in tests/cli/.
 */
#include "cli/cmd_index.h"

#include <stdio.h>
#include <string.h>

#include "cli/command.h"

static const struct cli_command subcommands[] = {
    {"build", "build the index caches of a training before it starts", cmd_index_build},
    {"info", "counts, element type and sizes of datasets", cmd_index_info},
    {"stats", "tokens, and how long documents and sequences are", cmd_index_stats},
    {"verify", "check every value of datasets", cmd_index_verify},
    {"cat", "token ids of sequences or documents", cmd_index_cat},
    {"merge", "all datasets of a folder as one", cmd_index_merge},
    {"sequences", "write the counts of datasets to a file", cmd_index_sequences},
};

int cmd_index(int argc, char **argv)
{
    static const struct cli_group group = {
        "index",
        "Work with token files of Megatron-LM: PREFIX.idx and PREFIX.bin.",
        subcommands,
        sizeof subcommands / sizeof subcommands[0],
    };
    return cli_group_run(&group, argc, argv);
}

void index_cut_extension(char *path)
{
    size_t length = strlen(path);
    if (length > 4 && (strcmp(path + length - 4, ".idx") == 0 || strcmp(path + length - 4, ".bin") == 0))
        path[length - 4] = 0;
}

const char *index_dtype_name(int code)
{
    static const char *const names[] = {"?",     "uint8",   "int8",    "int16", "int32",
                                        "int64", "float64", "float32", "uint16"};
    return code > 0 && code < (int)(sizeof names / sizeof names[0]) ? names[code] : names[0];
}

int32_t index_length(const stoker_dataset_facts *facts, uint64_t sequence)
{
    int32_t value;
    memcpy(&value, (const char *)facts->lengths + sequence * sizeof value, sizeof value);
    return value;
}

int64_t index_document(const stoker_dataset_facts *facts, uint64_t entry)
{
    int64_t value;
    memcpy(&value, (const char *)facts->documents + entry * sizeof value, sizeof value);
    return value;
}

uint64_t index_documents(const stoker_dataset_facts *facts) { return facts->document_entries - 1; }

uint64_t index_tokens(const stoker_dataset_facts *facts)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < facts->sequences; i++) sum += (uint64_t)index_length(facts, i);
    return sum;
}
