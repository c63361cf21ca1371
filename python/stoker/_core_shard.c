/* SPDX-License-Identifier: Apache-2.0
 *
 * Tar shards for Python: members and samples by position and by name, and their bytes.
 */
#include "_core_object.h"
#include "_core_shard.h"

#include <stoker/shard.h>

struct shard_object {
    PyObject_HEAD stoker_shard *shard;
};

static const stoker_shard *handle(PyObject *self) { return ((struct shard_object *)self)->shard; }

static PyObject *shard_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"location", "duplicates", "index", "index_path", "object", NULL};
    PyObject *location = NULL, *index_path = Py_None, *index_text = NULL, *mapping = Py_None, *keep = NULL;
    PyObject *self = NULL;
    stoker_shard_options options = STOKER_SHARD_OPTIONS_INIT;
    stoker_object_options object = STOKER_OBJECT_OPTIONS_INIT;
    stoker_shard *shard = NULL;
    stoker_error err = {0};
    stoker_status status;
    int duplicates = 0, index = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|iiOO", names, PyUnicode_FSConverter, &location, &duplicates,
                                     &index, &index_path, &mapping)) {
        return NULL;
    }
    if ((index_path != Py_None && !PyUnicode_FSConverter(index_path, &index_text)) ||
        (mapping != Py_None && core_object_options(mapping, &object, &keep) < 0)) {
        goto done;
    }
    options.duplicates = (stoker_shard_duplicates)duplicates;
    options.index = (stoker_shard_index)index;
    options.index_path = index_text != NULL ? PyBytes_AsString(index_text) : NULL;
    options.object = mapping != Py_None ? &object : NULL;
    const char *text = PyBytes_AsString(location);
    Py_BEGIN_ALLOW_THREADS
    status = stoker_shard_open(text, &options, &shard, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        core_raise(status, &err, NULL, 0);
        goto done;
    }
    self = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) {
        stoker_shard_close(shard);
    } else {
        ((struct shard_object *)self)->shard = shard;
    }
done:
    Py_XDECREF(keep);
    Py_XDECREF(index_text);
    Py_DECREF(location);
    return self;
}

static void shard_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    stoker_shard_close(((struct shard_object *)self)->shard);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *shard_facts(PyObject *self, PyObject *unused)
{
    (void)unused;
    stoker_shard_facts facts;
    stoker_shard_get_facts(handle(self), &facts);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:L,s:N,s:N}", "members", (unsigned long long)facts.members, "samples",
                         (unsigned long long)facts.samples, "dropped", (unsigned long long)facts.dropped, "bytes",
                         (unsigned long long)facts.bytes, "mtime_ns", (long long)facts.mtime_ns, "from_index",
                         PyBool_FromLong(facts.from_index != 0), "written", PyBool_FromLong(facts.written != 0));
}

static PyObject *shard_member(PyObject *self, PyObject *args)
{
    unsigned long long index;
    stoker_shard_member member;
    stoker_error err = {0};
    if (!PyArg_ParseTuple(args, "O&", CORE_NUMBER("index", index))) {
        return NULL;
    }
    stoker_status status = stoker_shard_get_member(handle(self), index, &member, &err);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    return Py_BuildValue("{s:N,s:N,s:N,s:K,s:K,s:K}", "name", PyUnicode_DecodeFSDefault(member.name), "key",
                         PyUnicode_DecodeFSDefaultAndSize(member.name, (Py_ssize_t)member.key_size), "extension",
                         PyUnicode_DecodeFSDefault(member.extension), "offset", (unsigned long long)member.offset,
                         "size", (unsigned long long)member.size, "sample", (unsigned long long)member.sample);
}

static PyObject *shard_find(PyObject *self, PyObject *args)
{
    PyObject *name = NULL;
    uint64_t index = 0;
    stoker_error err = {0};
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &name)) {
        return NULL;
    }
    stoker_status status = stoker_shard_find(handle(self), PyBytes_AsString(name), &index, &err);
    Py_DECREF(name);
    return status < 0 ? core_raise(status, &err, NULL, 0) : PyLong_FromUnsignedLongLong(index);
}

static PyObject *shard_sample(PyObject *self, PyObject *args)
{
    unsigned long long index;
    stoker_shard_sample sample;
    stoker_error err = {0};
    if (!PyArg_ParseTuple(args, "O&", CORE_NUMBER("index", index))) {
        return NULL;
    }
    stoker_status status = stoker_shard_get_sample(handle(self), index, &sample, &err);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    PyObject *members = PyTuple_New((Py_ssize_t)sample.member_count);
    for (uint64_t i = 0; members != NULL && i < sample.member_count; i++) {
        PyObject *number = PyLong_FromUnsignedLong(sample.members[i]);
        if (number == NULL || PyTuple_SetItem(members, (Py_ssize_t)i, number) < 0) {
            Py_CLEAR(members);
        }
    }
    if (members == NULL) {
        return NULL;
    }
    return Py_BuildValue("(NN)", PyUnicode_DecodeFSDefaultAndSize(sample.key, (Py_ssize_t)sample.key_size), members);
}

static PyObject *shard_read(PyObject *self, PyObject *args)
{
    unsigned long long index;
    stoker_shard_member member;
    stoker_error err = {0};
    if (!PyArg_ParseTuple(args, "O&", CORE_NUMBER("index", index))) {
        return NULL;
    }
    stoker_status status = stoker_shard_get_member(handle(self), index, &member, &err);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)member.size);
    if (bytes == NULL) {
        return NULL;
    }
    char *data = PyBytes_AsString(bytes);
    Py_BEGIN_ALLOW_THREADS
    status = stoker_shard_read(handle(self), index, data, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        Py_DECREF(bytes);
        return core_raise(status, &err, NULL, 0);
    }
    return bytes;
}

int core_shard_init(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"facts", shard_facts, METH_NOARGS, "facts() -> dict\n\nCounts and sizes."},
        {"member", shard_member, METH_VARARGS, "member(index) -> dict\n\nOne member, by its position in the archive."},
        {"find", shard_find, METH_VARARGS, "find(name) -> int\n\nPosition of a member."},
        {"sample", shard_sample, METH_VARARGS,
         "sample(index) -> (key, members)\n\nOne sample: the positions of its members, sorted by extension."},
        {"read", shard_read, METH_VARARGS, "read(index) -> bytes\n\nThe data of a member."},
        {NULL, NULL, 0, NULL},
    };
    static PyType_Slot slots[] = {
        {Py_tp_doc, "A tar shard, read at random without unpacking."},
        {Py_tp_new, shard_new},
        {Py_tp_dealloc, shard_dealloc},
        {Py_tp_methods, methods},
        {0, NULL},
    };
    static PyType_Spec spec = {"stoker._core.Shard", sizeof(struct shard_object), 0, Py_TPFLAGS_DEFAULT, slots};
    return core_add_type(module, "Shard", &spec) == NULL ? -1 : 0;
}
