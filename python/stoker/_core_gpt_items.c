/* SPDX-License-Identifier: Apache-2.0
 *
 * Items of a GptDataset as dicts of tensors, and many at once. All members of what is made in a call lie in one memory,
 * which lives as long as any of them.
 */
#include "_core_gpt_internal.h"

#include <string.h>

/* What is made in one call. */
struct making {
    int wanted[MEMBERS]; /* a copy: another thread may call set_form() meanwhile */
    size_t offset[MEMBERS], size;
    size_t tensors; /* of an item */
    stoker_gpt_form form;
    int64_t *indices;
    size_t count;
};

/* ------------------------------------------------------------------------------------------------------------- many */

/* All but the indices. */
static int plan(const struct gpt_object *self, size_t count, struct making *out)
{
    *out = (struct making){.form = self->form, .count = count};
    for (int i = 0; i < MEMBERS; i++) {
        size_t one = self->wanted[i] ? (size_t)core_gpt_member_count(self, i) * core_gpt_members[i].item_bytes : 0, all;
        out->wanted[i] = self->wanted[i];
        out->tensors += self->wanted[i] != 0;
        out->offset[i] = out->size;
        if (__builtin_mul_overflow(one, count, &all) || all > SIZE_MAX / 16) {
            PyErr_NoMemory();
            return -1;
        }
        out->size += (all + CORE_BLOCK_ALIGNMENT - 1) / CORE_BLOCK_ALIGNMENT * CORE_BLOCK_ALIGNMENT;
    }
    return 0;
}

/* The caller frees out->indices (PyMem), on failure too. */
static int plan_many(const struct gpt_object *self, PyObject *sequence, struct making *out)
{
    size_t count = 0;
    int64_t *indices = core_gpt_need_form(self) == 0 ? core_int64_array(sequence, &count) : NULL;
    int status = indices != NULL ? plan(self, count, out) : -1;
    out->indices = indices;
    for (size_t i = 0; indices != NULL && i < count; i++) {
        indices[i] = indices[i] == INT64_MIN ? INT64_MIN + 1 : indices[i];
    }
    return status;
}

static int make_many(const struct gpt_object *self, const struct making *making, void *data)
{
    void *at[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        at[i] = making->wanted[i] ? (char *)data + making->offset[i] : NULL;
    }
    const stoker_gpt_item places = core_gpt_places(at);
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_gpt_dataset_batch(self->gpt, &making->form, making->indices, making->count, &places, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        core_raise(status, &err, NULL, 0);
        return -1;
    }
    return 0;
}

/* As parts(), of many items at once: a member of all of them is one buffer. */
PyObject *core_gpt_parts_of_many(PyObject *object, PyObject *sequence)
{
    struct gpt_object *self = (struct gpt_object *)object;
    struct making making = {.indices = NULL};
    PyObject *block = plan_many(self, sequence, &making) == 0 ? core_block_new(self->pool, making.size) : NULL;
    if (block != NULL && make_many(self, &making, core_block_data(block)) < 0) {
        Py_CLEAR(block);
    }
    PyMem_Free(making.indices);
    return block != NULL ? core_gpt_parts(self, block, making.wanted, making.offset, making.count) : NULL;
}

/* ---------------------------------------------------------------------------------------------------------- tensors */

/* Names of members as objects; a member of this kind is looked up in every item. */
static PyObject *name_of(int member)
{
    static PyObject *names[MEMBERS];
    if (names[member] == NULL) {
        names[member] = PyUnicode_InternFromString(core_gpt_members[member].name);
    }
    return names[member];
}

PyObject *core_gpt_set_tensors(PyObject *object, PyObject *args)
{
    struct gpt_object *self = (struct gpt_object *)object;
    PyObject *capsule, *constants;
    if (!PyArg_ParseTuple(args, "OO", &capsule, &constants) || core_gpt_need_form(self) < 0) {
        return NULL;
    }
    core_tensor_maker *maker = core_tensor_maker_of(capsule);
    if (maker == NULL) {
        return NULL;
    }
    for (int i = 0; i < MEMBERS; i++) {
        PyObject *value = name_of(i) != NULL ? PyObject_GetItem(constants, name_of(i)) : NULL;
        if (value == NULL && !PyErr_ExceptionMatches(PyExc_KeyError)) {
            return NULL;
        }
        PyErr_Clear();
        Py_XDECREF(self->constant[i]);
        self->constant[i] = value;
    }
    self->maker = maker;
    return Py_NewRef(Py_None);
}

static struct core_tensor_form tensor_form(const struct gpt_object *self, int member)
{
    const int64_t length = (int64_t)self->length;
    struct core_tensor_form form = {
        core_gpt_members[member].code, (uint8_t)(8 * core_gpt_members[member].item_bytes), 1, {length, 0, 0}};
    switch (member) {
    case ATTENTION_MASK: form = (struct core_tensor_form){form.code, form.bits, 3, {1, length, length}}; break;
    case CU_SEQLENS: form.shape[0] = length + 1; break;
    case MAX_SEQLEN: form.ndim = 0; break;
    default: break;
    }
    return form;
}

/* Item `row` of what was made. */
static PyObject *item_of(const struct gpt_object *self, const struct making *making, struct core_memory *memory,
                         size_t row)
{
    PyObject *item = PyDict_New();
    size_t number = row * making->tensors;
    for (int i = 0; item != NULL && i < MEMBERS; i++) {
        int status = 0;
        if (making->wanted[i]) {
            const struct core_tensor_form form = tensor_form(self, i);
            size_t bytes = (size_t)core_gpt_member_count(self, i) * core_gpt_members[i].item_bytes;
            PyObject *tensor = core_tensor_new(self->maker, memory, number++, making->offset[i] + row * bytes, &form);
            status = tensor != NULL ? PyDict_SetItem(item, name_of(i), tensor) : -1;
            Py_XDECREF(tensor);
        } else if (self->constant[i] != NULL) {
            status = PyDict_SetItem(item, name_of(i), self->constant[i]);
        }
        if (status < 0) {
            Py_CLEAR(item);
        }
    }
    return item;
}

static int need_tensors(const struct gpt_object *self)
{
    if (self->maker == NULL) {
        PyErr_SetString(PyExc_RuntimeError, "set_tensors() comes before tensors");
        return -1;
    }
    return core_gpt_need_form(self);
}

PyObject *core_gpt_tensors(PyObject *object, PyObject *index_object)
{
    struct gpt_object *self = (struct gpt_object *)object;
    struct making making;
    int64_t index;
    if (need_tensors(self) < 0 || core_gpt_index(index_object, &index) < 0 || plan(self, 1, &making) < 0) {
        return NULL;
    }
    struct core_memory *memory = core_memory_take(self->pool, making.size, making.tensors);
    if (memory == NULL) {
        return NULL;
    }
    void *at[MEMBERS];
    for (int i = 0; i < MEMBERS; i++) {
        at[i] = making.wanted[i] ? (char *)core_memory_data(memory) + making.offset[i] : NULL;
    }
    const stoker_gpt_item places = core_gpt_places(at);
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_gpt_dataset_item(self->gpt, &making.form, index, &places, &err);
    Py_END_ALLOW_THREADS
    PyObject *item = status < 0 ? core_raise(status, &err, NULL, 0) : item_of(self, &making, memory, 0);
    core_memory_drop(memory);
    return item;
}

PyObject *core_gpt_tensors_of_many(PyObject *object, PyObject *sequence)
{
    struct gpt_object *self = (struct gpt_object *)object;
    struct making making = {.indices = NULL};
    struct core_memory *memory = NULL;
    PyObject *items = NULL;
    if (need_tensors(self) == 0 && plan_many(self, sequence, &making) == 0) {
        memory = core_memory_take(self->pool, making.size, making.count * making.tensors);
    }
    if (memory != NULL && make_many(self, &making, core_memory_data(memory)) == 0) {
        items = PyList_New((Py_ssize_t)making.count);
    }
    for (size_t row = 0; items != NULL && row < making.count; row++) {
        PyObject *item = item_of(self, &making, memory, row);
        if (item == NULL || PyList_SetItem(items, (Py_ssize_t)row, item) < 0) {
            Py_CLEAR(items);
        }
    }
    if (memory != NULL) {
        core_memory_drop(memory);
    }
    PyMem_Free(making.indices);
    return items;
}
