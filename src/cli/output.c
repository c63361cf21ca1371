/* SPDX-License-Identifier: Apache-2.0
 *
 * Output of commands: see output.h.
 */
#include "cli/output.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>

#include "base/error.h"
#include "cli/command.h"

int cli_exit_of(stoker_status status)
{
    switch (status) {
    case STOKER_ERR_INVALID_ARGUMENT: return CLI_EXIT_USAGE;
    case STOKER_ERR_NOT_FOUND:
    case STOKER_ERR_CORRUPT:
    case STOKER_ERR_MISMATCH:
    case STOKER_ERR_UNSUPPORTED: return CLI_EXIT_DATA;
    case STOKER_ERR_IO:
    case STOKER_ERR_NO_MEMORY:
    case STOKER_ERR_NO_SPACE:
    case STOKER_ERR_LIMIT: return CLI_EXIT_MACHINE;
    case STOKER_ERR_UNAVAILABLE:
    case STOKER_ERR_TIMEOUT:
    case STOKER_ERR_CANCELED:
    case STOKER_ERR_LOST:
    case STOKER_ERR_PROTOCOL: return CLI_EXIT_PEER;
    case STOKER_ERR_WRONG_STATE:
    case STOKER_ERR_INTERNAL: return CLI_EXIT_BUG;
    case STOKER_OK:
    case STOKER_END:
    case STOKER_AGAIN: return CLI_EXIT_DONE;
    }
    return CLI_EXIT_BUG;
}

int cli_fail(const char *command, const stoker_error *err)
{
    char text[STOKER_ERROR_MESSAGE_BYTES + STOKER_ERROR_CONTEXT_BYTES];
    stk_error_text(err, text, sizeof text);
    fprintf(stderr, "stoker %s: %s\n", command, text);
    return cli_exit_of(err->status);
}

stoker_status cli_check_output(const char *path, stoker_error *err)
{
    struct stat facts;
    if (stat(path, &facts) != 0 || S_ISREG(facts.st_mode)) return STOKER_OK; /* other faults show up when it is made */
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "cannot create '%s': a %s has this name", path,
                    S_ISDIR(facts.st_mode) ? "folder" : "device, pipe or socket");
}

int cli_finish(const char *command, int status)
{
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    fprintf(stderr, "stoker %s: cannot write the output: %s\n", command, strerror(errno));
    return CLI_EXIT_MACHINE;
}

/* ---------------------------------------------------------------------------------------------------------------- JSON
 */

static json_t *of(struct cli_json *json) { return (json_t *)json; }

static json_t *alive(json_t *value)
{
    if (value) return value;
    fprintf(stderr, "stoker: out of memory\n");
    exit(CLI_EXIT_MACHINE);
}

static void set(struct cli_json *json, const char *name, json_t *value)
{
    if (json_object_set_new_nocheck(of(json), name, alive(value)) != 0) (void)alive(NULL);
}

struct cli_json *cli_json_begin(void) { return (struct cli_json *)alive(json_object()); }

/* Length of the UTF-8 character at `at`, 0 if there is none. */
static size_t character_size(const unsigned char *at)
{
    size_t size = at[0] < 0x80                    ? 1
                  : at[0] >= 0xc2 && at[0] < 0xe0 ? 2
                  : at[0] >= 0xe0 && at[0] < 0xf0 ? 3
                  : at[0] >= 0xf0 && at[0] < 0xf5 ? 4
                                                  : 0;
    for (size_t i = 1; i < size; i++)
        if ((at[i] & 0xc0) != 0x80) return 0;
    if (size == 3 && ((at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xed && at[1] > 0x9f))) return 0;
    if (size == 4 && ((at[0] == 0xf0 && at[1] < 0x90) || (at[0] == 0xf4 && at[1] > 0x8f))) return 0;
    return size;
}

void cli_json_text(struct cli_json *json, const char *name, const char *value)
{
    if (!value) {
        cli_json_null(json, name);
        return;
    }
    char *clean = malloc(3 * strlen(value) + 1), *to = clean;
    if (!clean) (void)alive(NULL);
    for (const unsigned char *from = (const unsigned char *)value; *from;) {
        size_t size = character_size(from);
        memcpy(to, size ? (const char *)from : "\xef\xbf\xbd", size ? size : 3);
        to += size ? size : 3;
        from += size ? size : 1;
    }
    *to = 0;
    set(json, name, json_string(clean));
    free(clean);
}

void cli_json_integer(struct cli_json *json, const char *name, int64_t value)
{
    set(json, name, json_integer((json_int_t)value));
}

void cli_json_real(struct cli_json *json, const char *name, double value) { set(json, name, json_real(value)); }

void cli_json_bool(struct cli_json *json, const char *name, bool value) { set(json, name, json_boolean(value)); }

void cli_json_null(struct cli_json *json, const char *name) { set(json, name, json_null()); }

void cli_json_integers(struct cli_json *json, const char *name, const int64_t *values, size_t count)
{
    json_t *list = alive(json_array());
    for (size_t i = 0; i < count; i++)
        if (json_array_append_new(list, alive(json_integer((json_int_t)values[i]))) != 0) (void)alive(NULL);
    set(json, name, list);
}

void cli_json_object(struct cli_json *json, const char *name, struct cli_json *value) { set(json, name, of(value)); }

void cli_json_end(struct cli_json *json)
{
    if (json_dumpf(of(json), stdout, JSON_COMPACT | JSON_PRESERVE_ORDER | JSON_REAL_PRECISION(15)) == 0) putchar('\n');
    json_decref(of(json));
}

static uint32_t code_point(const unsigned char *at, size_t size)
{
    static const unsigned char first_bits[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t point = at[0] & first_bits[size];
    for (size_t i = 1; i < size; i++) point = point << 6 | (at[i] & 0x3fu);
    return point;
}

static void print_code_point(FILE *out, uint32_t point)
{
    static const char letters[] = "\"\\\b\f\n\r\t";
    static const char escapes[] = "\"\\bfnrt";
    const char *letter = point > 0 && point < 0x80 ? strchr(letters, (int)point) : NULL;
    if (letter)
        fprintf(out, "\\%c", escapes[letter - letters]);
    else if (point >= 0x20 && point < 0x7f)
        fputc((int)point, out);
    else if (point < 0x10000)
        fprintf(out, "\\u%04x", point);
    else
        fprintf(out, "\\u%04x\\u%04x", 0xd7c0 + (point >> 10), 0xdc00 + (point & 0x3ff));
}

void cli_print_json_text(FILE *out, const char *text)
{
    fputc('"', out);
    for (const unsigned char *at = (const unsigned char *)text; *at;) {
        size_t size = character_size(at);
        print_code_point(out, size ? code_point(at, size) : 0xdc00u + *at);
        at += size ? size : 1;
    }
    fputc('"', out);
}

/* ----------------------------------------------------------------------------------------------------------------
 * interrupt */

static const char *volatile removed_at_interrupt;

static void on_interrupt(int number)
{
    const char *path = removed_at_interrupt;
    if (path) (void)unlink(path); /* it may not exist yet */
    _exit(128 + number);
}

void cli_interrupt_removes(const char *path)
{
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_interrupt;
    (void)sigemptyset(&action.sa_mask);
    removed_at_interrupt = path;
    (void)sigaction(SIGINT, &action, NULL); /* both signals can be caught: nothing can fail */
    (void)sigaction(SIGTERM, &action, NULL);
}
