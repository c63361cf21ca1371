/* SPDX-License-Identifier: Apache-2.0
 *
 * What commands print: errors on stderr, one JSON object a line on stdout, and what happens at Ctrl-C. The only file
 * that includes jansson is output.c.
 */
#ifndef STK_CLI_OUTPUT_H
#define STK_CLI_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <stoker/error.h>

/* "stoker probe: <context>: <message>" on stderr. Gives the exit status for the error's status. */
int cli_fail(const char *command, const stoker_error *err);
int cli_exit_of(stoker_status status);
/* Flushes stdout: output that could not be written is an error too. `status` if all is well. */
int cli_finish(const char *command, int status);
/* For what is written beside and renamed: INVALID_ARGUMENT if a folder, a device or a pipe has this name. */
stoker_status cli_check_output(const char *path, stoker_error *err);

/* A JSON object that is printed as one line, members in the order in which they were set. NULL values are null. */
struct cli_json;
struct cli_json *cli_json_begin(void);
void cli_json_text(struct cli_json *json, const char *name,
                   const char *value); /* bytes that are no UTF-8 become U+FFFD */
void cli_json_integer(struct cli_json *json, const char *name, int64_t value);
void cli_json_real(struct cli_json *json, const char *name, double value);
void cli_json_bool(struct cli_json *json, const char *name, bool value);
void cli_json_null(struct cli_json *json, const char *name);
void cli_json_integers(struct cli_json *json, const char *name, const int64_t *values, size_t count);
/* Takes `value`, which cli_json_begin() gave. */
void cli_json_object(struct cli_json *json, const char *name, struct cli_json *value);
void cli_json_end(struct cli_json *json); /* prints and frees */

/* A text as Python's json writes it: quoted, in ASCII, bytes that are no UTF-8 as the surrogates that Python makes of
 * them in file names. For output that is streamed, or compared with Python's. */
void cli_print_json_text(FILE *out, const char *text);

/* From now on SIGINT and SIGTERM end the program at once (130, 143), after removing `path`; NULL: nothing to remove.
 * The text is borrowed until the next call. */
void cli_interrupt_removes(const char *path);

#endif
