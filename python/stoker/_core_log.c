/* SPDX-License-Identifier: Apache-2.0
 *
 * Log records of a client on their way to Python: see _core_log.h.
 */
#include "_core_log.h"

#include <stdlib.h>
#include <string.h>

enum { LOG_RECORDS = 64, LOG_ID_BYTES = 48, LOG_TEXT_BYTES = 976 };

struct log_record {
    int level;
    char id[LOG_ID_BYTES];
    char text[LOG_TEXT_BYTES];
};

struct core_log {
    PyThread_type_lock lock; /* guards all below; held for a copy only */
    unsigned first, count;
    unsigned long lost;
    struct log_record records[LOG_RECORDS];
};

void core_log_take(void *user, stoker_log_level level, const char *id, const char *text)
{
    struct core_log *ring = user;
    (void)PyThread_acquire_lock(ring->lock, WAIT_LOCK);
    if (ring->count == LOG_RECORDS) { /* the oldest gives way; the count of lost ones is reported */
        ring->first = (ring->first + 1) % LOG_RECORDS;
        ring->count--;
        ring->lost++;
    }
    struct log_record *record = &ring->records[(ring->first + ring->count) % LOG_RECORDS];
    record->level = (int)level;
    (void)PyOS_snprintf(record->id, sizeof record->id, "%s", id);
    (void)PyOS_snprintf(record->text, sizeof record->text, "%s", text);
    ring->count++;
    PyThread_release_lock(ring->lock);
}

struct core_log *core_log_create(void)
{
    struct core_log *ring = calloc(1, sizeof *ring);
    if (ring == NULL) {
        return NULL;
    }
    ring->lock = PyThread_allocate_lock();
    if (ring->lock == NULL) {
        free(ring);
        return NULL;
    }
    return ring;
}

void core_log_destroy(struct core_log *ring)
{
    if (ring != NULL) {
        PyThread_free_lock(ring->lock);
        free(ring);
    }
}

PyObject *core_log_drain(struct core_log *ring)
{
    PyObject *list = PyList_New(0);
    struct log_record *record = list != NULL ? malloc(sizeof *record) : NULL;
    int more = record != NULL;
    while (more) {
        (void)PyThread_acquire_lock(ring->lock, WAIT_LOCK);
        unsigned long lost = ring->lost;
        more = ring->count > 0;
        if (more) {
            *record = ring->records[ring->first];
            ring->first = (ring->first + 1) % LOG_RECORDS;
            ring->count--;
            ring->lost = 0;
        }
        PyThread_release_lock(ring->lock);
        if (more) {
            PyObject *text = PyUnicode_DecodeUTF8(record->text, (Py_ssize_t)strlen(record->text), "backslashreplace");
            PyObject *item = text != NULL ? Py_BuildValue("(isNk)", record->level, record->id, text, lost) : NULL;
            if (item == NULL || PyList_Append(list, item) < 0) {
                Py_CLEAR(list);
                more = 0;
            }
            Py_XDECREF(item);
        }
    }
    free(record);
    return list;
}
