/* SPDX-License-Identifier: Apache-2.0
 *
 * Samples of token files for Python: GptDataset. Items as buffers and batches are here, items as tensors and many at
 * once in _core_gpt_items.c, blends in _core_blend.c, index arrays in _core_index.c.
 */
#include "_core_gpt_internal.h"

#include <stdlib.h>
#include <string.h>

#include "_core_block.h"
#include "_core_run.h"
#include "_core_tokens.h"

const struct core_gpt_member core_gpt_members[MEMBERS] = {
    {"tokens", "<i8", 8, 0},     {"labels", "<i8", 8, 0},       {"attention_mask", "|b1", 1, 6},
    {"loss_mask", "<f4", 4, 2},  {"position_ids", "<i8", 8, 0}, {"cu_seqlens", "<i4", 4, 0},
    {"max_seqlen", "<i4", 4, 0},
};

static PyTypeObject *gpt_type;

/* ----------------------------------------------------------------------------------------------------- construction */

stoker_gpt_dataset *core_gpt_handle(PyObject *object)
{
    if (!PyObject_TypeCheck(object, gpt_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a stoker._core.GptDataset");
        return NULL;
    }
    return ((struct gpt_object *)object)->gpt;
}

struct gpt_arguments {
    PyObject *file, *mock, *samples, *end; /* borrowed */
    struct core_index_cache where;
    unsigned long long seed, length, first;
    int extra_token;
    int64_t vocabulary, eod;
};

/* None is UINT64_MAX. */
static int optional_count(PyObject *object, uint64_t *out)
{
    *out = UINT64_MAX;
    if (object == Py_None) {
        return 0;
    }
    PyObject *number = PyNumber_Index(object);
    unsigned long long value = number != NULL ? PyLong_AsUnsignedLongLong(number) : 0;
    Py_XDECREF(number);
    if (PyErr_Occurred() != NULL) {
        return -1;
    }
    *out = value;
    return 0;
}

static int parse(PyObject *args, PyObject *kwargs, struct gpt_arguments *a, stoker_gpt_options *options)
{
    static char *names[] = {"file", "mock",        "seed",        "sequence_length", "samples", "first",
                            "end",  "split",       "extra_token", "keep_partial",    "defer",   "folder",
                            "stem", "description", "assume_hit",  "may_build",       "wait_s",  NULL};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|$OO&O&OO&OspppO&ssppd", names, &a->file, &a->mock,
                                     CORE_NUMBER("seed", a->seed), CORE_NUMBER("sequence_length", a->length),
                                     &a->samples, CORE_NUMBER("first", a->first), &a->end, &options->split,
                                     &a->extra_token, &options->keep_partial, &a->where.defer, core_optional_path,
                                     &a->where.folder, &a->where.stem, &a->where.description, &a->where.assume_hit,
                                     &a->where.may_build, &a->where.wait_s)) {
        return -1;
    }
    if (a->seed > UINT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "Seed must be between 0 and 2**32 - 1");
        return -1;
    }
    long long vocabulary = 0, eod = 0;
    if (a->mock != Py_None && !PyArg_ParseTuple(a->mock, "LL", &vocabulary, &eod)) {
        return -1;
    }
    if ((a->mock == Py_None) == (a->file == Py_None)) {
        PyErr_SetString(PyExc_TypeError, "either an IndexedFile or mock=(vocabulary, eod) is needed");
        return -1;
    }
    a->vocabulary = vocabulary;
    a->eod = eod;
    options->random_seed = (uint32_t)a->seed;
    options->sequence_length = a->length;
    options->first_sequence = a->first;
    options->no_extra_token = !a->extra_token;
    options->defer = a->where.defer;
    core_index_cache_fill(&a->where);
    options->cache = a->where.cache;
    return optional_count(a->samples, &options->samples) < 0 ? -1 : optional_count(a->end, &options->end_sequence);
}

static PyObject *gpt_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    struct gpt_arguments a = {.file = Py_None,
                              .mock = Py_None,
                              .samples = Py_None,
                              .end = Py_None,
                              .extra_token = 1,
                              .where = {.stem = "", .description = "", .may_build = 1}};
    stoker_gpt_options options = STOKER_GPT_OPTIONS_INIT;
    struct gpt_object *self = NULL;
    stoker_dataset *dataset = NULL;
    options.split = "train";
    if (parse(args, kwargs, &a, &options) < 0) {
        goto done;
    }
    if (a.file != Py_None && (dataset = core_tokens_handle(a.file)) == NULL) {
        goto done;
    }
    self = (struct gpt_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) {
        goto done;
    }
    self->pool = core_block_pool_create();
    if (self->pool == NULL) {
        Py_CLEAR(self);
        goto done;
    }
    self->file = a.file != Py_None ? Py_NewRef(a.file) : NULL;
    self->length = options.sequence_length;
    stoker_error err = {0};
    stoker_status status;
    if (dataset != NULL) {
        (void)stoker_dataset_ref(dataset); /* another thread may close the file meanwhile */
    }
    uint64_t rest_ns;
    int go_on = 0;
    core_index_wait_begin(&options.cache, &rest_ns);
    do {
        go_on = core_gpt_open(dataset, a.vocabulary, a.eod, &options, &self->gpt, &status, &err);
        if (go_on == 0 && status == STOKER_ERR_TIMEOUT) {
            go_on = core_index_wait_on(&options.cache, &rest_ns);
        }
    } while (go_on > 0);
    stoker_dataset_close(dataset);
    if (go_on < 0) {
        Py_CLEAR(self);
    } else if (status < 0) {
        core_raise(status, &err, NULL, 0);
        Py_CLEAR(self);
    }
done:
    Py_XDECREF(a.where.folder);
    return (PyObject *)self;
}

static void gpt_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    struct gpt_object *self = (struct gpt_object *)object;
    core_block_pool_close(self->pool);
    stoker_gpt_dataset_close(self->gpt);
    Py_XDECREF(self->file);
    for (int i = 0; i < MEMBERS; i++) {
        Py_XDECREF(self->constant[i]);
    }
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* ------------------------------------------------------------------------------------------------------------ index */

static PyObject *gpt_count(PyObject *self, PyObject *unused)
{
    (void)unused;
    return PyLong_FromLongLong(stoker_gpt_dataset_count(((struct gpt_object *)self)->gpt));
}

static PyObject *gpt_prepare(PyObject *self, PyObject *unused)
{
    (void)unused;
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_gpt_dataset_prepare(((struct gpt_object *)self)->gpt, &err);
    Py_END_ALLOW_THREADS
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

static PyObject *gpt_arrays(PyObject *self, PyObject *unused)
{
    (void)unused;
    stoker_index_array document, sample, shuffle;
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_gpt_dataset_arrays(((struct gpt_object *)self)->gpt, &document, &sample, &shuffle, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    return Py_BuildValue("{s:N,s:N,s:N}", "document_index", core_index_array(self, &document), "sample_index",
                         core_index_array(self, &sample), "shuffle_index", core_index_array(self, &shuffle));
}

static PyObject *gpt_text(PyObject *object, PyObject *args)
{
    struct gpt_object *self = (struct gpt_object *)object;
    unsigned long long index;
    return PyArg_ParseTuple(args, "O&", CORE_NUMBER("index", index)) ? core_gpt_text(self->gpt, self->length, index)
                                                                     : NULL;
}

/* ------------------------------------------------------------------------------------------------------------ items */

uint64_t core_gpt_member_count(const struct gpt_object *self, int member)
{
    switch (member) {
    case ATTENTION_MASK: return self->length * self->length;
    case CU_SEQLENS: return self->length + 1;
    case MAX_SEQLEN: return 1;
    default: return self->length;
    }
}

static PyObject *gpt_set_form(PyObject *object, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"pad",
                            "eod",
                            "reset_position_ids",
                            "reset_attention_mask",
                            "eod_mask_loss",
                            "attention_mask",
                            "position_ids",
                            "documents",
                            NULL};
    struct gpt_object *self = (struct gpt_object *)object;
    stoker_gpt_form form = STOKER_GPT_FORM_INIT;
    long long pad = -1, eod = 0;
    int position_ids = 1;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$LLpppppp", names, &pad, &eod, &form.reset_position_ids,
                                     &form.reset_attention_mask, &form.eod_mask_loss, &form.attention_mask,
                                     &position_ids, &form.documents)) {
        return NULL;
    }
    if (form.attention_mask && (form.documents || self->length > UINT32_MAX / 2)) {
        PyErr_SetString(PyExc_ValueError, "attention_mask and documents exclude each other");
        return NULL;
    }
    form.pad = pad;
    form.eod = eod;
    self->form = form;
    const int wanted[MEMBERS] = {1, 1, form.attention_mask, 1, position_ids, form.documents, form.documents};
    size_t size = 0;
    for (int i = 0; i < MEMBERS; i++) {
        self->wanted[i] = wanted[i];
        self->offset[i] = size;
        if (wanted[i]) {
            size +=
                ((size_t)core_gpt_member_count(self, i) * core_gpt_members[i].item_bytes + CORE_BLOCK_ALIGNMENT - 1) /
                CORE_BLOCK_ALIGNMENT * CORE_BLOCK_ALIGNMENT;
        }
    }
    core_block_pool_forget(self->pool);
    self->size = size;
    self->has_form = 1;
    return Py_NewRef(Py_None);
}

int core_gpt_need_form(const struct gpt_object *self)
{
    if (!self->has_form) {
        PyErr_SetString(PyExc_RuntimeError, "set_form() comes before items");
    }
    return self->has_form ? 0 : -1;
}

static PyObject *member_shape(const struct gpt_object *self, int member)
{
    unsigned long long length = self->length;
    switch (member) {
    case ATTENTION_MASK: return Py_BuildValue("(iKK)", 1, length, length);
    case CU_SEQLENS: return Py_BuildValue("(K)", length + 1);
    case MAX_SEQLEN: return PyTuple_New(0);
    default: return Py_BuildValue("(K)", length);
    }
}

static PyObject *gpt_layout(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct gpt_object *self = (struct gpt_object *)object;
    PyObject *layout = core_gpt_need_form(self) == 0 ? PyDict_New() : NULL;
    for (int i = 0; layout != NULL && i < MEMBERS; i++) {
        if (!self->wanted[i]) {
            continue;
        }
        PyObject *entry =
            Py_BuildValue("(nsN)", (Py_ssize_t)self->offset[i], core_gpt_members[i].dtype, member_shape(self, i));
        if (entry == NULL || PyDict_SetItemString(layout, core_gpt_members[i].name, entry) < 0) {
            Py_CLEAR(layout);
        }
        Py_XDECREF(entry);
    }
    return layout;
}

stoker_gpt_item core_gpt_places(void *const at[MEMBERS])
{
    return (stoker_gpt_item){.tokens = at[TOKENS],
                             .labels = at[LABELS],
                             .loss_mask = at[LOSS_MASK],
                             .position_ids = at[POSITION_IDS],
                             .attention_mask = at[ATTENTION_MASK],
                             .cu_seqlens = at[CU_SEQLENS],
                             .max_seqlen = at[MAX_SEQLEN]};
}

int core_gpt_index(PyObject *object, int64_t *out)
{
    *out = INT64_MIN;
    if (object == Py_None) {
        return 0;
    }
    PyObject *number = PyNumber_Index(object);
    long long value = number != NULL ? PyLong_AsLongLong(number) : 0;
    Py_XDECREF(number);
    if (PyErr_Occurred() != NULL) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
            PyErr_SetString(PyExc_IndexError, "no dataset has a sample of this number");
        }
        return -1;
    }
    *out = value == INT64_MIN ? INT64_MIN + 1 : value;
    return 0;
}

static PyObject *gpt_item(PyObject *object, PyObject *index_object)
{
    struct gpt_object *self = (struct gpt_object *)object;
    int64_t index;
    if (core_gpt_need_form(self) < 0 || core_gpt_index(index_object, &index) < 0) {
        return NULL;
    }
    PyObject *block = core_block_new(self->pool, self->size);
    if (block == NULL) {
        return NULL;
    }
    void *at[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        at[i] = self->wanted[i] ? (char *)core_block_data(block) + self->offset[i] : NULL;
    }
    const stoker_gpt_item places = core_gpt_places(at);
    const stoker_gpt_form form = self->form; /* another thread may set it meanwhile */
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_gpt_dataset_item(self->gpt, &form, index, &places, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        Py_DECREF(block);
        return core_raise(status, &err, NULL, 0);
    }
    return block;
}

PyObject *core_gpt_parts(const struct gpt_object *self, PyObject *block, const int is_wanted[MEMBERS],
                         const size_t offset[MEMBERS], size_t count)
{
    Py_ssize_t wanted = 0, at = 0;
    for (int i = 0; i < MEMBERS; i++) {
        wanted += is_wanted[i] != 0;
    }
    PyObject *parts = PyTuple_New(wanted);
    for (int i = 0; parts != NULL && i < MEMBERS; i++) {
        if (!is_wanted[i]) {
            continue;
        }
        PyObject *part =
            core_block_part(block, offset[i], count * core_gpt_member_count(self, i) * core_gpt_members[i].item_bytes);
        if (part == NULL) {
            Py_CLEAR(parts);
            break;
        }
        PyTuple_SetItem(parts, at++, part);
    }
    Py_DECREF(block);
    return parts;
}

static PyObject *gpt_parts(PyObject *object, PyObject *index_object)
{
    struct gpt_object *self = (struct gpt_object *)object;
    PyObject *block = gpt_item(object, index_object);
    if (block != NULL && core_block_size(block) != self->size) {
        PyErr_SetString(PyExc_RuntimeError, "set_form() was called while an item was made");
        Py_CLEAR(block);
    }
    return block != NULL ? core_gpt_parts(self, block, self->wanted, self->offset, 1) : NULL;
}

/* Fills `buffers` and `at` with the wanted members of `out`, for `count` items. -1 with an exception set. */
static int take_places(const struct gpt_object *self, PyObject *out, size_t count, Py_buffer buffers[MEMBERS],
                       void *at[MEMBERS])
{
    int taken = 0;
    for (int i = 0; i < MEMBERS; i++) {
        PyObject *value = PyMapping_GetItemString(out, core_gpt_members[i].name);
        if (value == NULL) {
            if (!PyErr_ExceptionMatches(PyExc_KeyError)) {
                return -1;
            }
            PyErr_Clear();
            continue;
        }
        int got = PyObject_GetBuffer(value, &buffers[i], PyBUF_WRITABLE | PyBUF_C_CONTIGUOUS);
        Py_DECREF(value);
        if (got < 0) {
            return -1;
        }
        at[i] = buffers[i].buf;
        taken++;
        uint64_t bytes = (uint64_t)buffers[i].len,
                 one = core_gpt_member_count(self, i) * core_gpt_members[i].item_bytes;
        if (one == 0 || bytes % one != 0 || bytes / one != count) {
            PyErr_Format(PyExc_ValueError, "out['%s'] has %llu bytes, %zu items of %llu are wanted",
                         core_gpt_members[i].name, (unsigned long long)bytes, count, (unsigned long long)one);
            return -1;
        }
        if (!self->wanted[i] && i >= CU_SEQLENS) {
            PyErr_Format(PyExc_ValueError, "out['%s'] is wanted, but the form has no documents",
                         core_gpt_members[i].name);
            return -1;
        }
    }
    if (taken != PyMapping_Size(out)) {
        PyErr_SetString(PyExc_ValueError, "out has a member that items do not have");
        return -1;
    }
    return 0;
}

static PyObject *gpt_batch(PyObject *object, PyObject *args)
{
    struct gpt_object *self = (struct gpt_object *)object;
    PyObject *sequence, *out, *result = NULL;
    Py_buffer buffers[MEMBERS] = {{0}};
    void *at[MEMBERS] = {NULL};
    size_t count = 0;
    if (!PyArg_ParseTuple(args, "OO", &sequence, &out) || core_gpt_need_form(self) < 0) {
        return NULL;
    }
    int64_t *indices = core_int64_array(sequence, &count);
    if (indices == NULL) {
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        indices[i] = indices[i] == INT64_MIN ? INT64_MIN + 1 : indices[i];
    }
    if (take_places(self, out, count, buffers, at) == 0) {
        const stoker_gpt_item places = core_gpt_places(at);
        stoker_gpt_form form = self->form;
        stoker_error err = {0};
        stoker_status status;
        Py_BEGIN_ALLOW_THREADS
        status = stoker_gpt_dataset_batch(self->gpt, &form, indices, count, &places, &err);
        Py_END_ALLOW_THREADS
        result = status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
    }
    for (int i = 0; i < MEMBERS; i++) {
        if (buffers[i].obj != NULL) {
            PyBuffer_Release(&buffers[i]);
        }
    }
    PyMem_Free(indices);
    return result;
}

static PyMethodDef gpt_methods[] = {
    {"count", gpt_count, METH_NOARGS, "count() -> int\n\nNumber of samples; computed if deferred (-1: no tokens)."},
    {"prepare", gpt_prepare, METH_NOARGS, "prepare() -> None\n\nMap what was deferred."},
    {"arrays", gpt_arrays, METH_NOARGS, "arrays() -> dict\n\nname -> (buffer, dtype text, shape)."},
    {"text", gpt_text, METH_VARARGS,
     "text(index) -> (bytes, bytes, bytes)\n\nText, sequence numbers and lengths of its parts, as int64."},
    {"set_form", (PyCFunction)(void (*)(void))gpt_set_form, METH_VARARGS | METH_KEYWORDS,
     "set_form(*, pad=-1, eod=0, reset_position_ids=False, ...) -> None\n\nWhat items are made of."},
    {"layout", gpt_layout, METH_NOARGS, "layout() -> dict\n\nname -> (offset in an item's block, dtype text, shape)."},
    {"item", gpt_item, METH_O,
     "item(index) -> ItemBlock\n\nNone: the padding item. Negative numbers count from the end."},
    {"parts", gpt_parts, METH_O, "parts(index) -> tuple\n\nAs item(), a buffer for each member of layout()."},
    {"parts_of_many", core_gpt_parts_of_many, METH_O,
     "parts_of_many(indices) -> tuple\n\nAs parts(), of all these items: a member of all of them is one buffer."},
    {"set_tensors", core_gpt_set_tensors, METH_VARARGS,
     "set_tensors(exchange, constants) -> None\n\nThe type's __dlpack_c_exchange_api__, and members that all items "
     "have."},
    {"tensors", core_gpt_tensors, METH_O,
     "tensors(index) -> dict\n\nAn item, name -> tensor; its number as for item()."},
    {"tensors_of_many", core_gpt_tensors_of_many, METH_O,
     "tensors_of_many(indices) -> list[dict]\n\nItems on one block of memory."},
    {"batch", gpt_batch, METH_VARARGS, "batch(indices, out) -> None\n\nFill writable buffers, name -> buffer."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot gpt_slots[] = {
    {Py_tp_new, gpt_new},
    {Py_tp_dealloc, gpt_dealloc},
    {Py_tp_methods, gpt_methods},
    {0, NULL},
};

static PyType_Spec gpt_spec = {
    .name = "stoker._core.GptDataset",
    .basicsize = sizeof(struct gpt_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = gpt_slots,
};

int core_gpt_init(PyObject *module)
{
    gpt_type = core_add_type(module, "GptDataset", &gpt_spec);
    if (gpt_type == NULL || core_block_init(module) < 0 || core_index_init(module) < 0) {
        return -1;
    }
    return core_blend_init(module);
}
