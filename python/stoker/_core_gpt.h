/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of token files for Python, shared by the sources of the extension that make and that use them.
 */
#ifndef STOKER_PYTHON_CORE_GPT_H
#define STOKER_PYTHON_CORE_GPT_H

#include "_core.h"

#include <stoker/gpt.h>

/* Where the files of an index are kept, as Python gives it. The objects own the texts. */
struct core_index_cache {
    PyObject *folder; /* bytes, or NULL */
    const char *stem, *description;
    int assume_hit, may_build, defer;
    double wait_s;
    stoker_index_cache cache;
};

/* Waiting for another builder goes in slices of this length, so that a signal (Ctrl-C) is seen between them. */
#define CORE_BUILDER_SLICE_NS UINT64_C(250000000)
/* Takes the next slice off *rest_ns (0 at first: no limit) for `cache`. After a TIMEOUT: 1 to go on, 0 if the time is
 * up, -1 with an exception set. */
void core_index_wait_begin(stoker_index_cache *cache, uint64_t *out_rest_ns);
int core_index_wait_on(stoker_index_cache *cache, uint64_t *rest_ns);

/* "O&" converter of a path or None into a new bytes object, or NULL. */
int core_optional_path(PyObject *object, void *out);
/* Fills `cache` from the rest. */
void core_index_cache_fill(struct core_index_cache *arguments);

/* A read-only view of an array, which keeps `owner` alive: (buffer, '<i4', shape). */
PyObject *core_index_array(PyObject *owner, const stoker_index_array *array);

/* Python integers as an array of int64 or uint64 (PyMem); a buffer of 8-byte integers is taken as it is. NULL with an
 * exception set. */
int64_t *core_int64_array(PyObject *sequence, size_t *out_count);

/* (text, sequence numbers, lengths of the parts) of a sample, as bytes of int64. */
PyObject *core_gpt_text(stoker_gpt_dataset *gpt, uint64_t length, uint64_t index);

/* The handles behind the objects, or NULL with an exception set. Borrowed. */
stoker_gpt_dataset *core_gpt_handle(PyObject *object);
stoker_blend_index *core_blend_handle(PyObject *object);

int core_gpt_init(PyObject *module);
/* Called by core_gpt_init(). */
int core_index_init(PyObject *module);
int core_blend_init(PyObject *module);

#endif
