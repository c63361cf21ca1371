/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared by the sources of the extension module stoker._core: how a C result becomes a Python exception, and the
 * functions that each source adds to the module.
 *
 * The module uses the limited API of Python 3.11 and only include/stoker. It holds handles and lends memory; every
 * policy is in the Python files beside it.
 */
#ifndef STOKER_PYTHON_CORE_H
#define STOKER_PYTHON_CORE_H

#ifndef Py_LIMITED_API /* the build sets it; editors and analysers need it too */
#define Py_LIMITED_API 0x030b0000
#endif
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

#include <stoker/stoker.h>

/* A blocking call waits in slices of this length, so that a signal (Ctrl-C) is seen at once. */
#define CORE_SLICE_NS UINT64_C(50000000)

/* Sets the exception that stoker.errors.make() gives for this failure; returns NULL. detail may be NULL. */
PyObject *core_raise(stoker_status status, const stoker_error *err, const void *detail, size_t detail_size);

/* Sets WRONG_STATE with this message; returns NULL. */
PyObject *core_raise_closed(const char *noun);

/* Nanoseconds of a Python number of seconds; None and negative numbers are UINT64_MAX (no limit). -1 with an exception
 * set. */
int core_duration(PyObject *seconds, uint64_t *out_ns);

/* Copies a sequence of str or bytes paths into a NULL-terminated array of their text. `keep` is a new list that owns
 * the text. The caller frees the array with PyMem_Free and drops `keep`. */
const char **core_texts(PyObject *sequence, PyObject **out_keep, Py_ssize_t *out_count);

/* Where a number without a sign goes, of 2, 4 or 8 bytes, and what it is called. */
struct core_number {
    const char *name;
    void *out;
    size_t size;
};

/* Two arguments of PyArg_Parse for the format "O&", in the place of a pointer for "H", "I" or "K": OverflowError for a
 * number that the target cannot hold, TypeError for what is no number, both with its name and value. */
#define CORE_NUMBER(name, target)                                                                                      \
    core_number, &(struct core_number) { (name), &(target), sizeof(target) }
int core_number(PyObject *object, void *number);

/* A sequence of numbers of 64 bits as an array of at least one, freed by PyMem_Free; NULL with an exception that says
 * `name`. */
uint64_t *core_numbers(PyObject *sequence, const char *name, size_t *out_count);

/* Reads the keywords of Client.open_loader(); *out_quarantine is a new object that the options point into, or NULL. -1
 * with an exception. */
int core_loader_options(PyObject *args, PyObject *kwargs, PyObject **out_source, stoker_loader_options *out,
                        PyObject **out_quarantine);

/* Creates a heap type and adds it to the module under `name`; returns it (borrowed from the module) or NULL. */
PyTypeObject *core_add_type(PyObject *module, const char *name, PyType_Spec *spec);

int core_media_init(PyObject *module);
int core_loader_init(PyObject *module);
int core_worker_init(PyObject *module);
int core_pack_init(PyObject *module);
int core_balance_init(PyObject *module);
int core_copy_init(PyObject *module);
int core_audio_init(PyObject *module);
int core_sampler_init(PyObject *module);

#endif
