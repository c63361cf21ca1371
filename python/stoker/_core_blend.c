/* SPDX-License-Identifier: Apache-2.0
 *
 * Blends for Python (BlendIndex), native sources of token data, and single functions of the index that users of the
 * drop-in and benchmarks need.
 */
#include "_core_gpt.h"
#include "_core_run.h"

#include <string.h>

#include "_core_media.h"

struct blend_object {
    PyObject_HEAD stoker_blend_index *blend;
    size_t datasets;
};

static PyTypeObject *blend_type;

stoker_blend_index *core_blend_handle(PyObject *object)
{
    if (!PyObject_TypeCheck(object, blend_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a stoker._core.BlendIndex");
        return NULL;
    }
    return ((struct blend_object *)object)->blend;
}

/* Numbers as an array of float64 (PyMem); NULL with an exception set. */
static double *double_array(PyObject *sequence, size_t *out_count)
{
    Py_ssize_t count = PySequence_Size(sequence);
    double *values = count < 0 ? NULL : PyMem_Calloc((size_t)count + 1, sizeof *values);
    if (values == NULL) {
        return count < 0 ? NULL : (PyErr_NoMemory(), NULL);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        values[i] = item != NULL ? PyFloat_AsDouble(item) : 0.0;
        Py_XDECREF(item);
        if (PyErr_Occurred() != NULL) {
            PyMem_Free(values);
            return NULL;
        }
    }
    *out_count = (size_t)count;
    return values;
}

struct blend_arguments {
    PyObject *weights, *size, *sizes, *limits; /* borrowed */
    struct core_index_cache where;
    double *weight_values;
    int64_t *size_values, *limit_values;
    size_t weight_count, size_count, limit_count;
};

static int parse(PyObject *args, PyObject *kwargs, struct blend_arguments *a)
{
    static char *names[] = {"weights",     "size",       "sizes",     "limits", "folder", "stem",
                            "description", "assume_hit", "may_build", "defer",  "wait_s", NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOO$OO&sspppd", names, &a->weights, &a->size, &a->sizes,
                                     &a->limits, core_optional_path, &a->where.folder, &a->where.stem,
                                     &a->where.description, &a->where.assume_hit, &a->where.may_build, &a->where.defer,
                                     &a->where.wait_s)) {
        return -1;
    }
    if ((a->sizes == Py_None) == (a->weights == Py_None || a->size == Py_None)) {
        PyErr_SetString(PyExc_TypeError, "either weights and size, or sizes is needed");
        return -1;
    }
    if (a->weights != Py_None && (a->weight_values = double_array(a->weights, &a->weight_count)) == NULL) {
        return -1;
    }
    if (a->sizes != Py_None && (a->size_values = core_int64_array(a->sizes, &a->size_count)) == NULL) {
        return -1;
    }
    if (a->limits != Py_None && (a->limit_values = core_int64_array(a->limits, &a->limit_count)) == NULL) {
        return -1;
    }
    size_t datasets = a->sizes != Py_None ? a->size_count : a->weight_count;
    if (datasets > UINT32_MAX || (a->limits != Py_None && a->limit_count != datasets)) {
        PyErr_Format(PyExc_ValueError, "%zu limits are given for %zu datasets", a->limit_count, datasets);
        return -1;
    }
    for (size_t i = 0; i < datasets; i++) {
        if ((a->size_values != NULL && a->size_values[i] < 0) || (a->limit_values != NULL && a->limit_values[i] < 0)) {
            PyErr_Format(PyExc_ValueError, "dataset %zu has a negative number of samples", i);
            return -1;
        }
    }
    core_index_cache_fill(&a->where);
    return 0;
}

static int fill(const struct blend_arguments *a, stoker_blend_options *options)
{
    options->datasets = (uint32_t)(a->sizes != Py_None ? a->size_count : a->weight_count);
    options->weights = a->weight_values;
    options->sizes = (const uint64_t *)a->size_values;
    options->limits = (const uint64_t *)a->limit_values;
    options->defer = a->where.defer;
    options->cache = a->where.cache;
    if (a->sizes == Py_None) {
        PyObject *number = PyNumber_Index(a->size);
        options->size = number != NULL ? PyLong_AsUnsignedLongLong(number) : 0;
        Py_XDECREF(number);
    }
    return PyErr_Occurred() != NULL ? -1 : 0;
}

static PyObject *blend_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct blend_arguments a = {.weights = Py_None,
                                .size = Py_None,
                                .sizes = Py_None,
                                .limits = Py_None,
                                .where = {.stem = "", .description = "", .may_build = 1}};
    stoker_blend_options options = STOKER_BLEND_OPTIONS_INIT;
    struct blend_object *self = NULL;
    if (parse(args, kwargs, &a) == 0 && fill(&a, &options) == 0) {
        self = (struct blend_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    }
    if (self != NULL) {
        stoker_error err = {0};
        stoker_status status;
        self->datasets = options.datasets;
        uint64_t rest_ns;
        int go_on = 0;
        core_index_wait_begin(&options.cache, &rest_ns);
        do {
            go_on = core_blend_open(&options, &self->blend, &status, &err);
            if (go_on == 0 && status == STOKER_ERR_TIMEOUT) {
                go_on = core_index_wait_on(&options.cache, &rest_ns);
            }
        } while (go_on > 0);
        if (go_on < 0) {
            Py_CLEAR(self);
        } else if (status < 0) {
            core_raise(status, &err, NULL, 0);
            Py_CLEAR(self);
        }
    }
    PyMem_Free(a.weight_values);
    PyMem_Free(a.size_values);
    PyMem_Free(a.limit_values);
    Py_XDECREF(a.where.folder);
    return (PyObject *)self;
}

static void blend_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    stoker_blend_index_close(((struct blend_object *)self)->blend);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *blend_arrays(PyObject *self, PyObject *unused)
{
    (void)unused;
    stoker_index_array dataset, sample;
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_blend_index_arrays(((struct blend_object *)self)->blend, &dataset, &sample, NULL, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    return Py_BuildValue("{s:N,s:N}", "dataset_index", core_index_array(self, &dataset), "dataset_sample_index",
                         core_index_array(self, &sample));
}

static PyObject *blend_counts(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct blend_object *self = (struct blend_object *)object;
    uint64_t *counts = PyMem_Calloc(self->datasets + 1, sizeof *counts);
    if (counts == NULL) {
        return PyErr_NoMemory();
    }
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_blend_index_counts(self->blend, counts, &err);
    Py_END_ALLOW_THREADS
    PyObject *list = status < 0 ? core_raise(status, &err, NULL, 0) : PyList_New((Py_ssize_t)self->datasets);
    for (size_t i = 0; list != NULL && i < self->datasets; i++) {
        PyObject *count = PyLong_FromUnsignedLongLong(counts[i]);
        if (count == NULL || PyList_SetItem(list, (Py_ssize_t)i, count) < 0) {
            Py_CLEAR(list);
        }
    }
    PyMem_Free(counts);
    return list;
}

static PyObject *blend_built(PyObject *self, void *unused)
{
    (void)unused;
    int built = 0;
    stoker_error err = {0};
    stoker_status status = stoker_blend_index_arrays(((struct blend_object *)self)->blend, NULL, NULL, &built, &err);
    return status < 0 ? core_raise(status, &err, NULL, 0) : PyBool_FromLong(built);
}

static PyObject *weights_normalize(PyObject *self, PyObject *sequence)
{
    (void)self;
    size_t count = 0;
    double *values = double_array(sequence, &count);
    if (values == NULL) {
        return NULL;
    }
    stoker_weights_normalize(values, count, values);
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *weight = PyFloat_FromDouble(values[i]);
        if (weight == NULL || PyList_SetItem(list, (Py_ssize_t)i, weight) < 0) {
            Py_CLEAR(list);
        }
    }
    PyMem_Free(values);
    return list;
}

static PyObject *shuffled_range(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned long long seed, count;
    const char *text;
    if (!PyArg_ParseTuple(args, "O&O&s", CORE_NUMBER("seed", seed), CORE_NUMBER("count", count), &text)) {
        return NULL;
    }
    stoker_index_dtype dtype = strcmp(text, "<i4") == 0   ? STOKER_INDEX_INT32
                               : strcmp(text, "<u4") == 0 ? STOKER_INDEX_UINT32
                                                          : STOKER_INDEX_INT64;
    if (dtype == STOKER_INDEX_INT64 && strcmp(text, "<i8") != 0) {
        PyErr_Format(PyExc_ValueError, "dtype '%.20s' is none of '<i4', '<u4', '<i8'", text);
        return NULL;
    }
    if (seed > UINT32_MAX || count > PY_SSIZE_T_MAX / 8) {
        PyErr_SetString(PyExc_ValueError,
                        seed > UINT32_MAX ? "Seed must be between 0 and 2**32 - 1" : "count is too large");
        return NULL;
    }
    PyObject *out = PyByteArray_FromStringAndSize(NULL, (Py_ssize_t)(count * (dtype == STOKER_INDEX_INT64 ? 8 : 4)));
    if (out == NULL) {
        return NULL;
    }
    stoker_error err = {0};
    stoker_status status;
    void *data = PyByteArray_AsString(out);
    Py_BEGIN_ALLOW_THREADS
    status = stoker_shuffled_range((uint32_t)seed, count, dtype, data, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        Py_DECREF(out);
        return core_raise(status, &err, NULL, 0);
    }
    return out;
}

static PyObject *token_source(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {
        "datasets",      "blend",          "count",     "pad", "eod", "reset_position_ids", "reset_attention_mask",
        "eod_mask_loss", "attention_mask", "documents", NULL};
    PyObject *sequence, *blend = Py_None;
    stoker_gpt_form form = STOKER_GPT_FORM_INIT;
    stoker_token_spec spec = STOKER_TOKEN_SPEC_INIT;
    unsigned long long count = 0;
    long long pad = -1, eod = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OO&LLppppp", names, &sequence, &blend,
                                     CORE_NUMBER("count", count), &pad, &eod, &form.reset_position_ids,
                                     &form.reset_attention_mask, &form.eod_mask_loss, &form.attention_mask,
                                     &form.documents)) {
        return NULL;
    }
    form.pad = pad;
    form.eod = eod;
    spec.form = &form;
    spec.count = count;
    if (blend != Py_None && (spec.blend = core_blend_handle(blend)) == NULL) {
        return NULL;
    }
    PyObject *keep = PySequence_Tuple(sequence); /* owns the datasets during the call */
    Py_ssize_t datasets = keep != NULL ? PyTuple_Size(keep) : 0;
    stoker_gpt_dataset **handles =
        keep != NULL ? PyMem_Calloc((size_t)datasets + 1, sizeof(stoker_gpt_dataset *)) : NULL;
    stoker_source *source = NULL;
    if (handles == NULL && keep != NULL) {
        PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; handles != NULL && i < datasets && PyErr_Occurred() == NULL; i++) {
        handles[i] = core_gpt_handle(PyTuple_GetItem(keep, i));
    }
    if (PyErr_Occurred() == NULL) {
        stoker_error err = {0};
        stoker_status status;
        spec.datasets = handles;
        spec.dataset_count = datasets < INT32_MAX ? (uint32_t)datasets : UINT32_MAX;
        Py_BEGIN_ALLOW_THREADS
        status = stoker_source_create_tokens(&spec, &source, &err);
        Py_END_ALLOW_THREADS
        if (status < 0) {
            core_raise(status, &err, NULL, 0);
        }
    }
    PyMem_Free(handles);
    Py_XDECREF(keep);
    return source != NULL ? core_source_wrap(source) : NULL;
}

static PyMethodDef blend_methods[] = {
    {"arrays", blend_arrays, METH_NOARGS, "arrays() -> dict\n\nname -> (buffer, dtype text, shape)."},
    {"counts", blend_counts, METH_NOARGS, "counts() -> list[int]\n\nSamples taken of each dataset."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef blend_properties[] = {
    {"built", blend_built, NULL, "Whether the arrays were made now, not loaded.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot blend_slots[] = {
    {Py_tp_new, blend_new},
    {Py_tp_dealloc, blend_dealloc},
    {Py_tp_methods, blend_methods},
    {Py_tp_getset, blend_properties},
    {0, NULL},
};

static PyType_Spec blend_spec = {
    .name = "stoker._core.BlendIndex",
    .basicsize = sizeof(struct blend_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = blend_slots,
};

static PyMethodDef blend_functions[] = {
    {"token_source", (PyCFunction)(void (*)(void))token_source, METH_VARARGS | METH_KEYWORDS,
     "token_source(datasets, *, blend=None, count=0, pad=-1, ...) -> Source\n\nItems made without Python."},
    {"weights_normalize", weights_normalize, METH_O,
     "weights_normalize(weights) -> list[float]\n\nEach divided by NumPy's pairwise sum."},
    {"shuffled_range", shuffled_range, METH_VARARGS,
     "shuffled_range(seed, count, dtype) -> bytearray\n\nNumPy's RandomState(seed).shuffle() of a range."},
    {NULL, NULL, 0, NULL},
};

int core_blend_init(PyObject *module)
{
    blend_type = core_add_type(module, "BlendIndex", &blend_spec);
    return blend_type == NULL ? -1 : PyModule_AddFunctions(module, blend_functions);
}
