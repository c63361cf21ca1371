/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON in and out; the only file that includes jansson is json.c. Reading is strict: a scenario with a member that
 * nobody reads, of another type or twice, is refused by the path of that member.
 */
#ifndef SIM_JSON_H
#define SIM_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <stoker/error.h>

#define SIM_JSON_BYTES_MAX (16u << 20)

struct sim_json;

/* Writing. The values of a member are taken. Memory that runs out ends the program: there is nothing to report it
 * to. */
struct sim_json *sim_json_object(void);
struct sim_json *sim_json_array(void);
void sim_json_real(struct sim_json *object, const char *name, double value);
void sim_json_integer(struct sim_json *object, const char *name, int64_t value);
void sim_json_text(struct sim_json *object, const char *name, const char *value);
void sim_json_bool(struct sim_json *object, const char *name, bool value);
void sim_json_null(struct sim_json *object, const char *name);
void sim_json_member(struct sim_json *object, const char *name, struct sim_json *taken);
void sim_json_append(struct sim_json *array, struct sim_json *taken);
void sim_json_print(const struct sim_json *json, FILE *out);
void sim_json_free(struct sim_json *json); /* NULL allowed */

/* Reading. NOT_FOUND, IO, CORRUPT (with line and column). */
stoker_status sim_json_load(const char *path, struct sim_json **out_json, stoker_error *err);

enum sim_field_kind { SIM_FIELD_U32, SIM_FIELD_REAL, SIM_FIELD_BOOL, SIM_FIELD_NAME, SIM_FIELD_TEXT, SIM_FIELD_OTHER };

struct sim_field {
    const char *name;
    enum sim_field_kind kind;
    size_t offset;            /* in the struct that is filled */
    const char *const *names; /* NAME: the words of an enum, ended by NULL */
};

/* Fills the members that are there; others stay as they are. TEXT fills SIM_NAME_BYTES. OTHER is for sim_json_get(). */
stoker_status sim_json_fields(const struct sim_json *object, const char *path, const struct sim_field *fields,
                              size_t count, void *out, stoker_error *err);
/* A borrowed member, or NULL. */
const struct sim_json *sim_json_get(const struct sim_json *object, const char *name);
/* Of an array; INVALID_ARGUMENT if it is none or too long. */
stoker_status sim_json_length(const struct sim_json *array, const char *path, size_t most, size_t *out,
                              stoker_error *err);
const struct sim_json *sim_json_at(const struct sim_json *array, size_t index);

#endif
