/* SPDX-License-Identifier: Apache-2.0
 *
 * Media manifests for Python: one that is opened (Manifest), and making them. Tar shards are in _core_shard.c.
 */
#include "_core_object.h"
#include "_core_shard.h"

#include <string.h>

#include <stoker/manifest.h>

struct manifest_object {
    PyObject_HEAD stoker_manifest *manifest;
};

/* ----------------------------------------------------------------------------------------------------------- opened */

static const stoker_manifest *handle(PyObject *self) { return ((struct manifest_object *)self)->manifest; }

static PyObject *manifest_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", NULL};
    PyObject *path = NULL;
    stoker_error err = {0};
    stoker_status status;
    stoker_manifest *manifest = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&", names, PyUnicode_FSConverter, &path)) {
        return NULL;
    }
    const char *text = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    status = stoker_manifest_open(text, &manifest, &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    PyObject *self = ((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) {
        stoker_manifest_close(manifest);
        return NULL;
    }
    ((struct manifest_object *)self)->manifest = manifest;
    return self;
}

static void manifest_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    stoker_manifest_close(((struct manifest_object *)self)->manifest);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *manifest_facts(PyObject *self, PyObject *unused)
{
    (void)unused;
    stoker_manifest_facts facts;
    stoker_manifest_get_facts(handle(self), &facts);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K}", "entries", (unsigned long long)facts.entries, "bad",
                         (unsigned long long)facts.bad, "bytes", (unsigned long long)facts.bytes, "packet_bytes",
                         (unsigned long long)facts.packet_bytes, "text_bytes", (unsigned long long)facts.text_bytes,
                         "id", (unsigned long long)facts.id);
}

static Py_ssize_t manifest_length(PyObject *self)
{
    stoker_manifest_facts facts;
    stoker_manifest_get_facts(handle(self), &facts);
    return (Py_ssize_t)facts.entries;
}

/* "shard::member" or the path, as it can be opened; a new str. */
static PyObject *name_of(PyObject *self, uint64_t index, const char *member)
{
    char text[2 * 4096 + 3];
    stoker_error err = {0};
    stoker_status status = stoker_manifest_get_path(handle(self), index, text, 4096, &err);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    if (member != NULL) {
        size_t used = strlen(text);
        (void)PyOS_snprintf(text + used, sizeof text - used, "::%s", member);
    }
    return PyUnicode_DecodeFSDefault(text);
}

static PyObject *text_or_none(const char *text)
{
    return text != NULL ? PyUnicode_DecodeFSDefault(text) : Py_NewRef(Py_None);
}

static PyObject *manifest_entry(PyObject *self, PyObject *args)
{
    unsigned long long index;
    stoker_manifest_entry entry;
    stoker_error err = {0};
    if (!PyArg_ParseTuple(args, "O&", CORE_NUMBER("index", index))) {
        return NULL;
    }
    stoker_status status = stoker_manifest_get_entry(handle(self), index, &entry, &err);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    PyObject *path = name_of(self, index, NULL);
    if (path == NULL) {
        return NULL;
    }
    PyObject *exact =
        entry.frames_exact == STOKER_FRAMES_UNKNOWN ? Py_NewRef(Py_None) : PyLong_FromLongLong(entry.frames_exact);
    return Py_BuildValue("{s:N,s:N,s:N,s:I,s:I,s:i,s:K,s:N,s:d,s:d,s:d,s:K,s:L,s:K,s:K,s:K,s:K,s:N}", "path", path,
                         "member", text_or_none(entry.member), "codec", text_or_none(entry.codec), "width", entry.width,
                         "height", entry.height, "rotation", (int)entry.rotation, "frames",
                         (unsigned long long)entry.frames, "frames_exact", exact, "duration_s", entry.duration_s,
                         "frame_rate", entry.frame_rate, "time_base", entry.time_base, "bytes",
                         (unsigned long long)entry.bytes, "mtime_ns", (long long)entry.mtime_ns, "offset",
                         (unsigned long long)entry.offset, "packets", (unsigned long long)entry.packets, "key_packets",
                         (unsigned long long)entry.key_packets, "packet_bytes", (unsigned long long)entry.packet_bytes,
                         "error", text_or_none(entry.error));
}

static PyObject *manifest_packets(PyObject *self, PyObject *args)
{
    unsigned long long index;
    stoker_manifest_entry entry;
    stoker_error err = {0};
    if (!PyArg_ParseTuple(args, "O&", CORE_NUMBER("index", index))) {
        return NULL;
    }
    stoker_status status = stoker_manifest_get_entry(handle(self), index, &entry, &err);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)(entry.packets * sizeof(stoker_packet)));
    if (bytes == NULL) {
        return NULL;
    }
    stoker_packet *packets = (stoker_packet *)(void *)PyBytes_AsString(bytes);
    Py_BEGIN_ALLOW_THREADS
    status = stoker_manifest_get_packets(handle(self), index, packets, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        Py_DECREF(bytes);
        return core_raise(status, &err, NULL, 0);
    }
    return bytes;
}

static PyObject *manifest_paths(PyObject *self, PyObject *unused)
{
    (void)unused;
    PyObject *list = PyList_New(0);
    Py_ssize_t count = manifest_length(self);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        stoker_manifest_entry entry;
        if (stoker_manifest_get_entry(handle(self), (uint64_t)i, &entry, NULL) < 0 || entry.error != NULL) {
            continue;
        }
        PyObject *name = name_of(self, (uint64_t)i, entry.member);
        if (name == NULL || PyList_Append(list, name) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(name);
    }
    return list;
}

/* ----------------------------------------------------------------------------------------------------------- making */

struct reporter {
    PyObject *function;                 /* borrowed; None: nobody wants to know */
    PyObject *type, *value, *traceback; /* what it raised */
};

/* Comes from any of the threads; Ctrl-C is seen on Python's own. */
static stoker_status report(void *user, const stoker_manifest_progress *progress, stoker_error *err)
{
    struct reporter *reporter = user;
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *result = NULL;
    if (PyErr_CheckSignals() == 0) {
        result = reporter->function == Py_None
                     ? Py_NewRef(Py_None)
                     : PyObject_CallFunction(reporter->function, "KKKKK", (unsigned long long)progress->done,
                                             (unsigned long long)progress->total, (unsigned long long)progress->kept,
                                             (unsigned long long)progress->resumed, (unsigned long long)progress->bad);
    }
    int failed = result == NULL;
    if (failed && reporter->type == NULL) {
        PyErr_Fetch(&reporter->type, &reporter->value, &reporter->traceback);
    } else if (failed) {
        PyErr_Clear();
    }
    Py_XDECREF(result);
    PyGILState_Release(state);
    if (failed) {
        err->status = STOKER_ERR_CANCELED;
        return STOKER_ERR_CANCELED;
    }
    return STOKER_OK;
}

/* Options of object storage of a mapping or None; NULL in *out where there are none. */
static int take_object(PyObject *mapping, stoker_object_options *options, const stoker_object_options **out,
                       PyObject **out_keep)
{
    *out = NULL;
    *out_keep = NULL;
    if (mapping == Py_None) {
        return 0;
    }
    if (core_object_options(mapping, options, out_keep) < 0) {
        return -1;
    }
    *out = options;
    return 0;
}

static PyObject *manifest_build(PyObject *module, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"path", "sources", "jobs", "exact", "fresh", "progress", "object", NULL};
    PyObject *path = NULL, *sources = NULL, *mapping = Py_None, *keep = NULL, *keep_object = NULL, *result = NULL;
    struct reporter reporter = {Py_None, NULL, NULL, NULL};
    stoker_manifest_build_options options = STOKER_MANIFEST_BUILD_OPTIONS_INIT;
    stoker_object_options object = STOKER_OBJECT_OPTIONS_INIT;
    stoker_manifest_progress progress;
    stoker_error err = {0};
    int exact = 0, fresh = 0;
    Py_ssize_t count = 0;
    (void)module;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O|$O&ppOO", names, PyUnicode_FSConverter, &path, &sources,
                                     CORE_NUMBER("jobs", options.jobs), &exact, &fresh, &reporter.function, &mapping)) {
        return NULL;
    }
    const char **texts = core_texts(sources, &keep, &count);
    if (texts != NULL && take_object(mapping, &object, &options.object, &keep_object) == 0) {
        const stoker_manifest_sources list = {texts, (size_t)count};
        const char *text = PyBytes_AsString(path);
        stoker_status status;
        options.exact = (uint32_t)exact;
        options.fresh = (uint32_t)fresh;
        options.progress_fn = report;
        options.progress_user = &reporter;
        Py_BEGIN_ALLOW_THREADS
        status = stoker_manifest_build(text, &list, &options, &progress, &err);
        Py_END_ALLOW_THREADS
        if (reporter.type != NULL) {
            PyErr_Restore(reporter.type, reporter.value, reporter.traceback);
        } else if (status < 0) {
            core_raise(status, &err, NULL, 0);
        } else {
            result = Py_BuildValue("{s:K,s:K,s:K,s:K}", "entries", (unsigned long long)progress.total, "bad",
                                   (unsigned long long)progress.bad, "kept", (unsigned long long)progress.kept,
                                   "resumed", (unsigned long long)progress.resumed);
        }
    }
    PyMem_Free(texts);
    Py_XDECREF(keep);
    Py_XDECREF(keep_object);
    Py_DECREF(path);
    return result;
}

static PyObject *manifest_merge(PyObject *module, PyObject *args)
{
    PyObject *path = NULL, *manifests = NULL, *keep = NULL;
    stoker_error err = {0};
    stoker_status status;
    Py_ssize_t count = 0;
    (void)module;
    if (!PyArg_ParseTuple(args, "O&O", PyUnicode_FSConverter, &path, &manifests)) {
        return NULL;
    }
    const char **texts = core_texts(manifests, &keep, &count);
    if (texts == NULL) {
        Py_DECREF(path);
        return NULL;
    }
    const stoker_manifest_sources list = {texts, (size_t)count};
    const char *text = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    status = stoker_manifest_merge(text, &list, &err);
    Py_END_ALLOW_THREADS
    PyMem_Free(texts);
    Py_DECREF(keep);
    Py_DECREF(path);
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

/* On the calling thread, which does not hold the interpreter's lock. */
static void take_fault(void *user, uint64_t index, const char *message)
{
    PyGILState_STATE state = PyGILState_Ensure();
    PyObject *pair = Py_BuildValue("(KN)", (unsigned long long)index, PyUnicode_DecodeFSDefault(message));
    if (pair == NULL || PyList_Append(user, pair) < 0) {
        PyErr_Clear(); /* without memory the list is short; the count says so */
    }
    Py_XDECREF(pair);
    PyGILState_Release(state);
}

static PyObject *manifest_verify(PyObject *self, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"depth", "jobs", "object", NULL};
    PyObject *mapping = Py_None, *keep = NULL, *faults = NULL;
    stoker_manifest_verify_options options = STOKER_MANIFEST_VERIFY_OPTIONS_INIT;
    stoker_object_options object = STOKER_OBJECT_OPTIONS_INIT;
    stoker_error err = {0};
    stoker_status status;
    uint64_t count = 0;
    int depth = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|iO&O", names, &depth, CORE_NUMBER("jobs", options.jobs),
                                     &mapping) ||
        take_object(mapping, &object, &options.object, &keep) < 0) {
        return NULL;
    }
    faults = PyList_New(0);
    if (faults != NULL) {
        options.depth = (stoker_manifest_depth)depth;
        options.fault_fn = take_fault;
        options.fault_user = faults;
        Py_BEGIN_ALLOW_THREADS
        status = stoker_manifest_verify(handle(self), &options, &count, &err);
        Py_END_ALLOW_THREADS
        if (status < 0) {
            Py_CLEAR(faults);
            core_raise(status, &err, NULL, 0);
        } else if ((uint64_t)PyList_Size(faults) != count) {
            Py_CLEAR(faults);
            PyErr_NoMemory();
        }
    }
    Py_XDECREF(keep);
    return faults;
}

int core_manifest_init(PyObject *module)
{
    static PyMethodDef methods[] = {
        {"facts", manifest_facts, METH_NOARGS, "facts() -> dict\n\nCounts and sizes."},
        {"entry", manifest_entry, METH_VARARGS, "entry(index) -> dict\n\nWhat is known of one file."},
        {"packets", manifest_packets, METH_VARARGS,
         "packets(index) -> bytes\n\nPackets in decode order: int64 pts, int64 dts, uint32 size, uint32 flags each."},
        {"paths", manifest_paths, METH_NOARGS,
         "paths() -> list\n\nFiles that can be used, members as 'shard::member'."},
        {"verify", (PyCFunction)(void (*)(void))manifest_verify, METH_VARARGS | METH_KEYWORDS,
         "verify(depth=0, jobs=0, object=None) -> list of (index, message)"},
        {NULL, NULL, 0, NULL},
    };
    static PyType_Slot slots[] = {
        {Py_tp_doc, "A media manifest."}, {Py_tp_new, manifest_new},       {Py_tp_dealloc, manifest_dealloc},
        {Py_tp_methods, methods},         {Py_sq_length, manifest_length}, {0, NULL},
    };
    static PyType_Spec spec = {"stoker._core.Manifest", sizeof(struct manifest_object), 0, Py_TPFLAGS_DEFAULT, slots};
    static PyMethodDef functions[] = {
        {"manifest_build", (PyCFunction)(void (*)(void))manifest_build, METH_VARARGS | METH_KEYWORDS,
         "manifest_build(path, sources, *, jobs=0, exact=False, fresh=False, progress=None, object=None) -> dict"},
        {"manifest_merge", manifest_merge, METH_VARARGS, "manifest_merge(path, manifests)"},
        {NULL, NULL, 0, NULL},
    };
    return core_add_type(module, "Manifest", &spec) == NULL || PyModule_AddFunctions(module, functions) < 0
               ? -1
               : core_shard_init(module);
}
