/* SPDX-License-Identifier: Apache-2.0
 *
 * The extension module stoker._core: module set-up, errors, and what is about the process itself.
 *
 * Sources: _core_media.c (probe, frames, sources), _core_loader.c (client, loader, batch, leaf), _core_worker.c
 * (channels of templates and workers), _core_tokens.c and _core_builder.c (token files), _core_object.c (object
 * storage).
 */
#include "_core.h"
#include "_core_text.h"
#include "_core_gpt.h"
#include "_core_object.h"
#include "_core_shard.h"
#include "_core_builder.h"
#include "_core_tokens.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

PyObject *core_raise(stoker_status status, const stoker_error *err, const void *detail, size_t detail_size)
{
    PyObject *errors = PyImport_ImportModule("stoker.errors");
    if (errors == NULL) {
        return NULL;
    }
    PyObject *bytes = PyBytes_FromStringAndSize(detail, detail != NULL ? (Py_ssize_t)detail_size : 0);
    if (bytes == NULL) {
        Py_DECREF(errors);
        return NULL;
    }
    /* Messages quote file names, which need not be UTF-8. */
    PyObject *message = PyUnicode_DecodeUTF8(err->message, (Py_ssize_t)strlen(err->message), "backslashreplace");
    PyObject *context = PyUnicode_DecodeUTF8(err->context, (Py_ssize_t)strlen(err->context), "backslashreplace");
    PyObject *exception = NULL;
    if (message != NULL && context != NULL) {
        exception = PyObject_CallMethod(errors, "make", "isiOOO", (int)status, stoker_status_name(status),
                                        err->os_error, message, context, bytes);
    }
    if (exception != NULL) {
        PyErr_SetObject((PyObject *)Py_TYPE(exception), exception);
    }
    Py_XDECREF(exception);
    Py_XDECREF(message);
    Py_XDECREF(context);
    Py_DECREF(bytes);
    Py_DECREF(errors);
    return NULL;
}

PyObject *core_raise_closed(const char *noun)
{
    stoker_error err = {.status = STOKER_ERR_WRONG_STATE};
    (void)PyOS_snprintf(err.message, sizeof err.message, "the %s is closed", noun);
    return core_raise(STOKER_ERR_WRONG_STATE, &err, NULL, 0);
}

int core_duration(PyObject *seconds, uint64_t *out_ns)
{
    *out_ns = UINT64_MAX;
    if (seconds == NULL || seconds == Py_None) {
        return 0;
    }
    double value = PyFloat_AsDouble(seconds);
    if (value == -1.0 && PyErr_Occurred() != NULL) {
        return -1;
    }
    if (isnan(value)) {
        PyErr_SetString(PyExc_ValueError, "a duration is not a number");
        return -1;
    }
    if (value >= 0.0 && value < 9.0e9) {
        *out_ns = (uint64_t)(value * 1.0e9);
    }
    return 0;
}

const char **core_texts(PyObject *sequence, PyObject **out_keep, Py_ssize_t *out_count)
{
    Py_ssize_t count = PySequence_Size(sequence);
    if (count < 0) {
        return NULL;
    }
    PyObject *keep = PyList_New(0);
    const char **texts = PyMem_Calloc((size_t)count + 1, sizeof *texts);
    if (keep == NULL || texts == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        PyObject *bytes = NULL;
        if (item == NULL || !PyUnicode_FSConverter(item, &bytes)) {
            if (item != NULL && PyErr_ExceptionMatches(PyExc_ValueError) &&
                !PyErr_ExceptionMatches(PyExc_UnicodeError)) {
                PyErr_Format(PyExc_ValueError, "%R is no path: it holds a zero byte", item);
            }
            Py_XDECREF(item);
            goto fail;
        }
        Py_DECREF(item);
        int appended = PyList_Append(keep, bytes);
        Py_DECREF(bytes); /* the list owns it now */
        if (appended < 0) {
            goto fail;
        }
        texts[i] = PyBytes_AsString(bytes);
    }
    *out_keep = keep;
    *out_count = count;
    return texts;

fail:
    PyMem_Free(texts);
    Py_XDECREF(keep);
    return NULL;
}

PyTypeObject *core_add_type(PyObject *module, const char *name, PyType_Spec *spec)
{
    PyObject *type = PyType_FromSpec(spec);
    if (type == NULL) {
        return NULL;
    }
    if (PyModule_AddObjectRef(module, name, type) < 0) {
        Py_DECREF(type);
        return NULL;
    }
    Py_DECREF(type);
    return (PyTypeObject *)type;
}

static PyObject *die_with_parent(PyObject *self, PyObject *args)
{
    (void)self;
    int parent;
    if (!PyArg_ParseTuple(args, "i", &parent)) {
        return NULL;
    }
    stoker_error err = {0};
    stoker_status status = stoker_worker_die_with_parent(parent, &err);
    if (status < 0 && status != STOKER_ERR_UNAVAILABLE) {
        return core_raise(status, &err, NULL, 0);
    }
    return PyBool_FromLong(status == STOKER_OK);
}

static PyObject *version(PyObject *self, PyObject *unused)
{
    (void)self;
    (void)unused;
    return PyUnicode_FromString(stoker_version());
}

static PyMethodDef functions[] = {
    {"die_with_parent", die_with_parent, METH_VARARGS,
     "die_with_parent(parent_pid) -> bool\n\nAsk for SIGKILL when the parent dies; False if it has already changed."},
    {"version", version, METH_NOARGS, "version() -> str\n\nVersion of the C library that is loaded."},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    .m_base = PyModuleDef_HEAD_INIT,
    .m_name = "stoker._core",
    .m_doc = "Handles of libstoker; see _core.pyi. Use the classes of the stoker package instead.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__core(void); /* called by name */
PyMODINIT_FUNC PyInit__core(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL) {
        return NULL;
    }
    if (core_manifest_init(module) < 0 || core_media_init(module) < 0 || core_loader_init(module) < 0 ||
        core_worker_init(module) < 0 ||
        core_text_init(module) < 0 || core_tokens_init(module) < 0 || core_builder_init(module) < 0 ||
        core_object_init(module) < 0 || core_gpt_init(module) < 0 || core_pack_init(module) < 0 ||
        core_sampler_init(module) < 0 || core_audio_init(module) < 0 ||
        core_balance_init(module) < 0 || core_copy_init(module) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
