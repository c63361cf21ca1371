/* SPDX-License-Identifier: Apache-2.0
 *
 * Object storage for Python: options from an environment (object_settings) and one object by range (ObjectFile).
 * Requests run without the interpreter lock.
 */
#include "_core_object.h"

#include <stddef.h>
#include <string.h>

struct file_object {
    PyObject_HEAD stoker_object *object; /* NULL: closed */
    Py_ssize_t users;                    /* calls that are under way; closing meanwhile is refused */
};

/* Members of stoker_object_options by their names. */
static const struct {
    const char *name;
    size_t offset;
} texts[] = {
    {"access_key_id", offsetof(stoker_object_options, access_key_id)},
    {"secret_access_key", offsetof(stoker_object_options, secret_access_key)},
    {"session_token", offsetof(stoker_object_options, session_token)},
    {"region", offsetof(stoker_object_options, region)},
    {"endpoint", offsetof(stoker_object_options, endpoint)},
    {"ca_bundle", offsetof(stoker_object_options, ca_bundle)},
    {"http_proxy", offsetof(stoker_object_options, http_proxy)},
    {"https_proxy", offsetof(stoker_object_options, https_proxy)},
    {"no_proxy", offsetof(stoker_object_options, no_proxy)},
};

static const struct {
    const char *name;
    size_t offset;
    int wide; /* uint64_t; else int */
} numbers[] = {
    {"path_style", offsetof(stoker_object_options, path_style), 0},
    {"connect_timeout_ns", offsetof(stoker_object_options, connect_timeout_ns), 1},
    {"stall_timeout_ns", offsetof(stoker_object_options, stall_timeout_ns), 1},
    {"retries", offsetof(stoker_object_options, retries), 0},
    {"retry_delay_ns", offsetof(stoker_object_options, retry_delay_ns), 1},
};

/* The value of a key, new; NULL if it is absent or None, with an exception set if the mapping failed. */
static PyObject *member(PyObject *mapping, const char *name)
{
    PyObject *value = PyMapping_GetItemString(mapping, name);
    if (value == NULL && PyErr_ExceptionMatches(PyExc_KeyError)) {
        PyErr_Clear();
    }
    if (value == Py_None) {
        Py_CLEAR(value);
    }
    return value;
}

static int take_text(PyObject *mapping, size_t i, stoker_object_options *out, PyObject *keep)
{
    PyObject *value = member(mapping, texts[i].name), *bytes = NULL;
    if (value == NULL) {
        return PyErr_Occurred() != NULL ? -1 : 0;
    }
    int result = PyUnicode_FSConverter(value, &bytes) && PyList_Append(keep, bytes) == 0 ? 0 : -1;
    if (result == 0) {
        *(const char **)((char *)out + texts[i].offset) = PyBytes_AsString(bytes); /* the list has it */
    }
    Py_XDECREF(bytes);
    Py_DECREF(value);
    return result;
}

static int take_number(PyObject *mapping, size_t i, stoker_object_options *out)
{
    PyObject *value = member(mapping, numbers[i].name);
    char *place = (char *)out + numbers[i].offset;
    if (value == NULL) {
        return PyErr_Occurred() != NULL ? -1 : 0;
    }
    if (numbers[i].wide) {
        *(uint64_t *)(void *)place = PyLong_AsUnsignedLongLong(value);
    } else {
        *(int *)(void *)place = (int)PyLong_AsLong(value);
    }
    Py_DECREF(value);
    return PyErr_Occurred() != NULL ? -1 : 0;
}

int core_object_options(PyObject *mapping, stoker_object_options *out, PyObject **out_keep)
{
    PyObject *keep = PyList_New(0);
    int result = keep != NULL ? 0 : -1;
    for (size_t i = 0; result == 0 && i < sizeof texts / sizeof texts[0]; i++) {
        result = take_text(mapping, i, out, keep);
    }
    for (size_t i = 0; result == 0 && i < sizeof numbers / sizeof numbers[0]; i++) {
        result = take_number(mapping, i, out);
    }
    if (result < 0) {
        Py_XDECREF(keep);
        return -1;
    }
    *out_keep = keep;
    return 0;
}

/* -------------------------------------------------------------------------------------------------------- settings */

struct environment {
    PyObject *mapping;
    PyObject *last; /* bytes of the value that was asked for last, which the library borrows until the next */
    int failed;     /* an exception is set */
};

static const char *lookup(void *user, const char *name)
{
    struct environment *environment = user;
    Py_CLEAR(environment->last);
    if (environment->failed) {
        return NULL;
    }
    PyObject *value = member(environment->mapping, name);
    if (value != NULL && !PyUnicode_FSConverter(value, &environment->last)) {
        environment->last = NULL;
    }
    Py_XDECREF(value);
    environment->failed = PyErr_Occurred() != NULL;
    return environment->last != NULL ? PyBytes_AsString(environment->last) : NULL;
}

static PyObject *settings_as_dict(const stoker_object_options *options)
{
    PyObject *result = PyDict_New();
    for (size_t i = 0; result != NULL && i < sizeof texts / sizeof texts[0]; i++) {
        const char *text = *(const char *const *)((const char *)options + texts[i].offset);
        PyObject *value = text != NULL ? PyUnicode_DecodeFSDefault(text) : NULL;
        if (text != NULL && (value == NULL || PyDict_SetItemString(result, texts[i].name, value) < 0)) {
            Py_CLEAR(result);
        }
        Py_XDECREF(value);
    }
    for (size_t i = 0; result != NULL && i < sizeof numbers / sizeof numbers[0]; i++) {
        const char *place = (const char *)options + numbers[i].offset;
        PyObject *value = numbers[i].wide ? PyLong_FromUnsignedLongLong(*(const uint64_t *)(const void *)place)
                                          : PyLong_FromLong(*(const int *)(const void *)place);
        if (value == NULL || PyDict_SetItemString(result, numbers[i].name, value) < 0) {
            Py_CLEAR(result);
        }
        Py_XDECREF(value);
    }
    return result;
}

static PyObject *object_settings(PyObject *module, PyObject *mapping)
{
    (void)module;
    struct environment environment = {mapping, NULL, 0};
    stoker_object_settings *settings = NULL;
    stoker_error err = {0};
    PyObject *result = NULL;
    stoker_status status = stoker_object_settings_create(lookup, &environment, &settings, &err);
    if (environment.failed) {
        /* an exception of the mapping comes before what the library made of its silence */
    } else if (status < 0) {
        core_raise(status, &err, NULL, 0);
    } else {
        result = settings_as_dict(stoker_object_settings_options(settings));
    }
    stoker_object_settings_destroy(settings);
    Py_XDECREF(environment.last);
    return result;
}

/* ------------------------------------------------------------------------------------------------------ one object */

static PyObject *file_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"url", "object", NULL};
    PyObject *url = NULL, *mapping = Py_None, *keep = NULL;
    struct file_object *self = NULL;
    stoker_object_options options = STOKER_OBJECT_OPTIONS_INIT;
    stoker_error err = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O", names, PyUnicode_FSConverter, &url, &mapping)) {
        return NULL;
    }
    if (mapping != Py_None && core_object_options(mapping, &options, &keep) < 0) {
        goto done;
    }
    self = (struct file_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) {
        goto done;
    }
    stoker_status status = stoker_object_open(PyBytes_AsString(url), &options, &self->object, &err);
    if (status < 0) {
        core_raise(status, &err, NULL, 0);
        Py_CLEAR(self);
    }
done:
    Py_XDECREF(keep);
    Py_XDECREF(url);
    return (PyObject *)self;
}

static stoker_object *begin(struct file_object *self)
{
    if (self->object == NULL) {
        core_raise_closed("object");
        return NULL;
    }
    self->users++;
    return self->object;
}

static PyObject *file_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct file_object *file = (struct file_object *)self;
    if (file->users > 0) {
        PyErr_SetString(PyExc_RuntimeError, "the object is being read by another thread");
        return NULL;
    }
    stoker_object *object = file->object;
    file->object = NULL;
    stoker_object_close(object);
    return Py_NewRef(Py_None);
}

static void file_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    stoker_object_close(((struct file_object *)self)->object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *file_size(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct file_object *file = (struct file_object *)self;
    stoker_error err = {0};
    stoker_status status;
    uint64_t size = 0;
    stoker_object *object = begin(file);
    if (object == NULL) {
        return NULL;
    }
    Py_BEGIN_ALLOW_THREADS
    status = stoker_object_size(object, &size, &err);
    Py_END_ALLOW_THREADS
    file->users--;
    return status < 0 ? core_raise(status, &err, NULL, 0) : PyLong_FromUnsignedLongLong(size);
}

static PyObject *file_read(PyObject *self, PyObject *args)
{
    struct file_object *file = (struct file_object *)self;
    unsigned long long offset;
    Py_buffer out;
    stoker_error err = {0};
    stoker_status status;
    if (!PyArg_ParseTuple(args, "O&w*", CORE_NUMBER("offset", offset), &out)) {
        return NULL;
    }
    stoker_object *object = begin(file);
    if (object == NULL) {
        PyBuffer_Release(&out);
        return NULL;
    }
    stoker_object_range range = {offset, (size_t)out.len};
    Py_BEGIN_ALLOW_THREADS
    status = stoker_object_read(object, range, out.buf, &err);
    Py_END_ALLOW_THREADS
    file->users--;
    PyBuffer_Release(&out);
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

static PyObject *file_download(PyObject *self, PyObject *args)
{
    struct file_object *file = (struct file_object *)self;
    PyObject *path = NULL;
    stoker_error err = {0};
    stoker_status status;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) {
        return NULL;
    }
    stoker_object *object = begin(file);
    if (object == NULL) {
        Py_DECREF(path);
        return NULL;
    }
    const char *text = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    status = stoker_object_download(object, text, &err);
    Py_END_ALLOW_THREADS
    file->users--;
    Py_DECREF(path);
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

int core_object_init(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"size", file_size, METH_NOARGS, "size() -> int\n\nBytes of the object."},
        {"read", file_read, METH_VARARGS, "read(offset, out)\n\nFills a writable buffer from an offset on."},
        {"download", file_download, METH_VARARGS,
         "download(path)\n\nCopies the object to a file, whole or not at all."},
        {"close", file_close, METH_NOARGS, "close()\n\nGives up the object."},
        {NULL, NULL, 0, NULL},
    };
    static PyType_Slot slots[] = {
        {Py_tp_doc, "One object behind s3://, http:// or https://, read by range."},
        {Py_tp_new, file_new},
        {Py_tp_dealloc, file_dealloc},
        {Py_tp_methods, methods},
        {0, NULL},
    };
    static PyType_Spec spec = {"stoker._core.ObjectFile", sizeof(struct file_object), 0, Py_TPFLAGS_DEFAULT, slots};
    static PyMethodDef functions[] = {
        {"object_settings", object_settings, METH_O,
         "object_settings(environment) -> dict\n\nOptions of object storage by the usual variables and files."},
        {NULL, NULL, 0, NULL},
    };
    return core_add_type(module, "ObjectFile", &spec) == NULL || PyModule_AddFunctions(module, functions) < 0 ? -1 : 0;
}
