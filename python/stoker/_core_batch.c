/* SPDX-License-Identifier: Apache-2.0
 *
 * Batch and Leaf: how Python sees shared memory (rule A6).
 *
 * A leaf is one-dimensional uint8 memory, lent through the buffer protocol and through DLPack; the adapter views it
 * as what it is. Each view holds one reference of the batch. The DLPack deleter touches C state only: a tensor may be
 * dropped on any thread, after the loader and the client are closed, and after the interpreter is gone.
 */
#include "_core_batch.h"

#include <stdlib.h>

/* The DLPack structs, version 0: the layout is fixed by the protocol (dlpack.h is not needed for it). */
struct dl_device {
    int32_t device_type, device_id;
};

struct dl_tensor {
    void *data;
    struct dl_device device;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

struct dl_managed {
    struct dl_tensor tensor;
    void *manager;
    void (*deleter)(struct dl_managed *);
};

enum { DL_CPU = 1, DL_UINT = 1 };

struct view {                  /* a DLPack tensor and what it points at */
    struct dl_managed managed; /* first: the deleter gets its address */
    int64_t shape, stride;
    stoker_batch *batch;
};

struct batch_object {
    PyObject_HEAD stoker_batch *batch;
};

struct leaf_object {
    PyObject_HEAD stoker_batch *batch;
    stoker_leaf leaf;
};

static PyTypeObject *batch_type, *leaf_type;

PyObject *core_batch_wrap(stoker_batch *batch)
{
    struct batch_object *self =
        (struct batch_object *)((allocfunc)PyType_GetSlot(batch_type, Py_tp_alloc))(batch_type, 0);
    if (self == NULL) {
        stoker_batch_unref(batch);
        return NULL;
    }
    self->batch = batch;
    return (PyObject *)self;
}

stoker_batch *core_batch_handle(PyObject *object)
{
    if (!PyObject_TypeCheck(object, batch_type)) {
        PyErr_SetString(PyExc_TypeError, "a Batch was expected");
        return NULL;
    }
    return ((struct batch_object *)object)->batch;
}

static void batch_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    stoker_batch_unref(((struct batch_object *)object)->batch);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static PyObject *leaf_wrap(stoker_batch *batch, const stoker_leaf *leaf)
{
    struct leaf_object *self = (struct leaf_object *)((allocfunc)PyType_GetSlot(leaf_type, Py_tp_alloc))(leaf_type, 0);
    if (self != NULL) {
        stoker_batch_ref(batch);
        self->batch = batch;
        self->leaf = *leaf;
    }
    return (PyObject *)self;
}

static PyObject *batch_leaf(PyObject *object, PyObject *args)
{
    stoker_batch *batch = ((struct batch_object *)object)->batch;
    Py_ssize_t index;
    if (!PyArg_ParseTuple(args, "n", &index)) {
        return NULL;
    }
    stoker_leaf leaf;
    stoker_error err = {0};
    stoker_status status = stoker_batch_leaf(batch, (size_t)index, &leaf, &err);
    return status < 0 ? core_raise(status, &err, NULL, 0) : leaf_wrap(batch, &leaf);
}

/* A process batch has no leaf table: its leaves lie before the skeleton, at offsets that only the skeleton knows. */
static PyObject *batch_region(PyObject *object, PyObject *args)
{
    stoker_batch *batch = ((struct batch_object *)object)->batch;
    unsigned long long skeleton_offset, offset, size;
    if (!PyArg_ParseTuple(args, "O&O&O&", CORE_NUMBER("skeleton_offset", skeleton_offset),
                          CORE_NUMBER("offset", offset), CORE_NUMBER("size", size))) {
        return NULL;
    }
    stoker_batch_info info;
    stoker_batch_read_info(batch, &info);
    if (info.skeleton == NULL || offset > skeleton_offset || size > skeleton_offset - offset) {
        PyErr_SetString(PyExc_ValueError, "the region does not lie before the skeleton");
        return NULL;
    }
    stoker_leaf leaf = {.dtype = STOKER_DTYPE_UINT8, .ndim = 1, .shape = {size}, .size = (size_t)size};
    leaf.data = (unsigned char *)(uintptr_t)info.skeleton - skeleton_offset + offset;
    return leaf_wrap(batch, &leaf);
}

static PyObject *batch_sequence(PyObject *object, void *unused)
{
    (void)unused;
    stoker_batch_info info;
    stoker_batch_read_info(((struct batch_object *)object)->batch, &info);
    return PyLong_FromUnsignedLongLong(info.sequence);
}

static PyObject *batch_leaf_count(PyObject *object, void *unused)
{
    (void)unused;
    stoker_batch_info info;
    stoker_batch_read_info(((struct batch_object *)object)->batch, &info);
    return PyLong_FromSize_t(info.leaf_count);
}

static PyObject *batch_bytes(PyObject *object, void *unused)
{
    (void)unused;
    stoker_batch_info info;
    stoker_batch_read_info(((struct batch_object *)object)->batch, &info);
    return PyLong_FromSize_t(info.bytes);
}

static PyObject *batch_skeleton(PyObject *object, void *unused)
{
    (void)unused;
    stoker_batch_info info;
    stoker_batch_read_info(((struct batch_object *)object)->batch, &info);
    return info.skeleton == NULL ? Py_NewRef(Py_None)
                                 : PyBytes_FromStringAndSize(info.skeleton, (Py_ssize_t)info.skeleton_size);
}

/* ------------------------------------------------------------------------------------------------------------ leaf */

static void leaf_dealloc(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    stoker_batch_unref(((struct leaf_object *)object)->batch);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
    Py_DECREF(type);
}

static int leaf_getbuffer(PyObject *object, Py_buffer *view, int flags)
{
    struct leaf_object *self = (struct leaf_object *)object;
    return PyBuffer_FillInfo(view, object, self->leaf.data, (Py_ssize_t)self->leaf.size, 0, flags);
}

static void view_delete(struct dl_managed *managed)
{
    struct view *view = (struct view *)managed;
    stoker_batch_unref(view->batch);
    free(view);
}

/* A capsule that nobody consumed still owns its tensor; a consumer renames it. */
static void capsule_delete(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor")) {
        struct dl_managed *managed = PyCapsule_GetPointer(capsule, "dltensor");
        managed->deleter(managed);
    }
}

static PyObject *leaf_dlpack(PyObject *object, PyObject *args, PyObject *kwargs)
{
    struct leaf_object *self = (struct leaf_object *)object;
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    PyObject *stream = Py_None, *max_version = Py_None, *device = Py_None, *copy = Py_None;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOOO", names, &stream, &max_version, &device, &copy)) {
        return NULL;
    }
    if (stream != Py_None || PyObject_IsTrue(copy) == 1 || self->leaf.size == 0) {
        PyErr_SetString(PyExc_BufferError,
                        "a leaf is lent as CPU memory of at least one byte, without a stream or a copy");
        return NULL;
    }
    struct view *view = calloc(1, sizeof *view);
    if (view == NULL) {
        return PyErr_NoMemory();
    }
    view->shape = (int64_t)self->leaf.size;
    view->stride = 1;
    view->batch = self->batch;
    view->managed.tensor = (struct dl_tensor){.data = self->leaf.data,
                                              .device = {DL_CPU, 0},
                                              .ndim = 1,
                                              .code = DL_UINT,
                                              .bits = 8,
                                              .lanes = 1,
                                              .shape = &view->shape,
                                              .strides = &view->stride};
    view->managed.manager = view;
    view->managed.deleter = view_delete;
    stoker_batch_ref(view->batch);
    PyObject *capsule = PyCapsule_New(&view->managed, "dltensor", capsule_delete);
    if (capsule == NULL) {
        view_delete(&view->managed);
    }
    return capsule;
}

static PyObject *leaf_dlpack_device(PyObject *object, PyObject *unused)
{
    (void)object;
    (void)unused;
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

static PyObject *leaf_dtype(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromLong((long)((struct leaf_object *)object)->leaf.dtype);
}

static PyObject *leaf_size(PyObject *object, void *unused)
{
    (void)unused;
    return PyLong_FromSize_t(((struct leaf_object *)object)->leaf.size);
}

static PyObject *leaf_shape(PyObject *object, void *unused)
{
    (void)unused;
    const stoker_leaf *leaf = &((struct leaf_object *)object)->leaf;
    PyObject *shape = PyTuple_New((Py_ssize_t)leaf->ndim);
    for (uint32_t i = 0; shape != NULL && i < leaf->ndim; i++) {
        PyObject *extent = PyLong_FromUnsignedLongLong(leaf->shape[i]);
        if (extent == NULL || PyTuple_SetItem(shape, (Py_ssize_t)i, extent) < 0) {
            Py_CLEAR(shape);
        }
    }
    return shape;
}

static PyMethodDef batch_methods[] = {
    {"leaf", batch_leaf, METH_VARARGS, "leaf(index) -> Leaf"},
    {"region", batch_region, METH_VARARGS,
     "region(skeleton_offset, offset, size) -> Leaf\n\nBytes of a process batch, as its skeleton places them."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef batch_properties[] = {
    {"sequence", batch_sequence, NULL, "Number of the request within the iteration, from 0.", NULL},
    {"leaf_count", batch_leaf_count, NULL, "Number of leaves; 0 for process batches.", NULL},
    {"bytes", batch_bytes, NULL, "Bytes of the slab that the batch keeps; 0 if it is a private copy.", NULL},
    {"skeleton", batch_skeleton, NULL, "A private copy of the skeleton, or None.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot batch_slots[] = {
    {Py_tp_dealloc, batch_dealloc},
    {Py_tp_methods, batch_methods},
    {Py_tp_getset, batch_properties},
    {0, NULL},
};

static PyType_Spec batch_spec = {.name = "stoker._core.Batch",
                                 .basicsize = sizeof(struct batch_object),
                                 .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 .slots = batch_slots};

static PyMethodDef leaf_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))leaf_dlpack, METH_VARARGS | METH_KEYWORDS,
     "The leaf as a DLPack capsule of uint8, one-dimensional."},
    {"__dlpack_device__", leaf_dlpack_device, METH_NOARGS, "(1, 0): CPU."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef leaf_properties[] = {
    {"dtype", leaf_dtype, NULL, "Number of the element type.", NULL},
    {"shape", leaf_shape, NULL, "Extents, C order.", NULL},
    {"size", leaf_size, NULL, "Bytes.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot leaf_slots[] = {
    {Py_tp_dealloc, leaf_dealloc},
    {Py_tp_methods, leaf_methods},
    {Py_tp_getset, leaf_properties},
    {Py_bf_getbuffer, leaf_getbuffer},
    {0, NULL},
};

static PyType_Spec leaf_spec = {.name = "stoker._core.Leaf",
                                .basicsize = sizeof(struct leaf_object),
                                .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                .slots = leaf_slots};

int core_batch_init(PyObject *module)
{
    batch_type = core_add_type(module, "Batch", &batch_spec);
    leaf_type = batch_type != NULL ? core_add_type(module, "Leaf", &leaf_spec) : NULL;
    return leaf_type == NULL ? -1 : 0;
}
