/* SPDX-License-Identifier: Apache-2.0
 *
 * What datasets and blends of token files share in Python: arguments of caches, views of index arrays (IndexView),
 * arrays of integers from Python, and texts of samples.
 */
#include "_core_gpt.h"
#include "_core_run.h"

#include <string.h>

enum { PARTS_FIRST = 64 }; /* documents of a sample that there is room for at once */

struct array_object {
    PyObject_HEAD PyObject *owner;
    const void *data;
    Py_ssize_t size;
};

static PyTypeObject *array_type;

int core_optional_path(PyObject *object, void *out)
{
    if (object == Py_None) {
        return 1;
    }
    return PyUnicode_FSConverter(object, out);
}

void core_index_wait_begin(stoker_index_cache *cache, uint64_t *out_rest_ns)
{
    *out_rest_ns = cache->wait_ns > 0 ? cache->wait_ns : UINT64_MAX;
    cache->wait_ns = *out_rest_ns < CORE_BUILDER_SLICE_NS ? *out_rest_ns : CORE_BUILDER_SLICE_NS;
}

int core_index_wait_on(stoker_index_cache *cache, uint64_t *rest_ns)
{
    if (core_run_check() < 0) {
        return -1;
    }
    if (*rest_ns != UINT64_MAX) {
        *rest_ns -= cache->wait_ns;
    }
    cache->wait_ns = *rest_ns < CORE_BUILDER_SLICE_NS ? *rest_ns : CORE_BUILDER_SLICE_NS;
    return *rest_ns > 0;
}

void core_index_cache_fill(struct core_index_cache *arguments)
{
    arguments->cache = (stoker_index_cache){
        .folder = arguments->folder != NULL ? PyBytes_AsString(arguments->folder) : NULL,
        .stem = arguments->stem,
        .description = arguments->description,
        .assume_hit = arguments->assume_hit,
        .may_build = arguments->may_build,
        .wait_ns = arguments->wait_s > 0.0 && arguments->wait_s < 9.0e9 ? (uint64_t)(arguments->wait_s * 1.0e9) : 0,
    };
}

static size_t dtype_size(stoker_index_dtype dtype)
{
    return dtype == STOKER_INDEX_INT16 ? 2 : dtype == STOKER_INDEX_INT64 ? 8 : 4;
}

static const char *dtype_text(stoker_index_dtype dtype)
{
    switch (dtype) {
    case STOKER_INDEX_INT16: return "<i2";
    case STOKER_INDEX_INT32: return "<i4";
    case STOKER_INDEX_UINT32: return "<u4";
    default: return "<i8";
    }
}

PyObject *core_index_array(PyObject *owner, const stoker_index_array *array)
{
    struct array_object *view =
        (struct array_object *)((allocfunc)PyType_GetSlot(array_type, Py_tp_alloc))(array_type, 0);
    if (view == NULL) {
        return NULL;
    }
    view->owner = Py_NewRef(owner);
    view->data = array->data;
    view->size = (Py_ssize_t)(array->rows * array->columns * dtype_size(array->dtype));
    const char *text = dtype_text(array->dtype);
    if (array->columns == 1) {
        return Py_BuildValue("(Ns(K))", view, text, (unsigned long long)array->rows);
    }
    return Py_BuildValue("(Ns(KI))", view, text, (unsigned long long)array->rows, array->columns);
}

static int array_buffer(PyObject *self, Py_buffer *out, int flags)
{
    struct array_object *view = (struct array_object *)self;
    return PyBuffer_FillInfo(out, self, (void *)(uintptr_t)view->data, view->size, 1, flags);
}

static void array_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((struct array_object *)self)->owner);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyType_Slot array_slots[] = {
    {Py_tp_dealloc, array_dealloc},
    {Py_bf_getbuffer, array_buffer},
    {0, NULL},
};

static PyType_Spec array_spec = {
    .name = "stoker._core.IndexView",
    .basicsize = sizeof(struct array_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = array_slots,
};

/* 1: copied; 0: not such a buffer; -1 with an exception set. */
static int copy_buffer(PyObject *object, int64_t **out, size_t *out_count)
{
    Py_buffer buffer;
    int good = 0;
    if (!PyObject_CheckBuffer(object)) {
        return 0;
    }
    if (PyObject_GetBuffer(object, &buffer, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
        PyErr_Clear();
        return 0;
    }
    if (buffer.itemsize == 8 && buffer.format != NULL && strchr("lqLQ", buffer.format[0]) != NULL && buffer.ndim == 1) {
        *out = PyMem_Malloc((size_t)buffer.len + 8);
        *out_count = (size_t)buffer.len / 8;
        if (*out == NULL) {
            PyErr_NoMemory();
            good = -1;
        } else {
            memcpy(*out, buffer.buf, (size_t)buffer.len);
            good = 1;
        }
    }
    PyBuffer_Release(&buffer);
    return good;
}

int64_t *core_int64_array(PyObject *sequence, size_t *out_count)
{
    int64_t *values = NULL;
    int copied = copy_buffer(sequence, &values, out_count);
    if (copied != 0) {
        return values;
    }
    Py_ssize_t count = PySequence_Size(sequence);
    if (count < 0) {
        return NULL;
    }
    values = PyMem_Calloc((size_t)count + 1, sizeof *values);
    if (values == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        PyObject *number = item != NULL ? PyNumber_Index(item) : NULL;
        Py_XDECREF(item);
        values[i] = number != NULL ? PyLong_AsLongLong(number) : 0;
        Py_XDECREF(number);
        if (PyErr_Occurred() != NULL) {
            PyMem_Free(values);
            return NULL;
        }
    }
    *out_count = (size_t)count;
    return values;
}

PyObject *core_gpt_text(stoker_gpt_dataset *gpt, uint64_t length, uint64_t index)
{
    stoker_gpt_text text = {.part_max = PARTS_FIRST};
    stoker_error err = {0};
    PyObject *result = NULL;
    for (;;) {
        text.text = PyMem_Malloc((size_t)(length + 1) * sizeof *text.text);
        text.documents = PyMem_Malloc((size_t)text.part_max * sizeof *text.documents);
        text.lengths = PyMem_Malloc((size_t)text.part_max * sizeof *text.lengths);
        if (text.text == NULL || text.documents == NULL || text.lengths == NULL) {
            PyErr_NoMemory();
            break;
        }
        stoker_status status;
        Py_BEGIN_ALLOW_THREADS
        status = stoker_gpt_dataset_text(gpt, index, &text, &err);
        Py_END_ALLOW_THREADS
        if (status < 0) {
            core_raise(status, &err, NULL, 0);
            break;
        }
        if (text.parts <= text.part_max) {
            Py_ssize_t parts = (Py_ssize_t)(text.parts * sizeof *text.lengths);
            result = Py_BuildValue("(y#y#y#)", text.text, (Py_ssize_t)(text.count * sizeof *text.text), text.documents,
                                   parts, text.lengths, parts);
            break;
        }
        PyMem_Free(text.text);
        PyMem_Free(text.documents);
        PyMem_Free(text.lengths);
        text.part_max = text.parts;
    }
    PyMem_Free(text.text);
    PyMem_Free(text.documents);
    PyMem_Free(text.lengths);
    return result;
}

int core_index_init(PyObject *module)
{
    array_type = core_add_type(module, "IndexView", &array_spec);
    return array_type == NULL ? -1 : core_run_init(module);
}
