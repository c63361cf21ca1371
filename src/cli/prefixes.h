/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefixes of datasets from the data arguments of Megatron-LM's training scripts: lists of items on the command line or
 * in a file, with or without weights, and a JSON file with a list for each split.
 */
#ifndef STK_CLI_PREFIXES_H
#define STK_CLI_PREFIXES_H

#include <stddef.h>

#include <stoker/error.h>

/* Texts in the order in which they were added. */
struct cli_texts {
    char **texts;
    size_t count, room;
};

stoker_status cli_texts_add(struct cli_texts *texts, const char *text, size_t size, stoker_error *err);
void cli_texts_free(struct cli_texts *texts);
/* Adds the parts of a text between white space. */
stoker_status cli_texts_split(struct cli_texts *texts, const char *text, size_t size, stoker_error *err);
/* Adds the parts of a file's text. */
stoker_status cli_texts_read(struct cli_texts *texts, const char *path, stoker_error *err);

/* Adds the prefixes of a blend to `prefixes`, each once: an even number of items is weight, prefix, weight, prefix...
 * if every item at an even place is a number. INVALID_ARGUMENT: no item at all, or weights that begin late. */
stoker_status cli_blend_prefixes(const struct cli_texts *items, struct cli_texts *prefixes, stoker_error *err);
/* The same for train, valid and test of a JSON file. CORRUPT: no such object, or a key is missing. */
stoker_status cli_blend_file_prefixes(const char *path, struct cli_texts *prefixes, stoker_error *err);

#endif
