/* SPDX-License-Identifier: Apache-2.0
 *
 * Token files written from Python (IndexedBuilder): elements come as contiguous buffers with the code of their type.
 * The work is done without the interpreter lock; a second thread that comes meanwhile gets an error.
 */
#include "_core_builder.h"
#include "_core_run.h"

#include <stoker/dataset.h>

struct builder_object {
    PyObject_HEAD stoker_dataset_builder *builder; /* NULL: closed */
    int busy;                                      /* a thread is in a call; guarded by the interpreter lock */
};

static PyTypeObject *builder_type;

/* The builder, marked as busy; NULL with an exception set. */
static stoker_dataset_builder *enter(PyObject *self)
{
    struct builder_object *object = (struct builder_object *)self;
    if (object->builder == NULL) {
        core_raise_closed("builder");
        return NULL;
    }
    if (object->busy) {
        stoker_error err = {.status = STOKER_ERR_WRONG_STATE};
        (void)PyOS_snprintf(err.message, sizeof err.message, "the builder is in use by another thread");
        core_raise(STOKER_ERR_WRONG_STATE, &err, NULL, 0);
        return NULL;
    }
    object->busy = 1;
    return object->builder;
}

static PyObject *leave(PyObject *self, stoker_status status, const stoker_error *err)
{
    ((struct builder_object *)self)->busy = 0;
    return status < 0 ? core_raise(status, err, NULL, 0) : Py_NewRef(Py_None);
}

/* The code of a buffer's own type, 0 if it is none of the eight. */
static int code_of_format(const Py_buffer *buffer)
{
    static const struct {
        char letter;
        int code;
    } formats[] = {
        {'b', STOKER_TOKEN_INT8},   {'B', STOKER_TOKEN_UINT8},   {'h', STOKER_TOKEN_INT16},
        {'H', STOKER_TOKEN_UINT16}, {'i', STOKER_TOKEN_INT32},   {'l', STOKER_TOKEN_INT64},
        {'q', STOKER_TOKEN_INT64},  {'d', STOKER_TOKEN_FLOAT64}, {'f', STOKER_TOKEN_FLOAT32},
    };
    const char *format = buffer->format != NULL ? buffer->format : "B";
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        if (format[0] == formats[i].letter && format[1] == 0 &&
            (size_t)buffer->itemsize == stoker_token_dtype_size(formats[i].code)) {
            return formats[i].code;
        }
    }
    return 0;
}

/* The contiguous buffer of an object, and its elements; dtype_code 0: of the buffer's own type. -1 with an exception
 * set: TypeError, BufferError if the object is no such buffer. */
static int elements_of(PyObject *object, int dtype_code, Py_buffer *buffer, stoker_elements *out)
{
    if (PyObject_GetBuffer(object, buffer, dtype_code == 0 ? PyBUF_FORMAT | PyBUF_C_CONTIGUOUS : PyBUF_SIMPLE) < 0) {
        return -1;
    }
    if (dtype_code == 0 && (dtype_code = code_of_format(buffer)) == 0) {
        PyErr_Format(PyExc_TypeError, "elements of the format '%s' are none of the eight types",
                     buffer->format != NULL ? buffer->format : "B");
        PyBuffer_Release(buffer);
        return -1;
    }
    size_t size = stoker_token_dtype_size(dtype_code);
    if (size == 0 || buffer->len % (Py_ssize_t)size != 0) {
        PyErr_Format(PyExc_ValueError, "a buffer of %zd bytes does not hold elements of %zu bytes", buffer->len, size);
        PyBuffer_Release(buffer);
        return -1;
    }
    *out = (stoker_elements){buffer->buf, (uint64_t)buffer->len / size, dtype_code};
    return 0;
}

static PyObject *builder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"bin_path", "dtype_code", "multimodal", "wrap", "sync", NULL};
    stoker_dataset_builder_options options = STOKER_DATASET_BUILDER_OPTIONS_INIT;
    PyObject *path = NULL;
    int wrap = 0, sync = 1;
    options.dtype_code = STOKER_TOKEN_INT32;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$ippp", names, PyUnicode_FSConverter, &path, &options.dtype_code,
                                     &options.multimodal, &wrap, &sync)) {
        return NULL;
    }
    options.unsynced = !sync;
    options.range = wrap ? STOKER_TOKEN_RANGE_WRAP : STOKER_TOKEN_RANGE_ERROR;
    struct builder_object *self = (struct builder_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self != NULL) {
        stoker_error err = {0};
        stoker_status status;
        const char *text = PyBytes_AsString(path);
        Py_BEGIN_ALLOW_THREADS
        status = stoker_dataset_builder_create(text, &options, &self->builder, &err);
        Py_END_ALLOW_THREADS
        if (status < 0) {
            core_raise(status, &err, NULL, 0);
            Py_CLEAR(self);
        }
    }
    Py_DECREF(path);
    return (PyObject *)self;
}

static PyObject *builder_add_item(PyObject *self, PyObject *args)
{
    PyObject *object, *result = NULL;
    Py_buffer buffer;
    int dtype_code;
    long mode_value = 0;
    stoker_elements elements;
    if (!PyArg_ParseTuple(args, "Oi|l", &object, &dtype_code, &mode_value) ||
        elements_of(object, dtype_code, &buffer, &elements) < 0) {
        return NULL;
    }
    int8_t mode = (int8_t)(uint8_t)(mode_value & 0xff); /* as NumPy's astype: values wrap */
    stoker_dataset_builder *builder = enter(self);
    if (builder != NULL) {
        stoker_error err = {0};
        stoker_status status;
        Py_BEGIN_ALLOW_THREADS
        status = stoker_dataset_builder_add_item(builder, elements, mode, &err);
        Py_END_ALLOW_THREADS
        result = leave(self, status, &err);
    }
    PyBuffer_Release(&buffer);
    return result;
}

/* int32 numbers: a buffer of them, or a list. */
struct lengths {
    Py_buffer buffer;
    int32_t *copy; /* of a list */
    const int32_t *data;
    uint64_t count;
    int32_t few[8];
};

static void lengths_release(struct lengths *lengths)
{
    if (lengths->copy == NULL && lengths->data != lengths->few) {
        PyBuffer_Release(&lengths->buffer);
    }
    PyMem_Free(lengths->copy);
}

static int lengths_of_list(PyObject *object, struct lengths *out)
{
    Py_ssize_t count = PyList_Size(object);
    int32_t *data = out->few;
    out->copy = NULL;
    if ((size_t)count > sizeof out->few / sizeof out->few[0]) {
        data = out->copy = PyMem_Malloc((size_t)count * sizeof *data);
        if (data == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PyList_GetItem(object, i); /* borrowed */
        long long value = PyLong_Check(item) ? PyLong_AsLongLong(item) : -1;
        if (!PyLong_Check(item)) {
            PyObject *number = PyNumber_Index(item); /* integers of NumPy, tensors of one element */
            value = number != NULL ? PyLong_AsLongLong(number) : -1;
            Py_XDECREF(number);
        }
        if (PyErr_Occurred() == NULL && (value < 0 || value > INT32_MAX)) {
            PyErr_Format(PyExc_ValueError, "length %lld at position %zd is not between 0 and %d", value, i, INT32_MAX);
        }
        if (PyErr_Occurred() != NULL) {
            PyMem_Free(out->copy);
            return -1;
        }
        data[i] = (int32_t)value;
    }
    out->data = data;
    out->count = (uint64_t)count;
    return 0;
}

static int lengths_of(PyObject *object, struct lengths *out)
{
    if (PyList_Check(object)) {
        return lengths_of_list(object, out);
    }
    if (PyObject_GetBuffer(object, &out->buffer, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    out->copy = NULL;
    out->data = out->buffer.buf;
    out->count = (uint64_t)out->buffer.len / sizeof(int32_t);
    if (out->buffer.len % (Py_ssize_t)sizeof(int32_t) != 0) {
        PyErr_SetString(PyExc_ValueError, "lengths must be a list or a buffer of int32");
        PyBuffer_Release(&out->buffer);
        return -1;
    }
    return 0;
}

/* Modes that are given for `count` sequences, or NULL. -1 with an exception set. */
static int modes_of(PyObject *object, uint64_t count, Py_buffer *buffer, const int8_t **out)
{
    *out = NULL;
    if (object == Py_None) {
        return 0;
    }
    if (PyObject_GetBuffer(object, buffer, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    if ((uint64_t)buffer->len != count) {
        PyErr_Format(PyExc_ValueError, "%zd modes for %llu sequences", buffer->len, (unsigned long long)count);
        PyBuffer_Release(buffer);
        return -1;
    }
    *out = buffer->buf;
    return 1; /* to be released */
}

static PyObject *builder_add_document(PyObject *self, PyObject *args)
{
    Py_buffer buffer, modes_buffer;
    PyObject *object, *lengths_object, *modes_object = Py_None, *result = NULL;
    int dtype_code;
    struct lengths lengths;
    stoker_elements elements;
    if (!PyArg_ParseTuple(args, "OiO|O", &object, &dtype_code, &lengths_object, &modes_object) ||
        elements_of(object, dtype_code, &buffer, &elements) < 0) {
        return NULL;
    }
    stoker_dataset_builder *builder = NULL;
    const int8_t *modes = NULL;
    if (lengths_of(lengths_object, &lengths) == 0) {
        int has_modes = modes_of(modes_object, lengths.count, &modes_buffer, &modes);
        if (has_modes >= 0 && (builder = enter(self)) != NULL) {
            stoker_error err = {0};
            stoker_status status;
            Py_BEGIN_ALLOW_THREADS
            status = stoker_dataset_builder_add_document(builder, elements, lengths.data, lengths.count, modes, &err);
            Py_END_ALLOW_THREADS
            result = leave(self, status, &err);
        }
        if (has_modes > 0) {
            PyBuffer_Release(&modes_buffer);
        }
        lengths_release(&lengths);
    }
    PyBuffer_Release(&buffer);
    return result;
}

static PyObject *builder_add_documents(PyObject *self, PyObject *args)
{
    Py_buffer buffer, offsets, modes_buffer;
    PyObject *object, *offsets_object, *modes_object = Py_None, *eod = Py_None, *result = NULL;
    stoker_document_batch batch = {.offsets = NULL};
    stoker_dataset_builder *builder = NULL;
    int dtype_code, has_modes = -1;
    if (!PyArg_ParseTuple(args, "OiO|OO", &object, &dtype_code, &offsets_object, &modes_object, &eod) ||
        elements_of(object, dtype_code, &buffer, &batch.elements) < 0) {
        return NULL;
    }
    if (PyObject_GetBuffer(offsets_object, &offsets, PyBUF_SIMPLE) < 0) {
        PyBuffer_Release(&buffer);
        return NULL;
    }
    if (offsets.len < (Py_ssize_t)sizeof(int64_t) || offsets.len % (Py_ssize_t)sizeof(int64_t) != 0) {
        PyErr_SetString(PyExc_ValueError, "offsets must be a buffer of int64 with one more entry than documents");
    } else {
        batch.offsets = offsets.buf;
        batch.document_count = (uint64_t)offsets.len / sizeof(int64_t) - 1;
        batch.append_eod = eod != Py_None;
        batch.eod = batch.append_eod ? PyLong_AsLongLong(eod) : 0;
        if (PyErr_Occurred() == NULL) {
            has_modes = modes_of(modes_object, batch.document_count, &modes_buffer, &batch.modes);
        }
    }
    if (has_modes >= 0 && (builder = enter(self)) != NULL) {
        stoker_error err = {0};
        stoker_status status;
        Py_BEGIN_ALLOW_THREADS
        status = stoker_dataset_builder_add_documents(builder, &batch, &err);
        Py_END_ALLOW_THREADS
        result = leave(self, status, &err);
    }
    if (has_modes > 0) {
        PyBuffer_Release(&modes_buffer);
    }
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&buffer);
    return result;
}

static PyObject *builder_end_document(PyObject *self, PyObject *unused)
{
    (void)unused;
    stoker_error err = {0};
    stoker_dataset_builder *builder = enter(self);
    return builder == NULL ? NULL : leave(self, stoker_dataset_builder_end_document(builder, &err), &err);
}

struct path_call {
    struct core_call call;
    stoker_dataset_builder *builder;
    const char *path;
    stoker_status (*function)(stoker_dataset_builder *, const char *, stoker_error *);
};

static stoker_status call_with_path(struct core_call *call, stoker_error *err)
{
    struct path_call *self = (struct path_call *)call;
    return self->function(self->builder, self->path, err);
}

static void cancel_call(struct core_call *call)
{
    stoker_dataset_builder_cancel(((struct path_call *)call)->builder);
}

/* The two calls that take a path. They copy, or wait for the disk. */
static PyObject *with_path(PyObject *self, PyObject *args,
                           stoker_status (*call)(stoker_dataset_builder *, const char *, stoker_error *))
{
    PyObject *path = NULL, *result = NULL;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) {
        return NULL;
    }
    const char *text = PyBytes_AsString(path);
    stoker_dataset_builder *builder = enter(self);
    if (builder != NULL) {
        stoker_error err = {0};
        stoker_status status;
        struct path_call job = {{.call = call_with_path, .cancel = cancel_call}, builder, text, call};
        if (core_run(&job.call, &status, &err) < 0) {
            ((struct builder_object *)self)->busy = 0;
        } else {
            result = leave(self, status, &err);
        }
    }
    Py_DECREF(path);
    return result;
}

static PyObject *builder_add_index(PyObject *self, PyObject *args)
{
    return with_path(self, args, stoker_dataset_builder_add_index);
}

static PyObject *builder_finalize(PyObject *self, PyObject *args)
{
    return with_path(self, args, stoker_dataset_builder_finalize);
}

static PyObject *builder_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct builder_object *object = (struct builder_object *)self;
    if (object->builder != NULL && enter(self) == NULL) {
        return NULL;
    }
    stoker_dataset_builder_destroy(object->builder);
    object->builder = NULL;
    object->busy = 0;
    return Py_NewRef(Py_None);
}

static void builder_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    stoker_dataset_builder_destroy(((struct builder_object *)self)->builder);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef builder_methods[] = {
    {"add_item", builder_add_item, METH_VARARGS,
     "add_item(buffer, dtype_code, mode=0) -> None\n\nAppend one sequence; it does not end a document."},
    {"add_document", builder_add_document, METH_VARARGS,
     "add_document(buffer, dtype_code, lengths, modes=None) -> None\n\nAppend a document of several sequences."},
    {"add_documents", builder_add_documents, METH_VARARGS,
     "add_documents(buffer, dtype_code, offsets, modes=None, eod=None) -> None\n\nAppend documents of one sequence "
     "each."},
    {"end_document", builder_end_document, METH_NOARGS, "end_document() -> None"},
    {"add_index", builder_add_index, METH_VARARGS, "add_index(prefix) -> None\n\nAppend all of another dataset."},
    {"finalize", builder_finalize, METH_VARARGS, "finalize(idx_path) -> None\n\nPublish both files."},
    {"close", builder_close, METH_NOARGS, "close() -> None\n\nGive up what was not finalized."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot builder_slots[] = {
    {Py_tp_new, builder_new},
    {Py_tp_dealloc, builder_dealloc},
    {Py_tp_methods, builder_methods},
    {0, NULL},
};

static PyType_Spec builder_spec = {
    .name = "stoker._core.IndexedBuilder",
    .basicsize = sizeof(struct builder_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = builder_slots,
};

int core_builder_init(PyObject *module)
{
    builder_type = core_add_type(module, "IndexedBuilder", &builder_spec);
    return builder_type == NULL ? -1 : 0;
}
