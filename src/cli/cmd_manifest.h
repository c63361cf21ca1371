/* SPDX-License-Identifier: Apache-2.0
 *
 * The commands of `stoker manifest`, and what they share.
 */
#ifndef STK_CLI_CMD_MANIFEST_H
#define STK_CLI_CMD_MANIFEST_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/manifest.h>

#include "cli/options.h"

/* argv[0] is the command's name; each gives an exit status. */
int cmd_manifest_build(int argc, char **argv);
int cmd_manifest_verify(int argc, char **argv);
int cmd_manifest_show(int argc, char **argv);
int cmd_manifest_merge(int argc, char **argv);

/* Files at once: the text of --jobs, or the processors there are, at most 16. False: an error was printed. */
bool manifest_jobs(const struct cli_usage *usage, const char *text, uint32_t *out_jobs);
/* Options of object storage from the environment. */
stoker_status manifest_settings(stoker_object_settings **out_settings, stoker_error *err);
/* stoker_manifest_open(); a list of files is told what to make of it. */
stoker_status manifest_open(const char *path, stoker_manifest **out_manifest, stoker_error *err);
/* "shard.tar::0.mp4", or the path alone. */
void manifest_print_name(const stoker_manifest_entry *entry);

#endif
