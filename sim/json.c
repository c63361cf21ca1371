/* SPDX-License-Identifier: Apache-2.0
 *
 * See json.h. A struct sim_json is a json_t; the cast keeps jansson's header out of all other files.
 */
#include "sim/json.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "sim/config.h"

static json_t *inner(const struct sim_json *json)
{
    union {
        const struct sim_json *outer;
        json_t *inner;
    } both = {.outer = json};
    return both.inner;
}

static struct sim_json *outer(json_t *json)
{
    STK_ASSERT(json != NULL);
    return (struct sim_json *)json;
}

struct sim_json *sim_json_object(void) { return outer(json_object()); }

struct sim_json *sim_json_array(void) { return outer(json_array()); }

static void set(struct sim_json *object, const char *name, json_t *value)
{
    STK_ASSERT(value != NULL && json_object_set_new(inner(object), name, value) == 0);
}

/* JSON has no word for what is no number: null. */
void sim_json_real(struct sim_json *object, const char *name, double value)
{
    set(object, name, isfinite(value) ? json_real(value) : json_null());
}

void sim_json_integer(struct sim_json *object, const char *name, int64_t value)
{
    set(object, name, json_integer(value));
}

void sim_json_text(struct sim_json *object, const char *name, const char *value)
{
    set(object, name, json_string(value));
}

void sim_json_bool(struct sim_json *object, const char *name, bool value) { set(object, name, json_boolean(value)); }

void sim_json_null(struct sim_json *object, const char *name) { set(object, name, json_null()); }

void sim_json_member(struct sim_json *object, const char *name, struct sim_json *taken)
{
    set(object, name, inner(taken));
}

void sim_json_append(struct sim_json *array, struct sim_json *taken)
{
    STK_ASSERT(json_array_append_new(inner(array), inner(taken)) == 0);
}

void sim_json_print(const struct sim_json *json, FILE *out)
{
    json_dumpf(inner(json), out, JSON_INDENT(1) | JSON_REAL_PRECISION(9));
    fputc('\n', out);
}

void sim_json_free(struct sim_json *json)
{
    if (json) json_decref(inner(json));
}

stoker_status sim_json_load(const char *path, struct sim_json **out_json, stoker_error *err)
{
    FILE *file = fopen(path, "rb");
    if (!file)
        return stk_fail_os(err, errno == ENOENT ? STOKER_ERR_NOT_FOUND : STOKER_ERR_IO, errno, "cannot open '%s'",
                           path);
    long size = -1;
    if (fseek(file, 0, SEEK_END) == 0) size = ftell(file);
    if (size < 0 || size > (long)SIM_JSON_BYTES_MAX || fseek(file, 0, SEEK_SET) != 0) {
        fclose(file);
        return stk_fail(err, STOKER_ERR_LIMIT, "'%s' is no file of at most %u bytes", path, SIM_JSON_BYTES_MAX);
    }
    json_error_t error;
    json_t *json = json_loadf(file, JSON_REJECT_DUPLICATES, &error);
    fclose(file);
    if (!json)
        return stk_fail(err, STOKER_ERR_CORRUPT, "'%s', line %d, column %d: %s", path, error.line, error.column,
                        error.text);
    *out_json = outer(json);
    return STOKER_OK;
}

static const struct sim_field *find(const struct sim_field *fields, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(fields[i].name, name) == 0) return &fields[i];
    return NULL;
}

static stoker_status fill_name(const json_t *value, const char *path, const struct sim_field *field, void *place,
                               stoker_error *err)
{
    const char *text = json_string_value(value);
    char known[256] = "";
    size_t used = 0;
    for (uint32_t i = 0; field->names[i]; i++) {
        if (text && strcmp(field->names[i], text) == 0) {
            *(uint32_t *)place = i;
            return STOKER_OK;
        }
        int wrote = snprintf(known + used, sizeof known - used, "%s%s", i ? ", " : "", field->names[i]);
        if (wrote > 0 && used + (size_t)wrote < sizeof known) used += (size_t)wrote;
    }
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s.%s is '%s', expected one of %s", path, field->name,
                    text ? text : "no text", known);
}

static stoker_status fill(const json_t *value, const char *path, const struct sim_field *field, void *out,
                          stoker_error *err)
{
    void *place = (char *)out + field->offset;
    const char *expected = "a number";
    switch (field->kind) {
    case SIM_FIELD_U32:
        expected = "a whole number from 0 to 4294967295";
        if (!json_is_integer(value) || json_integer_value(value) < 0 || json_integer_value(value) > UINT32_MAX) break;
        *(uint32_t *)place = (uint32_t)json_integer_value(value);
        return STOKER_OK;
    case SIM_FIELD_REAL:
        if (!json_is_number(value)) break;
        *(double *)place = json_number_value(value);
        return STOKER_OK;
    case SIM_FIELD_BOOL:
        expected = "true or false";
        if (!json_is_boolean(value)) break;
        *(bool *)place = json_is_true(value);
        return STOKER_OK;
    case SIM_FIELD_NAME: return fill_name(value, path, field, place, err);
    case SIM_FIELD_TEXT:
        expected = "a text of 1 to 63 bytes";
        if (!json_is_string(value) || json_string_length(value) == 0 || json_string_length(value) >= SIM_NAME_BYTES ||
            strlen(json_string_value(value)) != json_string_length(value))
            break;
        memcpy(place, json_string_value(value), json_string_length(value) + 1);
        return STOKER_OK;
    case SIM_FIELD_OTHER: return STOKER_OK;
    }
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s.%s is not %s", path, field->name, expected);
}

stoker_status sim_json_fields(const struct sim_json *object, const char *path, const struct sim_field *fields,
                              size_t count, void *out, stoker_error *err)
{
    json_t *json = inner(object);
    if (!json_is_object(json)) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s is not an object", path);
    const char *name;
    json_t *value;
    json_object_foreach(json, name, value)
    {
        const struct sim_field *field = find(fields, count, name);
        if (!field) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s.%s is not known", path, name);
        STK_TRY(fill(value, path, field, out, err));
    }
    return STOKER_OK;
}

const struct sim_json *sim_json_get(const struct sim_json *object, const char *name)
{
    return (const struct sim_json *)json_object_get(inner(object), name);
}

stoker_status sim_json_length(const struct sim_json *array, const char *path, size_t most, size_t *out,
                              stoker_error *err)
{
    if (!json_is_array(inner(array))) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s is not a list", path);
    if (json_array_size(inner(array)) > most)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s has %zu entries, at most %zu", path,
                        json_array_size(inner(array)), most);
    *out = json_array_size(inner(array));
    return STOKER_OK;
}

const struct sim_json *sim_json_at(const struct sim_json *array, size_t index)
{
    return (const struct sim_json *)json_array_get(inner(array), index);
}
