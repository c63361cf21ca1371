/* SPDX-License-Identifier: Apache-2.0
 *
 * Token files for Python: open, read, verify (IndexedFile), and views of what is mapped (TokenView). Reading runs
 * without the interpreter lock. The writing side is _core_builder.c.
 */
#include "_core_object.h"
#include "_core_tokens.h"

#include <string.h>

struct indexed_object {
    PyObject_HEAD stoker_dataset *dataset; /* NULL: closed */
    PyObject *ranges;                      /* the caller's reader, or NULL */
};

/* Memory of a dataset, which it keeps open. */
struct view_object {
    PyObject_HEAD stoker_dataset *dataset;
    const void *data;
    Py_ssize_t size;
};

static PyTypeObject *indexed_type, *view_type;

stoker_dataset *core_tokens_handle(PyObject *indexed_file)
{
    if (!PyObject_TypeCheck(indexed_file, indexed_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a stoker._core.IndexedFile");
        return NULL;
    }
    stoker_dataset *dataset = ((struct indexed_object *)indexed_file)->dataset;
    if (dataset == NULL) {
        core_raise_closed("dataset");
    }
    return dataset;
}

/* ---------------------------------------------------------------------------------------------- a caller's reader */

/* Turns the exception that is set into an error of the library. */
static stoker_status take_exception(stoker_error *err)
{
    PyObject *type, *value, *traceback;
    stoker_status status = STOKER_ERR_UNAVAILABLE;
    if (PyErr_ExceptionMatches(PyExc_FileNotFoundError)) {
        status = STOKER_ERR_NOT_FOUND;
    } else if (PyErr_ExceptionMatches(PyExc_MemoryError)) {
        status = STOKER_ERR_NO_MEMORY;
    }
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject *text = value != NULL ? PyObject_Str(value) : NULL;
    PyObject *name = type != NULL ? PyType_GetQualName((PyTypeObject *)type) : NULL;
    PyObject *message = text != NULL && name != NULL ? PyUnicode_FromFormat("%U: %U", name, text) : NULL;
    PyObject *bytes = message != NULL ? PyUnicode_AsEncodedString(message, "utf-8", "replace") : NULL;
    PyErr_Clear(); /* of a __str__ that raised */
    if (err != NULL) {
        *err = (stoker_error){.status = status};
        (void)PyOS_snprintf(err->message, sizeof err->message, "%.500s",
                            bytes != NULL ? PyBytes_AsString(bytes) : "the reader raised an exception without a text");
    }
    Py_XDECREF(bytes);
    Py_XDECREF(message);
    Py_XDECREF(name);
    Py_XDECREF(text);
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(traceback);
    return status;
}

static stoker_status ranges_size(void *user, const char *url, uint64_t *out_size, stoker_error *err)
{
    PyGILState_STATE state = PyGILState_Ensure();
    stoker_status status = STOKER_OK;
    PyObject *size = PyObject_CallMethod((PyObject *)user, "size", "s", url);
    unsigned long long value = size != NULL ? PyLong_AsUnsignedLongLong(size) : 0;
    Py_XDECREF(size);
    if (PyErr_Occurred() != NULL) {
        status = take_exception(err);
    } else {
        *out_size = value;
    }
    PyGILState_Release(state);
    return status;
}

static stoker_status ranges_read(void *user, const char *url, uint64_t offset, size_t size, void *out,
                                 stoker_error *err)
{
    PyGILState_STATE state = PyGILState_Ensure();
    stoker_status status = STOKER_OK;
    PyObject *data =
        PyObject_CallMethod((PyObject *)user, "read", "sKn", url, (unsigned long long)offset, (Py_ssize_t)size);
    Py_buffer buffer;
    if (data == NULL || PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE) < 0) {
        status = take_exception(err);
    } else {
        if ((size_t)buffer.len == size) {
            memcpy(out, buffer.buf, size);
        } else {
            status = STOKER_ERR_CORRUPT;
            if (err != NULL) {
                *err = (stoker_error){.status = status};
                (void)PyOS_snprintf(err->message, sizeof err->message,
                                    "the reader gave %zd bytes at offset %llu, %zu were asked for", buffer.len,
                                    (unsigned long long)offset, size);
            }
        }
        PyBuffer_Release(&buffer);
    }
    Py_XDECREF(data);
    PyGILState_Release(state);
    return status;
}

/* ----------------------------------------------------------------------------------------------------- the object */

struct indexed_arguments {
    PyObject *prefix, *cache_dir; /* bytes; cache_dir may be NULL */
    PyObject *ranges, *object;    /* borrowed */
    double delay_s;
};

static int optional_path(PyObject *object, void *out)
{
    if (object == Py_None) {
        return 1;
    }
    return PyUnicode_FSConverter(object, out);
}

static int parse(PyObject *args, PyObject *kwargs, struct indexed_arguments *arguments, stoker_dataset_options *options)
{
    static char *names[] = {
        "prefix",  "multimodal",    "access",          "unchecked",   "sequences", "document_entries", "dtype_code",
        "retries", "retry_delay_s", "index_cache_dir", "block_bytes", "ranges",    "object",           NULL};
    int access = 0;
    unsigned long long sequences = 0, entries = 0, block_bytes = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|$pipO&O&iidO&O&OO", names, PyUnicode_FSConverter,
                                     &arguments->prefix, &options->multimodal, &access, &options->unchecked,
                                     CORE_NUMBER("sequences", sequences), CORE_NUMBER("document_entries", entries),
                                     &options->dtype_code, &options->open_retries, &arguments->delay_s, optional_path,
                                     &arguments->cache_dir, CORE_NUMBER("block_bytes", block_bytes), &arguments->ranges,
                                     &arguments->object)) {
        return -1;
    }
    options->access = (stoker_dataset_access)access;
    options->sequences = sequences;
    options->document_entries = entries;
    options->block_bytes = block_bytes;
    if (!(arguments->delay_s >= 0.0 && arguments->delay_s < 1.0e9)) {
        PyErr_SetString(PyExc_ValueError, "retry_delay_s must be a number of seconds, 0 or more");
        return -1;
    }
    options->retry_delay_ns = (uint64_t)(arguments->delay_s * 1.0e9);
    return 0;
}

static PyObject *indexed_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct indexed_arguments arguments = {.ranges = Py_None, .object = Py_None};
    stoker_dataset_options options = STOKER_DATASET_OPTIONS_INIT;
    stoker_object_options object = STOKER_OBJECT_OPTIONS_INIT;
    stoker_range_ops ops = {ranges_size, ranges_read, NULL};
    struct indexed_object *self = NULL;
    PyObject *keep = NULL;
    stoker_error err = {0};
    if (parse(args, kwargs, &arguments, &options) < 0 ||
        (arguments.object != Py_None && core_object_options(arguments.object, &object, &keep) < 0)) {
        goto done;
    }
    self = (struct indexed_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) {
        goto done;
    }
    if (arguments.ranges != Py_None) {
        self->ranges = Py_NewRef(arguments.ranges);
        ops.user = self->ranges;
        options.ranges = &ops;
    }
    options.object = arguments.object != Py_None ? &object : NULL;
    options.index_cache_dir = arguments.cache_dir != NULL ? PyBytes_AsString(arguments.cache_dir) : NULL;
    const char *prefix = PyBytes_AsString(arguments.prefix);
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_dataset_open(prefix, &options, &self->dataset, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        core_raise(status, &err, NULL, 0);
        Py_CLEAR(self);
    }
done:
    Py_XDECREF(keep);
    Py_XDECREF(arguments.prefix);
    Py_XDECREF(arguments.cache_dir);
    return (PyObject *)self;
}

static PyObject *indexed_close(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct indexed_object *object = (struct indexed_object *)self;
    stoker_dataset *dataset = object->dataset;
    object->dataset = NULL;
    stoker_dataset_close(dataset);
    return Py_NewRef(Py_None);
}

static void indexed_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct indexed_object *object = (struct indexed_object *)self;
    stoker_dataset_close(object->dataset);
    Py_XDECREF(object->ranges);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *indexed_read(PyObject *self, PyObject *args)
{
    unsigned long long sequence, first, count;
    Py_buffer out;
    stoker_dataset *dataset = core_tokens_handle(self);
    if (dataset == NULL || !PyArg_ParseTuple(args, "O&O&O&w*", CORE_NUMBER("sequence", sequence),
                                             CORE_NUMBER("first", first), CORE_NUMBER("count", count), &out)) {
        return NULL;
    }
    stoker_dataset_facts facts;
    stoker_dataset_get_facts(dataset, &facts);
    size_t element_bytes = stoker_token_dtype_size(facts.dtype_code);
    if (count > (size_t)out.len / element_bytes) {
        PyErr_Format(PyExc_ValueError, "the buffer has %zd bytes, %llu elements of %zu are wanted", out.len, count,
                     element_bytes);
        PyBuffer_Release(&out);
        return NULL;
    }
    stoker_error err = {0};
    stoker_status status;
    stoker_dataset_run run = {sequence, first, count};
    (void)stoker_dataset_ref(dataset); /* another thread may close the object meanwhile */
    Py_BEGIN_ALLOW_THREADS
    status = stoker_dataset_read(dataset, run, out.buf, &err);
    Py_END_ALLOW_THREADS
    stoker_dataset_close(dataset);
    PyBuffer_Release(&out);
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

static PyObject *indexed_verify(PyObject *self, PyObject *unused)
{
    (void)unused;
    stoker_dataset *dataset = core_tokens_handle(self);
    if (dataset == NULL) {
        return NULL;
    }
    stoker_error err = {0};
    stoker_status status;
    (void)stoker_dataset_ref(dataset);
    Py_BEGIN_ALLOW_THREADS
    status = stoker_dataset_verify(dataset, NULL, &err);
    Py_END_ALLOW_THREADS
    stoker_dataset_close(dataset);
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

/* ---------------------------------------------------------------------------------------------------------- views */

static PyObject *view_of(stoker_dataset *dataset, const void *data, uint64_t size)
{
    if (data == NULL) {
        return Py_NewRef(Py_None);
    }
    struct view_object *view = (struct view_object *)((allocfunc)PyType_GetSlot(view_type, Py_tp_alloc))(view_type, 0);
    if (view != NULL) {
        view->dataset = stoker_dataset_ref(dataset);
        view->data = data;
        view->size = (Py_ssize_t)size;
    }
    return (PyObject *)view;
}

static int view_buffer(PyObject *self, Py_buffer *out, int flags)
{
    struct view_object *view = (struct view_object *)self;
    return PyBuffer_FillInfo(out, self, (void *)(uintptr_t)view->data, view->size, 1, flags);
}

static Py_ssize_t view_size(PyObject *self) { return ((struct view_object *)self)->size; }

static void view_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    stoker_dataset_close(((struct view_object *)self)->dataset);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* NULL with an exception set if it is closed. */
static stoker_dataset *handle_and_facts(PyObject *self, stoker_dataset_facts *out_facts)
{
    stoker_dataset *dataset = core_tokens_handle(self);
    if (dataset != NULL) {
        stoker_dataset_get_facts(dataset, out_facts);
    }
    return dataset;
}

static PyObject *indexed_lengths(PyObject *self, PyObject *unused)
{
    (void)unused;
    stoker_dataset_facts facts;
    stoker_dataset *dataset = handle_and_facts(self, &facts);
    if (dataset == NULL) {
        return NULL;
    }
    return view_of(dataset, facts.lengths, facts.sequences * sizeof(int32_t));
}

static PyObject *indexed_offsets(PyObject *self, PyObject *unused)
{
    (void)unused;
    stoker_dataset_facts facts;
    stoker_dataset *dataset = handle_and_facts(self, &facts);
    if (dataset == NULL) {
        return NULL;
    }
    return view_of(dataset, facts.offsets, facts.sequences * sizeof(int64_t));
}

static PyObject *indexed_documents(PyObject *self, PyObject *unused)
{
    (void)unused;
    stoker_dataset_facts facts;
    stoker_dataset *dataset = handle_and_facts(self, &facts);
    if (dataset == NULL) {
        return NULL;
    }
    return view_of(dataset, facts.documents, facts.document_entries * sizeof(int64_t));
}

static PyObject *indexed_modes(PyObject *self, PyObject *unused)
{
    (void)unused;
    stoker_dataset_facts facts;
    stoker_dataset *dataset = handle_and_facts(self, &facts);
    if (dataset == NULL) {
        return NULL;
    }
    return view_of(dataset, facts.modes, facts.sequences);
}

static PyObject *indexed_bin(PyObject *self, PyObject *unused)
{
    (void)unused;
    stoker_dataset_facts facts;
    stoker_dataset *dataset = handle_and_facts(self, &facts);
    if (dataset == NULL) {
        return NULL;
    }
    if (facts.bin == NULL && facts.sequences > 0) { /* an unchecked dataset opens its data at the first read */
        stoker_error err = {0};
        stoker_status status;
        Py_BEGIN_ALLOW_THREADS
        status = stoker_dataset_read(dataset, (stoker_dataset_run){0, 0, 0}, NULL, &err);
        Py_END_ALLOW_THREADS
        if (status < 0 && status != STOKER_ERR_CORRUPT) { /* the first offset need not be good */
            return core_raise(status, &err, NULL, 0);
        }
        stoker_dataset_get_facts(dataset, &facts);
    }
    return view_of(dataset, facts.bin, facts.bin_bytes);
}

/* ----------------------------------------------------------------------------------------------------- properties */

static PyObject *indexed_fact(PyObject *self, void *which)
{
    stoker_dataset *dataset = core_tokens_handle(self);
    stoker_dataset_facts facts;
    if (dataset == NULL) {
        return NULL;
    }
    stoker_dataset_get_facts(dataset, &facts);
    switch (*(const char *)which) {
    case 'c': return PyLong_FromUnsignedLongLong(facts.sequences);
    case 'd': return PyLong_FromUnsignedLongLong(facts.document_entries);
    case 't': return PyLong_FromLong(facts.dtype_code);
    default: return PyLong_FromUnsignedLongLong(facts.bin_bytes);
    }
}

static PyMethodDef indexed_methods[] = {
    {"lengths", indexed_lengths, METH_NOARGS, "lengths() -> TokenView\n\nint32 elements of each sequence."},
    {"offsets", indexed_offsets, METH_NOARGS, "offsets() -> TokenView\n\nint64 byte offsets of each sequence."},
    {"documents", indexed_documents, METH_NOARGS, "documents() -> TokenView\n\nint64 document index."},
    {"modes", indexed_modes, METH_NOARGS, "modes() -> TokenView | None\n\nint8 mode of each sequence."},
    {"bin", indexed_bin, METH_NOARGS, "bin() -> TokenView | None\n\nAll data, if they are mapped."},
    {"read", indexed_read, METH_VARARGS,
     "read(sequence, first, count, out) -> None\n\nCopy elements into a writable buffer."},
    {"verify", indexed_verify, METH_NOARGS, "verify() -> None\n\nRaise DataError if the files are not exact."},
    {"close", indexed_close, METH_NOARGS, "close() -> None\n\nViews stay usable."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef indexed_properties[] = {
    {"count", indexed_fact, NULL, "Number of sequences.", "c"},
    {"document_entries", indexed_fact, NULL, "Entries of the document index: documents + 1.", "d"},
    {"dtype_code", indexed_fact, NULL, "Code of the element type.", "t"},
    {"bin_bytes", indexed_fact, NULL, "Size of the data; 0 if unchecked and not read yet.", "b"},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot indexed_slots[] = {
    {Py_tp_new, indexed_new},
    {Py_tp_dealloc, indexed_dealloc},
    {Py_tp_methods, indexed_methods},
    {Py_tp_getset, indexed_properties},
    {0, NULL},
};

static PyType_Spec indexed_spec = {
    .name = "stoker._core.IndexedFile",
    .basicsize = sizeof(struct indexed_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = indexed_slots,
};

static PyType_Slot view_slots[] = {
    {Py_tp_dealloc, view_dealloc},
    {Py_bf_getbuffer, view_buffer},
    {Py_sq_length, view_size},
    {0, NULL},
};

static PyType_Spec view_spec = {
    .name = "stoker._core.TokenView",
    .basicsize = sizeof(struct view_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = view_slots,
};

int core_tokens_init(PyObject *module)
{
    indexed_type = core_add_type(module, "IndexedFile", &indexed_spec);
    view_type = core_add_type(module, "TokenView", &view_spec);
    return indexed_type == NULL || view_type == NULL ? -1 : 0;
}
