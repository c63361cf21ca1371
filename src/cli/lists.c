/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of files: see lists.h.
 */
#include "cli/lists.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/error.h"

bool cli_is_list(const char *path)
{
    static const char *const endings[] = {".txt", ".lst", ".list", ".jsonl"};
    size_t size = strlen(path);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        size_t length = strlen(endings[i]);
        if (size > length && strcmp(path + size - length, endings[i]) == 0) return true;
    }
    return false;
}

static bool is_absolute(const char *path) { return path[0] == '/' || strstr(path, "://") != NULL; }

static stoker_status add_path(struct cli_texts *texts, const char *list, const char *path, stoker_error *err)
{
    const char *slash = strrchr(list, '/');
    size_t folder_size = is_absolute(path) || !slash ? 0 : (size_t)(slash - list) + 1;
    size_t size = folder_size + strlen(path) + 1;
    char *joined = malloc(size);
    if (!joined) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a path");
    (void)snprintf(joined, size, "%.*s%s", (int)folder_size, list, path);
    stoker_status status = cli_texts_add(texts, joined, size - 1, err);
    free(joined);
    return status;
}

static stoker_status add_json(struct cli_texts *texts, const char *list, const char *line, size_t number,
                              stoker_error *err)
{
    json_error_t fault;
    json_t *entry = json_loads(line, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &fault);
    const char *error = json_string_value(json_object_get(entry, "error"));
    const char *path = json_string_value(json_object_get(entry, "path"));
    stoker_status status = STOKER_OK;
    if (error && error[0])
        status = STOKER_OK; /* its file could not be used */
    else if (!path || !path[0])
        status = stk_fail(err, STOKER_ERR_CORRUPT, "line %zu of '%s' is no JSON object with a 'path'%s%s", number, list,
                          entry ? "" : ": ", entry ? "" : fault.text);
    else
        status = add_path(texts, list, path, err);
    json_decref(entry);
    return status;
}

stoker_status cli_list_read(const char *path, struct cli_texts *texts, stoker_error *err)
{
    FILE *file = fopen(path, "r");
    if (!file)
        return stk_fail_os(err, errno == ENOENT ? STOKER_ERR_NOT_FOUND : STOKER_ERR_IO, errno, "cannot open '%s'",
                           path);
    char *line = NULL;
    size_t room = 0, number = 0;
    stoker_status status = STOKER_OK;
    for (ssize_t size; status >= 0 && (size = getline(&line, &room, file)) >= 0;) {
        number++;
        while (size > 0 && (line[size - 1] == '\n' || line[size - 1] == '\r')) line[--size] = 0;
        size_t start = strspn(line, " \t");
        if (line[start] == 0 || line[0] == '#') continue;
        status = line[start] == '{' ? add_json(texts, path, line, number, err) : add_path(texts, path, line, err);
    }
    if (status >= 0 && ferror(file)) status = stk_fail_os(err, STOKER_ERR_IO, errno, "cannot read '%s'", path);
    free(line);
    (void)fclose(file); /* it was only read */
    return status;
}
