/* SPDX-License-Identifier: Apache-2.0
 *
 * Client and Loader: blocking calls without the interpreter lock, in slices, so that signals are seen at once.
 *
 * A client may be closed while loaders of it still exist as Python objects; each call checks for that. Close waits
 * for calls that are inside the library.
 */
#include "_core_batch.h"
#include "_core_log.h"
#include "_core_media.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct client_object {
    PyObject_HEAD stoker_client *client; /* NULL once closed */
    struct core_log *log;
    int busy; /* calls inside the library; guarded by the interpreter lock, as is `closing` */
    int closing;
    pid_t pid; /* a forked child frees nothing: the handles are its parent's (rule A9) */
};

struct loader_object {
    PyObject_HEAD struct client_object *owner;
    stoker_loader *loader; /* NULL once closed */
    int busy;
};

static PyTypeObject *client_type, *loader_type;

/* ---------------------------------------------------------------------------------------------------------- client */

static PyObject *client_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"job_key",          "program",         "shm_dir",   "rank",   "world_size", "local_rank",
                            "local_world_size", "connect_timeout", "log_level", "policy", NULL};
    const char *job_key = NULL;
    PyObject *program = NULL, *shm_dir = NULL, *timeout = NULL;
    stoker_client_options options = STOKER_CLIENT_OPTIONS_INIT;
    options.world_size = options.local_world_size = 1;
    int log_level = STOKER_LOG_WARN;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "|zOOO&O&O&O&Oiz", names, &job_key, &program, &shm_dir, CORE_NUMBER("rank", options.rank),
            CORE_NUMBER("world_size", options.world_size), CORE_NUMBER("local_rank", options.local_rank),
            CORE_NUMBER("local_world_size", options.local_world_size), &timeout, &log_level, &options.policy)) {
        return NULL;
    }
    PyObject *program_bytes = NULL, *shm_bytes = NULL;
    if ((program != NULL && program != Py_None && !PyUnicode_FSConverter(program, &program_bytes)) ||
        (shm_dir != NULL && shm_dir != Py_None && !PyUnicode_FSConverter(shm_dir, &shm_bytes))) {
        Py_XDECREF(program_bytes);
        return NULL;
    }
    struct client_object *self = (struct client_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL || core_duration(timeout, &options.connect_timeout_ns) < 0) {
        goto fail;
    }
    self->log = core_log_create();
    if (self->log == NULL) {
        PyErr_NoMemory();
        goto fail;
    }
    if (options.connect_timeout_ns == UINT64_MAX) {
        options.connect_timeout_ns = 0; /* the documented default */
    }
    options.job_key = job_key;
    options.program = program_bytes != NULL ? PyBytes_AsString(program_bytes) : NULL;
    options.shm_dir = shm_bytes != NULL ? PyBytes_AsString(shm_bytes) : NULL;
    options.log_fn = core_log_take;
    options.log_user = self->log;
    options.log_level = (stoker_log_level)log_level;
    stoker_client *client = NULL;
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_client_open(&options, &client, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        core_raise(status, &err, NULL, 0);
        goto fail;
    }
    self->client = client;
    self->pid = getpid();
    Py_XDECREF(program_bytes);
    Py_XDECREF(shm_bytes);
    return (PyObject *)self;

fail:
    Py_XDECREF(program_bytes);
    Py_XDECREF(shm_bytes);
    Py_XDECREF((PyObject *)self);
    return NULL;
}

/* Enters the library: the handle cannot be freed until client_leave(). NULL with an exception if it is closed. */
static stoker_client *client_enter(struct client_object *self)
{
    if (self->client == NULL || self->closing) {
        core_raise_closed("client");
        return NULL;
    }
    self->busy++;
    return self->client;
}

static void client_leave(struct client_object *self) { self->busy--; }

/* Other threads see `closing` at their next slice. A wait of a slice at a time needs no condition variable. */
static void wait_idle(const int *busy)
{
    while (*busy > 0) {
        Py_BEGIN_ALLOW_THREADS
        PyThread_type_lock lock = PyThread_allocate_lock();
        if (lock != NULL) {
            (void)PyThread_acquire_lock(lock, NOWAIT_LOCK);
            (void)PyThread_acquire_lock_timed(lock, 1000, 0);
            PyThread_release_lock(lock);
            PyThread_free_lock(lock);
        }
        Py_END_ALLOW_THREADS
    }
}

static PyObject *client_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct client_object *self = (struct client_object *)object;
    if (self->client != NULL && !self->closing && self->pid == getpid()) {
        self->closing = 1;
        wait_idle(&self->busy);
        stoker_client *client = self->client;
        self->client = NULL;
        Py_BEGIN_ALLOW_THREADS
        stoker_client_close(client);
        Py_END_ALLOW_THREADS
    }
    return Py_NewRef(Py_None);
}

static void client_dealloc(PyObject *object)
{
    struct client_object *self = (struct client_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    stoker_client *client = self->client;
    if (client != NULL && self->pid == getpid()) {
        Py_BEGIN_ALLOW_THREADS
        stoker_client_close(client);
        Py_END_ALLOW_THREADS
    }
    core_log_destroy(self->log);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *client_status(PyObject *object, PyObject *args)
{
    struct client_object *self = (struct client_object *)object;
    PyObject *seconds = NULL;
    uint64_t timeout_ns;
    if (!PyArg_ParseTuple(args, "|O", &seconds) || core_duration(seconds, &timeout_ns) < 0) {
        return NULL;
    }
    stoker_client *client = client_enter(self);
    if (client == NULL) {
        return NULL;
    }
    char *json = NULL;
    stoker_error err = {0};
    stoker_status status;
    timeout_ns = timeout_ns == UINT64_MAX ? UINT64_C(5000000000) : timeout_ns;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_client_status(client, timeout_ns, &json, &err);
    Py_END_ALLOW_THREADS
    client_leave(self);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    PyObject *text = PyUnicode_DecodeUTF8(json, (Py_ssize_t)strlen(json), "backslashreplace");
    stoker_text_free(json);
    return text;
}

static PyObject *client_log(PyObject *object, PyObject *unused)
{
    (void)unused;
    return core_log_drain(((struct client_object *)object)->log);
}

static PyObject *client_server_pid(PyObject *object, void *unused)
{
    (void)unused;
    struct client_object *self = (struct client_object *)object;
    return self->client == NULL ? core_raise_closed("client")
                                : PyLong_FromLongLong(stoker_client_server_pid(self->client));
}

static PyObject *client_closed(PyObject *object, void *unused)
{
    (void)unused;
    struct client_object *self = (struct client_object *)object;
    return PyBool_FromLong(self->client == NULL || self->closing);
}

/* ---------------------------------------------------------------------------------------------------------- loader */

static PyObject *client_open_loader(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct client_object *self = (struct client_object *)object;
    PyObject *source_object, *quarantine = NULL;
    stoker_loader_options options = STOKER_LOADER_OPTIONS_INIT;
    if (core_loader_options(args, kwargs, &source_object, &options, &quarantine) < 0) {
        return NULL;
    }
    stoker_source *source = core_source_handle(source_object);
    struct loader_object *loader =
        source != NULL ? (struct loader_object *)((allocfunc)PyType_GetSlot(loader_type, Py_tp_alloc))(loader_type, 0)
                       : NULL;
    stoker_client *client = loader != NULL ? client_enter(self) : NULL;
    if (client == NULL) {
        Py_XDECREF((PyObject *)loader);
        Py_XDECREF(quarantine);
        return NULL;
    }
    loader->owner = (struct client_object *)Py_NewRef(object);
    stoker_error err = {0};
    stoker_status status;
    stoker_loader *handle = NULL;
    char *detail = NULL;
    size_t detail_size = 0;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_loader_open(client, source, &options, &handle, &err);
    if (status < 0) {
        stoker_client_failure(client, &detail, &detail_size);
    }
    Py_END_ALLOW_THREADS
    client_leave(self);
    Py_XDECREF(quarantine);
    if (status < 0) {
        Py_DECREF((PyObject *)loader);
        (void)core_raise(status, &err, detail, detail_size);
        stoker_text_free(detail);
        return NULL;
    }
    loader->loader = handle;
    return (PyObject *)loader;
}

static stoker_loader *loader_enter(struct loader_object *self)
{
    if (self->loader == NULL) {
        core_raise_closed("loader");
        return NULL;
    }
    if (client_enter(self->owner) == NULL) {
        return NULL;
    }
    self->busy++;
    return self->loader;
}

static void loader_leave(struct loader_object *self)
{
    self->busy--;
    client_leave(self->owner);
}

static PyObject *loader_begin(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct loader_object *self = (struct loader_object *)object;
    stoker_loader *loader = loader_enter(self);
    if (loader == NULL) {
        return NULL;
    }
    stoker_error err = {0};
    stoker_status status = stoker_loader_begin(loader, &err);
    loader_leave(self);
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

/* request(bytes, None, samples, estimate in ns, part, parts) for process sources, request(sequence of ids, sequence of
 * draws or None) for native ones. */
static PyObject *loader_request(PyObject *object, PyObject *args)
{
    struct loader_object *self = (struct loader_object *)object;
    stoker_request request = {0};
    Py_buffer payload = {0};
    uint64_t *ids = NULL, *draws = NULL;
    PyObject *what, *sequence = Py_None;
    unsigned long long estimate_ns = 0;
    if (!PyArg_ParseTuple(args, "O|OO&O&O&O&", &what, &sequence, CORE_NUMBER("samples", request.samples),
                          CORE_NUMBER("estimate_ns", estimate_ns), CORE_NUMBER("part", request.part),
                          CORE_NUMBER("parts", request.parts))) {
        return NULL;
    }
    request.estimate_ns = estimate_ns;
    if (PyObject_CheckBuffer(what)) {
        if (PyObject_GetBuffer(what, &payload, PyBUF_SIMPLE) < 0) {
            return NULL;
        }
        request.payload = payload.buf;
        request.payload_size = (size_t)payload.len;
    } else {
        size_t draw_count = 0;
        ids = core_numbers(what, "ids", &request.id_count);
        if (ids == NULL) {
            return NULL;
        }
        draws = sequence != Py_None ? core_numbers(sequence, "draws", &draw_count) : NULL;
        if (draws != NULL && draw_count != request.id_count) {
            PyErr_Format(PyExc_ValueError, "%zu draws for %zu ids", draw_count, request.id_count);
        }
        if (PyErr_Occurred() != NULL) {
            PyMem_Free(ids);
            PyMem_Free(draws);
            return NULL;
        }
        request.ids = ids;
        request.draws = draws;
    }
    stoker_error err = {0};
    stoker_status status = STOKER_OK;
    stoker_loader *loader = loader_enter(self);
    if (loader != NULL) {
        Py_BEGIN_ALLOW_THREADS
        status = stoker_loader_request(loader, &request, &err);
        Py_END_ALLOW_THREADS
        loader_leave(self);
    }
    PyMem_Free(ids);
    PyMem_Free(draws);
    if (payload.obj != NULL) {
        PyBuffer_Release(&payload);
    }
    if (loader == NULL) {
        return NULL;
    }
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

static PyObject *loader_next(PyObject *object, PyObject *args)
{
    struct loader_object *self = (struct loader_object *)object;
    PyObject *seconds = NULL;
    uint64_t left_ns;
    if (!PyArg_ParseTuple(args, "|O", &seconds) || core_duration(seconds, &left_ns) < 0) {
        return NULL;
    }
    for (;;) {
        stoker_loader *loader = loader_enter(self);
        if (loader == NULL) {
            return NULL;
        }
        stoker_batch *batch = NULL;
        stoker_error err = {0};
        stoker_status status;
        uint64_t slice_ns = left_ns < CORE_SLICE_NS ? left_ns : CORE_SLICE_NS;
        Py_BEGIN_ALLOW_THREADS
        status = stoker_loader_next(loader, slice_ns, &batch, &err);
        Py_END_ALLOW_THREADS
        if (status < 0) {
            const void *detail = NULL;
            size_t detail_size = 0;
            stoker_loader_failure(loader, &detail, &detail_size);
            core_raise(status, &err, detail, detail_size); /* copies the detail */
        }
        loader_leave(self);
        if (status < 0) {
            return NULL;
        }
        if (status == STOKER_OK) {
            return core_batch_wrap(batch);
        }
        if (status == STOKER_END) {
            return Py_NewRef(Py_None);
        }
        if (PyErr_CheckSignals() < 0) {
            return NULL;
        }
        if (left_ns != UINT64_MAX) {
            left_ns -= slice_ns;
            if (left_ns == 0) {
                PyErr_SetNone(PyExc_TimeoutError);
                return NULL;
            }
        }
    }
}

static PyObject *loader_stats(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct loader_object *self = (struct loader_object *)object;
    stoker_loader *loader = loader_enter(self);
    if (loader == NULL) {
        return NULL;
    }
    stoker_loader_stats stats = {0};
    stoker_loader_read_stats(loader, &stats);
    loader_leave(self);
    return Py_BuildValue("{s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "batches", (unsigned long long)stats.batches, "failures",
                         (unsigned long long)stats.failures, "samples_skipped",
                         (unsigned long long)stats.samples_skipped, "copies", (unsigned long long)stats.copies,
                         "tasks_retried", (unsigned long long)stats.tasks_retried, "last_wait_ns",
                         (unsigned long long)stats.last_wait_ns, "last_ready_ns",
                         (unsigned long long)stats.last_ready_ns, "bytes_held", (unsigned long long)stats.bytes_held);
}

static PyObject *loader_quarantine(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct loader_object *self = (struct loader_object *)object;
    stoker_loader *loader = loader_enter(self);
    if (loader == NULL) {
        return NULL;
    }
    char digest[STOKER_DIGEST_HEX_BYTES];
    uint64_t count = 0;
    stoker_loader_quarantine(loader, digest, &count);
    loader_leave(self);
    return Py_BuildValue("(sK)", digest, (unsigned long long)count);
}

static PyObject *loader_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct loader_object *self = (struct loader_object *)object;
    stoker_loader *loader = self->loader;
    self->loader = NULL; /* other threads see it at their next slice */
    if (loader != NULL && self->owner->pid == getpid()) {
        wait_idle(&self->busy);
        self->owner->busy++; /* a close of the client waits for this one */
        Py_BEGIN_ALLOW_THREADS
        stoker_loader_close(loader); /* after the client's it only frees the handle */
        Py_END_ALLOW_THREADS
        self->owner->busy--;
    }
    return Py_NewRef(Py_None);
}

static void loader_dealloc(PyObject *object)
{
    struct loader_object *self = (struct loader_object *)object;
    PyTypeObject *type = Py_TYPE(object);
    Py_XDECREF(loader_close(object, NULL));
    Py_XDECREF((PyObject *)self->owner);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyMethodDef client_methods[] = {
    {"open_loader", (PyCFunction)(void (*)(void))client_open_loader, METH_VARARGS | METH_KEYWORDS,
     "open_loader(source, num_workers=1, ...) -> Loader"},
    {"status", client_status, METH_VARARGS, "status(timeout=5.0) -> str\n\nState of the DataServer as JSON."},
    {"drain_log", client_log, METH_NOARGS, "drain_log() -> list of (level, id, text, lost before it)"},
    {"close", client_close, METH_NOARGS, "close() -> None\n\nLeave the job; batches stay valid."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef client_properties[] = {
    {"server_pid", client_server_pid, NULL, "Process id of the DataServer.", NULL},
    {"closed", client_closed, NULL, "True once closed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot client_slots[] = {
    {Py_tp_new, client_new},
    {Py_tp_dealloc, client_dealloc},
    {Py_tp_methods, client_methods},
    {Py_tp_getset, client_properties},
    {Py_tp_doc, "A rank's connection to its host's DataServer; starts one if none answers."},
    {0, NULL},
};

static PyType_Spec client_spec = {.name = "stoker._core.Client",
                                  .basicsize = sizeof(struct client_object),
                                  .flags = Py_TPFLAGS_DEFAULT,
                                  .slots = client_slots};

static PyMethodDef loader_methods[] = {
    {"begin", loader_begin, METH_NOARGS, "begin() -> None\n\nBegin an iteration; outstanding requests are cancelled."},
    {"request", loader_request, METH_VARARGS,
     "request(payload or ids, draws=None, samples=0, estimate_ns=0, part=0, parts=1) -> None\n\nAsk for a batch; never "
     "waits for it."},
    {"next", loader_next, METH_VARARGS,
     "next(timeout=None) -> Batch or None\n\nThe next batch; None when nothing is outstanding; TimeoutError."},
    {"stats", loader_stats, METH_NOARGS, "stats() -> dict\n\nCounters since the loader was opened."},
    {"quarantine", loader_quarantine, METH_NOARGS,
     "quarantine() -> (digest, entries)\n\nWhat its list leaves out; an empty digest without one."},
    {"close", loader_close, METH_NOARGS, "close() -> None\n\nOutstanding requests are cancelled; batches stay valid."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot loader_slots[] = {
    {Py_tp_dealloc, loader_dealloc},
    {Py_tp_methods, loader_methods},
    {0, NULL},
};

static PyType_Spec loader_spec = {.name = "stoker._core.Loader",
                                  .basicsize = sizeof(struct loader_object),
                                  .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                  .slots = loader_slots};

stoker_loader *core_loader_enter(PyObject *object)
{
    if (PyObject_TypeCheck(object, loader_type)) {
        return loader_enter((struct loader_object *)object);
    }
    PyErr_SetString(PyExc_TypeError, "a Loader was expected");
    return NULL;
}

void core_loader_leave(PyObject *object) { loader_leave((struct loader_object *)object); }

int core_loader_init(PyObject *module)
{
    client_type = core_add_type(module, "Client", &client_spec);
    loader_type = client_type != NULL ? core_add_type(module, "Loader", &loader_spec) : NULL;
    return loader_type == NULL ? -1 : core_batch_init(module);
}
