/* SPDX-License-Identifier: Apache-2.0
 *
 * Prefixes of datasets from data arguments: see prefixes.h.
 */
#include "cli/prefixes.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"

enum { NUMBER_BYTES_MAX = 512, FILE_BYTES_MAX = 64 << 20 };

stoker_status cli_texts_add(struct cli_texts *texts, const char *text, size_t size, stoker_error *err)
{
    if (texts->count == texts->room) {
        size_t room = texts->room ? texts->room * 2 : 16;
        char **grown = realloc(texts->texts, room * sizeof *grown);
        if (!grown) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for data arguments");
        texts->texts = grown;
        texts->room = room;
    }
    char *copy = strndup(text, size);
    if (!copy) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for data arguments");
    texts->texts[texts->count++] = copy;
    return STOKER_OK;
}

void cli_texts_free(struct cli_texts *texts)
{
    for (size_t i = 0; i < texts->count; i++) free(texts->texts[i]);
    free(texts->texts);
    *texts = (struct cli_texts){NULL, 0, 0};
}

static bool is_space(char byte) { return byte != 0 && isspace((unsigned char)byte); }

stoker_status cli_texts_split(struct cli_texts *texts, const char *text, size_t size, stoker_error *err)
{
    for (size_t at = 0; at < size;) {
        while (at < size && is_space(text[at])) at++;
        size_t from = at;
        while (at < size && !is_space(text[at])) at++;
        if (at > from) STK_TRY(cli_texts_add(texts, text + from, at - from, err));
    }
    return STOKER_OK;
}

stoker_status cli_texts_read(struct cli_texts *texts, const char *path, stoker_error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return stk_fail_os(err, errno == ENOENT ? STOKER_ERR_NOT_FOUND : STOKER_ERR_IO, errno, "cannot open '%s'",
                           path);
    char *text = malloc(FILE_BYTES_MAX);
    size_t size = text ? fread(text, 1, FILE_BYTES_MAX, file) : 0;
    stoker_status status = STOKER_OK;
    if (!text)
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to read '%s'", path);
    else if (ferror(file))
        status = stk_fail_os(err, STOKER_ERR_IO, errno, "cannot read '%s'", path);
    else if (size == FILE_BYTES_MAX)
        status = stk_fail(err, STOKER_ERR_LIMIT, "'%s' is larger than any list of data arguments", path);
    (void)fclose(file); /* it was only read */
    if (status == STOKER_OK) status = cli_texts_split(texts, text, size, err);
    free(text);
    return status;
}

/* What Python's float() accepts, but for digits that are not ASCII. */
static bool is_number(const char *text)
{
    char plain[NUMBER_BYTES_MAX];
    size_t used = 0;
    while (is_space(*text)) text++;
    size_t size = strlen(text);
    while (size > 0 && is_space(text[size - 1])) size--;
    if (size == 0 || size >= sizeof plain) return false;
    for (size_t i = 0; i < size; i++) {
        bool between =
            i > 0 && i + 1 < size && isdigit((unsigned char)text[i - 1]) && isdigit((unsigned char)text[i + 1]);
        if (text[i] == '_' && between) continue;                              /* 1_000 */
        if (text[i] == 'x' || text[i] == 'X' || text[i] == '(') return false; /* what only C takes for a number */
        plain[used++] = text[i];
    }
    plain[used] = 0;
    char *end = NULL;
    (void)strtod(plain, &end);
    return end != plain && *end == 0;
}

static stoker_status add_prefix(struct cli_texts *prefixes, const char *item, stoker_error *err)
{
    while (is_space(*item)) item++;
    size_t size = strlen(item);
    while (size > 0 && is_space(item[size - 1])) size--;
    for (size_t i = 0; i < prefixes->count; i++)
        if (strlen(prefixes->texts[i]) == size && memcmp(prefixes->texts[i], item, size) == 0) return STOKER_OK;
    return cli_texts_add(prefixes, item, size, err);
}

stoker_status cli_blend_prefixes(const struct cli_texts *items, struct cli_texts *prefixes, stoker_error *err)
{
    size_t step = 1, plain = items->count;
    if (items->count == 0) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "a list of data prefixes is empty");
    if (items->count % 2 == 0) {
        for (size_t i = 0; i < items->count; i += 2) {
            bool number = is_number(items->texts[i]);
            if (!number && plain == items->count) plain = i;
            if (number && plain < items->count)
                return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                                "item %zu of a blend, '%s', is no weight, but item %zu, '%s', is one", plain,
                                items->texts[plain], i, items->texts[i]);
        }
        if (plain == items->count) step = 2;
    }
    for (size_t i = step - 1; i < items->count; i += step) STK_TRY(add_prefix(prefixes, items->texts[i], err));
    return STOKER_OK;
}

/* The items of one split: a list of texts and numbers, or one text that is split. */
static stoker_status items_of(const json_t *value, const char *path, const char *split, struct cli_texts *items,
                              stoker_error *err)
{
    if (json_is_string(value)) return cli_texts_split(items, json_string_value(value), json_string_length(value), err);
    for (size_t i = 0; json_is_array(value) && i < json_array_size(value); i++) {
        const json_t *item = json_array_get(value, i);
        char number[64];
        if (json_is_string(item)) {
            STK_TRY(cli_texts_add(items, json_string_value(item), json_string_length(item), err));
        } else if (json_is_number(item)) {
            (void)snprintf(number, sizeof number, "%.17g", json_number_value(item));
            STK_TRY(cli_texts_add(items, number, strlen(number), err));
        } else {
            return stk_fail(err, STOKER_ERR_CORRUPT, "%s: item %zu of '%s' is neither a text nor a number", path, i,
                            split);
        }
    }
    if (json_is_array(value)) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_CORRUPT, "%s: '%s' is neither a list, a text nor null", path, split);
}

stoker_status cli_blend_file_prefixes(const char *path, struct cli_texts *prefixes, stoker_error *err)
{
    static const char *const splits[] = {"train", "valid", "test"};
    json_error_t fault;
    json_t *root = json_load_file(path, 0, &fault);
    stoker_status status = STOKER_OK;
    if (!root && json_error_code(&fault) == json_error_cannot_open_file)
        return stk_fail(err, STOKER_ERR_NOT_FOUND, "cannot open '%s'", path);
    if (!root)
        return stk_fail(err, STOKER_ERR_CORRUPT, "%s: line %d, column %d: %s", path, fault.line, fault.column,
                        fault.text);
    if (!json_is_object(root))
        status = stk_fail(err, STOKER_ERR_CORRUPT, "%s: expected an object with the keys train, valid and test", path);
    for (size_t i = 0; status == STOKER_OK && i < 3; i++)
        if (!json_object_get(root, splits[i]))
            status = stk_fail(err, STOKER_ERR_CORRUPT, "%s: the key '%s' is missing (null for none)", path, splits[i]);
    for (size_t i = 0; status == STOKER_OK && i < 3; i++) {
        const json_t *value = json_object_get(root, splits[i]);
        struct cli_texts items = {NULL, 0, 0};
        if (json_is_null(value)) continue;
        status = items_of(value, path, splits[i], &items, err);
        if (status == STOKER_OK) status = cli_blend_prefixes(&items, prefixes, err);
        cli_texts_free(&items);
    }
    json_decref(root);
    return status;
}
