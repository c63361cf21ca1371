/* SPDX-License-Identifier: Apache-2.0
 *
 * The channels of a template and of a worker (stoker/worker.h) as Python objects.
 *
 * A Slab is memory of the current task: it may not be touched after done() or fail(). The worker's Python code keeps
 * that rule by detaching whatever a dataset kept (see worker.py).
 */
#include "_core.h"

struct template_object {
    PyObject_HEAD stoker_template_channel *channel;
};

struct worker_object {
    PyObject_HEAD stoker_worker_channel *channel;
};

struct slab_object {
    PyObject_HEAD void *data;
    size_t size;
};

static PyTypeObject *slab_type;

static PyObject *slab_wrap(void *data, size_t size)
{
    if (data == NULL) {
        return Py_NewRef(Py_None);
    }
    struct slab_object *self = (struct slab_object *)((allocfunc)PyType_GetSlot(slab_type, Py_tp_alloc))(slab_type, 0);
    if (self != NULL) {
        self->data = data;
        self->size = size;
    }
    return (PyObject *)self;
}

static int slab_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    struct slab_object *self = (struct slab_object *)object;
    return PyBuffer_FillInfo(view, object, self->data, (Py_ssize_t)self->size, 0, flags);
}

static PyObject *slab_address(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromVoidPtr(((struct slab_object *)object)->data);
}

static Py_ssize_t slab_length(PyObject *object) { return (Py_ssize_t)((struct slab_object *)object)->size; }

static void plain_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

/* -------------------------------------------------------------------------------------------------------- template */

static PyObject *template_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fd", NULL};
    int fd;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i", names, &fd)) {
        return NULL;
    }
    struct template_object *self = (struct template_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) {
        return NULL;
    }
    stoker_error err = {0};
    stoker_status status = stoker_template_channel_open(fd, &self->channel, &err);
    if (status < 0) {
        Py_DECREF((PyObject *)self);
        return core_raise(status, &err, NULL, 0);
    }
    return (PyObject *)self;
}

static stoker_template_channel *template_handle(PyObject *object)
{
    stoker_template_channel *channel = ((struct template_object *)object)->channel;
    if (channel == NULL) {
        core_raise_closed("channel");
    }
    return channel;
}

static PyObject *template_report(PyObject *object, PyObject *args)
{
    stoker_template_channel *channel = template_handle(object);
    const char *message = NULL;
    Py_buffer detail = {0};
    if (channel == NULL || !PyArg_ParseTuple(args, "|zy*", &message, &detail)) {
        return NULL;
    }
    stoker_error err = {0};
    stoker_status status = stoker_template_channel_report(channel, message, detail.buf, (size_t)detail.len, &err);
    if (detail.obj != NULL) {
        PyBuffer_Release(&detail);
    }
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

/* (worker_id, fd), None at the end, or False when the time has passed. */
static PyObject *template_next(PyObject *object, PyObject *args)
{
    stoker_template_channel *channel = template_handle(object);
    PyObject *seconds = NULL;
    uint64_t timeout_ns;
    if (channel == NULL || !PyArg_ParseTuple(args, "|O", &seconds) || core_duration(seconds, &timeout_ns) < 0) {
        return NULL;
    }
    uint32_t worker_id = 0;
    int fd = -1;
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_template_channel_next(channel, timeout_ns, &worker_id, &fd, &err);
    Py_END_ALLOW_THREADS
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    if (status == STOKER_END) {
        return Py_NewRef(Py_None);
    }
    if (status == STOKER_AGAIN) {
        return Py_NewRef(Py_False);
    }
    return Py_BuildValue("(Ii)", worker_id, fd);
}

static PyObject *template_forked(PyObject *object, PyObject *args)
{
    stoker_template_channel *channel = template_handle(object);
    unsigned int worker_id;
    long long pid;
    if (channel == NULL || !PyArg_ParseTuple(args, "O&L", CORE_NUMBER("worker_id", worker_id), &pid)) {
        return NULL;
    }
    stoker_error err = {0};
    stoker_status status = stoker_template_channel_forked(channel, worker_id, pid, &err);
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

static PyObject *template_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct template_object *self = (struct template_object *)object;
    stoker_template_channel_close(self->channel);
    self->channel = NULL;
    return Py_NewRef(Py_None);
}

static void template_dealloc(PyObject *object)
{
    stoker_template_channel_close(((struct template_object *)object)->channel);
    plain_dealloc(object);
}

/* ---------------------------------------------------------------------------------------------------------- worker */

static PyObject *worker_new(PyTypeObject *type, PyObject *args, PyObject *kwargs)
{
    static char *names[] = {"fd", NULL};
    int fd;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "i", names, &fd)) {
        return NULL;
    }
    struct worker_object *self = (struct worker_object *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (self == NULL) {
        return NULL;
    }
    stoker_error err = {0};
    stoker_status status = stoker_worker_channel_open(fd, &self->channel, &err);
    if (status < 0) {
        Py_DECREF((PyObject *)self);
        return core_raise(status, &err, NULL, 0);
    }
    return (PyObject *)self;
}

static stoker_worker_channel *worker_handle(PyObject *object)
{
    stoker_worker_channel *channel = ((struct worker_object *)object)->channel;
    if (channel == NULL) {
        core_raise_closed("channel");
    }
    return channel;
}

static PyObject *worker_next(PyObject *object, PyObject *unused)
{
    (void)unused;
    stoker_worker_channel *channel = worker_handle(object);
    if (channel == NULL) {
        return NULL;
    }
    stoker_worker_task task = {0};
    stoker_error err = {0};
    stoker_status status;
    do {
        Py_BEGIN_ALLOW_THREADS
        status = stoker_worker_channel_next(channel, &task, &err);
        Py_END_ALLOW_THREADS
    } while (status == STOKER_AGAIN && PyErr_CheckSignals() == 0);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    if (status != STOKER_OK) {
        return status == STOKER_END ? Py_NewRef(Py_None) : NULL;
    }
    return Py_BuildValue("(KIy#N)", (unsigned long long)task.item_id, task.attempt, (const char *)task.payload,
                         (Py_ssize_t)task.payload_size, slab_wrap(task.slab, task.slab_size));
}

static PyObject *worker_grow(PyObject *object, PyObject *args)
{
    stoker_worker_channel *channel = worker_handle(object);
    Py_ssize_t size;
    if (channel == NULL || !PyArg_ParseTuple(args, "n", &size)) {
        return NULL;
    }
    void *slab = NULL;
    size_t slab_size = 0;
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_worker_channel_grow(channel, (size_t)size, &slab, &slab_size, &err);
    Py_END_ALLOW_THREADS
    return status < 0 ? core_raise(status, &err, NULL, 0) : slab_wrap(slab, slab_size);
}

static PyObject *worker_done(PyObject *object, PyObject *args)
{
    stoker_worker_channel *channel = worker_handle(object);
    Py_ssize_t used, offset, size;
    unsigned int skipped;
    if (channel == NULL || !PyArg_ParseTuple(args, "nnnO&", &used, &offset, &size, CORE_NUMBER("skipped", skipped))) {
        return NULL;
    }
    stoker_worker_result result = {.used = (size_t)used,
                                   .skeleton_offset = (size_t)offset,
                                   .skeleton_size = (size_t)size,
                                   .samples_skipped = skipped};
    stoker_error err = {0};
    stoker_status status = stoker_worker_channel_done(channel, &result, &err);
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

static PyObject *worker_fail(PyObject *object, PyObject *args)
{
    stoker_worker_channel *channel = worker_handle(object);
    int code;
    const char *message;
    Py_buffer detail = {0};
    if (channel == NULL || !PyArg_ParseTuple(args, "isy*", &code, &message, &detail)) {
        return NULL;
    }
    stoker_worker_failure failure = {
        .status = (stoker_status)code, .message = message, .detail = detail.buf, .detail_size = (size_t)detail.len};
    stoker_error err = {0};
    stoker_status status = stoker_worker_channel_fail(channel, &failure, &err);
    PyBuffer_Release(&detail);
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

static PyObject *worker_close(PyObject *object, PyObject *unused)
{
    (void)unused;
    struct worker_object *self = (struct worker_object *)object;
    stoker_worker_channel_close(self->channel);
    self->channel = NULL;
    return Py_NewRef(Py_None);
}

static void worker_dealloc(PyObject *object)
{
    stoker_worker_channel_close(((struct worker_object *)object)->channel);
    plain_dealloc(object);
}

static PyGetSetDef slab_properties[] = {
    {"address", slab_address, NULL, "Where it is mapped.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slab_slots[] = {
    {Py_tp_dealloc, plain_dealloc},
    {Py_bf_getbuffer, slab_getbuffer},
    {Py_tp_getset, slab_properties},
    {Py_sq_length, slab_length},
    {0, NULL},
};

static PyType_Spec slab_spec = {.name = "stoker._core.Slab",
                                .basicsize = sizeof(struct slab_object),
                                .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                .slots = slab_slots};

static PyMethodDef template_methods[] = {
    {"report", template_report, METH_VARARGS, "report(error_message=None, detail=b'') -> None"},
    {"next", template_next, METH_VARARGS,
     "next(timeout=None) -> (worker_id, fd), None at the end, False after the time"},
    {"forked", template_forked, METH_VARARGS, "forked(worker_id, pid) -> None"},
    {"close", template_close, METH_NOARGS, "close() -> None"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot template_slots[] = {
    {Py_tp_new, template_new},
    {Py_tp_dealloc, template_dealloc},
    {Py_tp_methods, template_methods},
    {Py_tp_doc, "TemplateChannel(fd): the template's side of its control socket."},
    {0, NULL},
};

static PyType_Spec template_spec = {.name = "stoker._core.TemplateChannel",
                                    .basicsize = sizeof(struct template_object),
                                    .flags = Py_TPFLAGS_DEFAULT,
                                    .slots = template_slots};

static PyMethodDef worker_methods[] = {
    {"next", worker_next, METH_NOARGS, "next() -> (item_id, attempt, payload, slab or None), or None at the end"},
    {"grow", worker_grow, METH_VARARGS, "grow(size) -> Slab"},
    {"done", worker_done, METH_VARARGS, "done(used, skeleton_offset, skeleton_size, samples_skipped) -> None"},
    {"fail", worker_fail, METH_VARARGS, "fail(status, message, detail) -> None"},
    {"close", worker_close, METH_NOARGS, "close() -> None"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot worker_slots[] = {
    {Py_tp_new, worker_new},
    {Py_tp_dealloc, worker_dealloc},
    {Py_tp_methods, worker_methods},
    {Py_tp_doc, "WorkerChannel(fd): a worker's side of its socket."},
    {0, NULL},
};

static PyType_Spec worker_spec = {.name = "stoker._core.WorkerChannel",
                                  .basicsize = sizeof(struct worker_object),
                                  .flags = Py_TPFLAGS_DEFAULT,
                                  .slots = worker_slots};

int core_worker_init(PyObject *module)
{
    slab_type = core_add_type(module, "Slab", &slab_spec);
    if (slab_type == NULL || core_add_type(module, "TemplateChannel", &template_spec) == NULL ||
        core_add_type(module, "WorkerChannel", &worker_spec) == NULL) {
        return -1;
    }
    return 0;
}
