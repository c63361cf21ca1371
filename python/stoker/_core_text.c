/* SPDX-License-Identifier: Apache-2.0
 *
 * Text for Python: stoker.h's text encoder. Unknown pieces go out as a list of str, their ids come back as a list of
 * lists; blocks and tokens are bytes.
 */
#include "_core_text.h"

#include <string.h>

typedef struct {
    PyObject_HEAD stoker_text_encoder *encoder;
    Py_buffer block; /* of the round at hand */
    size_t unknown;
    size_t token_bytes;
} encoder_object;

static void block_release(encoder_object *self)
{
    if (self->block.obj != NULL) {
        PyBuffer_Release(&self->block);
    }
    memset(&self->block, 0, sizeof self->block);
}

static void encoder_dealloc(PyObject *object)
{
    encoder_object *self = (encoder_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    stoker_text_encoder_destroy(self->encoder);
    block_release(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

/* Ids of a list of int as private memory (PyMem_Free); NULL with an exception set. */
static int32_t *ids_of(PyObject *list, size_t *out_count)
{
    if (!PyList_Check(list)) {
        PyErr_SetString(PyExc_TypeError, "ids are a list of int");
        return NULL;
    }
    Py_ssize_t count = PyList_Size(list);
    int32_t *ids = PyMem_Malloc(((size_t)count + 1) * sizeof *ids);
    if (ids == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        long value = PyLong_AsLong(PyList_GetItem(list, i));
        if (value < INT32_MIN || value > INT32_MAX || (value == -1 && PyErr_Occurred() != NULL)) {
            if (PyErr_Occurred() == NULL) {
                PyErr_Format(PyExc_OverflowError, "id %ld is beyond 32 bits", value);
            }
            PyMem_Free(ids);
            return NULL;
        }
        ids[i] = (int32_t)value;
    }
    *out_count = (size_t)count;
    return ids;
}

static PyObject *encoder_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"keys",   "rule",   "wide",  "id_limit",    "eod",
                            "prefix", "suffix", "guard", "cache_bytes", NULL};
    PyObject *keys = NULL, *prefix = NULL, *suffix = NULL;
    stoker_text_options options = STOKER_TEXT_OPTIONS_INIT;
    int rule = 0, wide = 0;
    long long id_limit = 0, eod = -1;
    const char *guard = "";
    Py_ssize_t guard_size = 0, cache_bytes = 0, key_count = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|ipLLO!O!y#n", names, &keys, &rule, &wide, &id_limit, &eod,
                                     &PyList_Type, &prefix, &PyList_Type, &suffix, &guard, &guard_size, &cache_bytes)) {
        return NULL;
    }
    encoder_object *self = NULL;
    int32_t *before = NULL, *after = NULL;
    PyObject *keep = NULL;
    const char **texts = core_texts(keys, &keep, &key_count);
    if (texts == NULL || (prefix != NULL && (before = ids_of(prefix, &options.prefix_count)) == NULL) ||
        (suffix != NULL && (after = ids_of(suffix, &options.suffix_count)) == NULL)) {
        goto done;
    }
    options.rule = (stoker_text_rule)rule;
    options.keys = texts;
    options.key_count = (size_t)key_count;
    options.wide = wide;
    options.id_limit = id_limit;
    options.eod = eod;
    options.prefix = before;
    options.suffix = after;
    options.guard = guard;
    options.guard_count = (size_t)guard_size;
    options.cache_bytes = cache_bytes > 0 ? (size_t)cache_bytes : 0;
    allocfunc allocate = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    self = (encoder_object *)allocate(type, 0);
    stoker_error err = {0};
    if (self != NULL) {
        self->token_bytes = wide ? sizeof(int32_t) : sizeof(uint16_t);
        stoker_status status = stoker_text_encoder_create(&options, &self->encoder, &err);
        if (status < 0) {
            Py_DECREF(self);
            self = NULL;
            core_raise(status, &err, NULL, 0);
        }
    }
done:
    PyMem_Free(before);
    PyMem_Free(after);
    PyMem_Free(texts);
    Py_XDECREF(keep);
    return (PyObject *)self;
}

static PyObject *faults_list(const stoker_text_facts *facts)
{
    PyObject *list = PyList_New(0);
    for (uint64_t i = 0; list != NULL && i < facts->fault_count && i < STOKER_TEXT_FAULTS_MAX; i++) {
        const stoker_text_fault *fault = &facts->faults[i];
        PyObject *item = Py_BuildValue("(KKKsL)", (unsigned long long)fault->line, (unsigned long long)fault->begin,
                                       (unsigned long long)fault->offset, fault->cause, (long long)fault->key);
        if (item == NULL || PyList_Append(list, item) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *encoder_feed(PyObject *object, PyObject *block)
{
    encoder_object *self = (encoder_object *)object;
    Py_buffer view;
    if (PyObject_GetBuffer(block, &view, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    block_release(self);
    self->block = view;
    self->unknown = 0;
    stoker_text_facts facts;
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_text_encoder_feed(self->encoder, view.buf, (size_t)view.len, &facts, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    self->unknown = (size_t)facts.unknown;
    PyObject *faults = faults_list(&facts);
    if (faults == NULL) {
        return NULL;
    }
    return Py_BuildValue("(KKKN)", (unsigned long long)facts.lines, (unsigned long long)facts.documents,
                         (unsigned long long)facts.fault_count, faults);
}

static PyObject *encoder_unknown(PyObject *object, PyObject *unused)
{
    (void)unused;
    encoder_object *self = (encoder_object *)object;
    PyObject *list = PyList_New((Py_ssize_t)self->unknown);
    for (size_t i = 0; list != NULL && i < self->unknown; i++) {
        size_t size;
        const char *text = stoker_text_encoder_unknown(self->encoder, i, &size);
        PyObject *item = PyUnicode_FromStringAndSize(text, (Py_ssize_t)size);
        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *encoder_learn(PyObject *object, PyObject *list)
{
    encoder_object *self = (encoder_object *)object;
    if (!PyList_Check(list) || (size_t)PyList_Size(list) != self->unknown) {
        return PyErr_Format(PyExc_ValueError, "ids of %zu pieces are to be learned", self->unknown);
    }
    for (size_t i = 0; i < self->unknown; i++) {
        size_t count;
        int32_t *ids = ids_of(PyList_GetItem(list, (Py_ssize_t)i), &count);
        if (ids == NULL) {
            return NULL;
        }
        stoker_error err = {0};
        stoker_status status = stoker_text_encoder_learn(self->encoder, i, ids, count, &err);
        PyMem_Free(ids);
        if (status < 0) {
            return core_raise(status, &err, NULL, 0);
        }
    }
    return Py_NewRef(Py_None);
}

static PyObject *encoder_take(PyObject *object, PyObject *args)
{
    encoder_object *self = (encoder_object *)object;
    Py_ssize_t key;
    if (!PyArg_ParseTuple(args, "n", &key)) {
        return NULL;
    }
    stoker_text_tokens tokens;
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_text_encoder_take(self->encoder, (size_t)key, &tokens, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    return Py_BuildValue("(y#y#y#)", tokens.tokens != NULL ? tokens.tokens : "",
                         (Py_ssize_t)(tokens.token_count * self->token_bytes),
                         tokens.lengths != NULL ? (const char *)tokens.lengths : "",
                         (Py_ssize_t)(tokens.sequence_count * sizeof *tokens.lengths),
                         tokens.documents != NULL ? (const char *)tokens.documents : "",
                         (Py_ssize_t)(tokens.document_count * sizeof *tokens.documents));
}

static PyObject *encoder_counters(PyObject *object, PyObject *unused)
{
    (void)unused;
    stoker_text_counters counters;
    stoker_text_encoder_get_counters(((encoder_object *)object)->encoder, &counters);
    return Py_BuildValue("(KKK)", (unsigned long long)counters.pieces, (unsigned long long)counters.unknown,
                         (unsigned long long)counters.resets);
}

static PyMethodDef encoder_methods[] = {
    {"feed", encoder_feed, METH_O,
     "feed(block) -> (lines, documents, fault count, [(line, begin, offset, cause, key)])\n\n"
     "Begin a round with a block of whole lines."},
    {"unknown", encoder_unknown, METH_NOARGS, "unknown() -> list[str]\n\nPieces whose ids are to be learned."},
    {"learn", encoder_learn, METH_O, "learn(list[list[int]])\n\nTheir ids."},
    {"take", encoder_take, METH_VARARGS,
     "take(key) -> (tokens, lengths, documents)\n\nTokens of one key; lengths are int32, documents int64."},
    {"counters", encoder_counters, METH_NOARGS, "counters() -> (pieces, unknown, resets)"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot encoder_slots[] = {
    {Py_tp_new, encoder_new},
    {Py_tp_dealloc, encoder_dealloc},
    {Py_tp_methods, encoder_methods},
    {Py_tp_doc, "Text to tokens, a block of JSON lines at a time."},
    {0, NULL},
};

static PyType_Spec encoder_spec = {
    .name = "stoker._core.TextEncoder",
    .basicsize = sizeof(encoder_object),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = encoder_slots,
};

int core_text_init(PyObject *module) { return core_add_type(module, "TextEncoder", &encoder_spec) != NULL ? 0 : -1; }
