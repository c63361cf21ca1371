/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of files as the Python package reads them: a text file with one path a line (lines that are empty or begin with
 * '#' are passed over), or JSON lines with a "path" each, of which those with an "error" are left out. Relative paths
 * start at the list's folder.
 */
#ifndef STK_CLI_LISTS_H
#define STK_CLI_LISTS_H

#include <stdbool.h>

#include <stoker/error.h>

#include "cli/prefixes.h"

/* By its ending: .txt, .lst, .list or .jsonl. */
bool cli_is_list(const char *path);
/* Adds the paths of a list. NOT_FOUND, IO, CORRUPT (a line of JSON without a path, naming it), NO_MEMORY. */
stoker_status cli_list_read(const char *path, struct cli_texts *texts, stoker_error *err);

#endif
