/* SPDX-License-Identifier: Apache-2.0
 *
 * Token-aware batches for Python: the planner of stoker/batch.h, one window at a time, as bytes of 32-bit integers
 * (loads: 64-bit). Windows are planned without the interpreter lock. And rows of cost profiles (stoker/profile.h).
 */
#include "_core.h"

#include <stdlib.h>
#include <string.h>

#include <stoker/batch.h>
#include <stoker/profile.h>

typedef struct {
    PyObject_HEAD stoker_batch_planner *planner;
    void *memory;
    stoker_batch_source *sources;
    Py_buffer *views; /* two a source; obj NULL: none */
    Py_ssize_t source_count;
} planner_object;

static void planner_dealloc(PyObject *object)
{
    planner_object *self = (planner_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    for (Py_ssize_t i = 0; self->views != NULL && i < 2 * self->source_count; i++) {
        if (self->views[i].obj != NULL) {
            PyBuffer_Release(&self->views[i]);
        }
    }
    free(self->memory);
    PyMem_Free(self->views);
    PyMem_Free(self->sources);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* One (tokens, shapes or None, weight): borrows the buffers until the planner goes. */
static int take_source(planner_object *self, Py_ssize_t index, PyObject *item)
{
    PyObject *tokens, *shapes;
    double weight;
    Py_buffer *views = &self->views[2 * index];
    if (!PyTuple_Check(item) || !PyArg_ParseTuple(item, "OOd", &tokens, &shapes, &weight) ||
        PyObject_GetBuffer(tokens, &views[0], PyBUF_SIMPLE) < 0 ||
        (shapes != Py_None && PyObject_GetBuffer(shapes, &views[1], PyBUF_SIMPLE) < 0)) {
        if (PyErr_Occurred() == NULL) {
            PyErr_SetString(PyExc_TypeError, "a source is a tuple (tokens, shapes or None, weight)");
        }
        return -1;
    }
    if (views[0].len % 4 != 0 || views[0].len / 4 > UINT32_MAX ||
        (views[1].obj != NULL && views[1].len != views[0].len)) {
        PyErr_Format(PyExc_ValueError,
                     "source %zd has %zd bytes of tokens and %zd of shapes, expected equal numbers of 32-bit integers",
                     index, views[0].len, views[1].len);
        return -1;
    }
    self->sources[index] = (stoker_batch_source){views[0].buf, views[1].obj != NULL ? views[1].buf : NULL,
                                                 (uint32_t)(views[0].len / 4), weight};
    return 0;
}

static int take_sources(planner_object *self, PyObject *list)
{
    self->source_count = PyList_Size(list);
    self->views = PyMem_Calloc((size_t)(2 * self->source_count + 1), sizeof *self->views);
    self->sources = PyMem_Calloc((size_t)(self->source_count + 1), sizeof *self->sources);
    if (self->views == NULL || self->sources == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < self->source_count; i++) {
        if (take_source(self, i, PyList_GetItem(list, i)) < 0) {
            return -1;
        }
    }
    return 0;
}

static int begin(planner_object *self, const stoker_batch_options *options)
{
    stoker_error err = {0};
    stoker_status status;
    size_t count = (size_t)self->source_count, size;
    Py_BEGIN_ALLOW_THREADS
    size = stoker_batch_bytes(self->sources, count, options);
    /* A size of 0 is told apart by the call itself, which names the reason. */
    self->memory = aligned_alloc(16, (size + 31) / 16 * 16);
    status = self->memory == NULL
                 ? STOKER_ERR_NO_MEMORY
                 : stoker_batch_init(self->sources, count, options, self->memory, size, &self->planner, &err);
    Py_END_ALLOW_THREADS
    if (self->memory == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (status < 0) {
        core_raise(status, &err, NULL, 0);
        return -1;
    }
    return 0;
}

static PyObject *planner_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {
        "sources",       "ranks", "cells",        "budget_tokens", "budget_samples", "window_samples", "shape_count",
        "linear_tokens", "flags", "pool_samples", "samples",       "seed",           "epoch",          NULL};
    PyObject *list;
    stoker_batch_options options = STOKER_BATCH_OPTIONS_INIT;
    unsigned long long samples = 0, seed = 0, epoch = 0;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O!O&O&|O&O&O&O&O&O&O&O&O&O&", names, &PyList_Type, &list,
            CORE_NUMBER("ranks", options.ranks), CORE_NUMBER("cells", options.cells),
            CORE_NUMBER("budget_tokens", options.budget_tokens), CORE_NUMBER("budget_samples", options.budget_samples),
            CORE_NUMBER("window_samples", options.window_samples), CORE_NUMBER("shape_count", options.shape_count),
            CORE_NUMBER("linear_tokens", options.linear_tokens), CORE_NUMBER("flags", options.flags),
            CORE_NUMBER("pool_samples", options.pool_samples), CORE_NUMBER("samples", samples),
            CORE_NUMBER("seed", seed), CORE_NUMBER("epoch", epoch))) {
        return NULL;
    }
    options.samples = samples, options.seed = seed, options.epoch = epoch;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    planner_object *self = (planner_object *)allocate(type, 0);
    if (self != NULL && (take_sources(self, list) < 0 || begin(self, &options) < 0)) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

static PyObject *words(const uint32_t *from, size_t count)
{
    return PyBytes_FromStringAndSize((const char *)from, (Py_ssize_t)(count * sizeof *from));
}

static PyObject *planner_next(PyObject *object, PyObject *unused)
{
    (void)unused;
    planner_object *self = (planner_object *)object;
    stoker_batch_window w;
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_batch_next(self->planner, &w, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    if (status == STOKER_END) {
        return Py_NewRef(Py_None);
    }
    size_t cells = w.step_cells[w.steps];
    return Py_BuildValue(
        "{s:N,s:N,s:N,s:N,s:N,s:I,s:I,s:K,s:K}", "step_cells", words(w.step_cells, (size_t)w.steps + 1), "cell_places",
        words(w.cell_places, cells + 1), "places", words(w.places, w.cell_places[cells]), "loads",
        PyBytes_FromStringAndSize((const char *)w.loads, (Py_ssize_t)((size_t)w.steps * w.ranks * sizeof *w.loads)),
        "pool", words(w.pool, w.pool_count), "repeats", w.repeats, "padding", w.padding, "windows",
        (unsigned long long)w.windows, "samples", (unsigned long long)w.samples);
}

static PyObject *planner_skip(PyObject *object, PyObject *args)
{
    unsigned long long windows;
    if (!PyArg_ParseTuple(args, "O&", CORE_NUMBER("windows", windows))) {
        return NULL;
    }
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_batch_skip(((planner_object *)object)->planner, windows, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    return PyBool_FromLong(status == STOKER_OK);
}

static PyObject *planner_open(PyObject *object, PyObject *args)
{
    Py_buffer ids;
    if (!PyArg_ParseTuple(args, "y*", &ids)) {
        return NULL;
    }
    stoker_error err = {0};
    stoker_status status = stoker_batch_open(((planner_object *)object)->planner, ids.buf, (size_t)ids.len / 4, &err);
    PyBuffer_Release(&ids);
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

static PyObject *planner_reweigh(PyObject *object, PyObject *args)
{
    Py_buffer weights;
    if (!PyArg_ParseTuple(args, "y*", &weights)) {
        return NULL;
    }
    stoker_error err = {0};
    stoker_status status = stoker_batch_reweigh(((planner_object *)object)->planner, weights.buf,
                                                (size_t)weights.len / sizeof(double), &err);
    PyBuffer_Release(&weights);
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

static PyMethodDef planner_methods[] = {
    {"next", planner_next, METH_NOARGS,
     "next() -> dict | None\n\nPlan the next window: step_cells, cell_places, places, pool (uint32), loads (uint64) as "
     "bytes; repeats, padding, windows, samples. None after the last."},
    {"skip", planner_skip, METH_VARARGS, "skip(windows) -> bool\n\nDraw windows without planning; False at the end."},
    {"open", planner_open, METH_VARARGS, "open(ids)\n\nWhat the next call of next() plans, uint32."},
    {"reweigh", planner_reweigh, METH_VARARGS, "reweigh(weights)\n\nShares from the next window on, float64."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot planner_slots[] = {
    {Py_tp_new, planner_new},
    {Py_tp_dealloc, planner_dealloc},
    {Py_tp_methods, planner_methods},
    {Py_tp_doc, "Plans of token-aware batches, window by window."},
    {0, NULL},
};

static PyType_Spec planner_spec = {
    .name = "stoker._core.BatchPlanner",
    .basicsize = sizeof(planner_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = planner_slots,
};

static PyObject *cost_row(PyObject *self, PyObject *args)
{
    (void)self;
    const char *kind;
    unsigned long long n[8];
    if (!PyArg_ParseTuple(args, "sO&O&O&O&O&O&O&O&", &kind, CORE_NUMBER("n[0]", n[0]), CORE_NUMBER("n[1]", n[1]),
                          CORE_NUMBER("n[2]", n[2]), CORE_NUMBER("n[3]", n[3]), CORE_NUMBER("n[4]", n[4]),
                          CORE_NUMBER("n[5]", n[5]), CORE_NUMBER("n[6]", n[6]), CORE_NUMBER("n[7]", n[7]))) {
        return NULL;
    }
    const stoker_cost_row row = {.kind = stoker_cost_kind_of(kind),
                                 .samples = n[0],
                                 .pixels_in = n[1],
                                 .bytes_in = n[2],
                                 .pixels_out = n[3],
                                 .cpu_ns = n[4],
                                 .wall_ns = n[5],
                                 .input_bytes = n[6],
                                 .output_bytes = n[7]};
    return PyBytes_FromStringAndSize((const char *)&row, sizeof row);
}

static PyObject *cost_judge(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer rows;
    Py_ssize_t taught;
    int go_on = 0;
    if (!PyArg_ParseTuple(args, "y*n|p", &rows, &taught, &go_on)) {
        return NULL;
    }
    stoker_cost_judgement judgement;
    stoker_error err = {0};
    size_t count = (size_t)rows.len / sizeof(stoker_cost_row);
    stoker_cost_row *copy = PyMem_Malloc((count + 1) * sizeof *copy); /* aligned */
    stoker_status status = STOKER_ERR_NO_MEMORY;
    if (copy != NULL) {
        memcpy(copy, rows.buf, count * sizeof *copy);
        status = stoker_profile_judge(copy, count, taught < 0 ? count : (size_t)taught, go_on, &judgement, &err);
    }
    PyMem_Free(copy);
    PyBuffer_Release(&rows);
    if (copy == NULL) {
        return PyErr_NoMemory();
    }
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    return Py_BuildValue("{s:I,s:d,s:d,s:d,s:d,s:d}", "judged", judgement.judged, "median", judgement.median, "p95",
                         judgement.p95, "worst", judgement.worst, "prior_median", judgement.prior_median, "prior_p95",
                         judgement.prior_p95);
}

static PyMethodDef functions[] = {
    {"cost_row", cost_row, METH_VARARGS,
     "cost_row(kind, samples, pixels_in, bytes_in, pixels_out, cpu_ns, wall_ns, input_bytes, output_bytes) -> bytes"},
    {"cost_judge", cost_judge, METH_VARARGS,
     "cost_judge(rows, taught, go_on=False) -> dict\n\nErrors of predictions after the first rows were taught."},
    {NULL, NULL, 0, NULL},
};

int core_sampler_init(PyObject *module)
{
    if (core_add_type(module, "BatchPlanner", &planner_spec) == NULL) {
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
