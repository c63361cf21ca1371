/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of `stoker index`, and what they share: prefixes as users give them, and names of element types.
 */
#ifndef STK_CLI_CMD_INDEX_H
#define STK_CLI_CMD_INDEX_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/dataset.h>

/* argv[0] is the command's name; each gives an exit status. */
int cmd_index_info(int argc, char **argv);
int cmd_index_stats(int argc, char **argv);
int cmd_index_verify(int argc, char **argv);
int cmd_index_cat(int argc, char **argv);
int cmd_index_merge(int argc, char **argv);
int cmd_index_sequences(int argc, char **argv);

enum { INDEX_PATH_BYTES_MAX = 4096 };

/* Cuts ".idx" or ".bin" from the end: a path that the shell completed names the dataset, too. In place. */
void index_cut_extension(char *path);
/* "uint16"; "?" for a code that is none. */
const char *index_dtype_name(int code);

/* Elements of the arrays that stoker_dataset_facts gives; they need not be aligned. */
int32_t index_length(const stoker_dataset_facts *facts, uint64_t sequence);
int64_t index_document(const stoker_dataset_facts *facts, uint64_t entry);
uint64_t index_documents(const stoker_dataset_facts *facts);
uint64_t index_tokens(const stoker_dataset_facts *facts);

#endif
