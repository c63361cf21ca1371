/* SPDX-License-Identifier: Apache-2.0
 *
 * Media for Python: probe one file, decode listed frames, and two kinds of sources (native video, process). Images are
 * in _core_image.c.
 *
 * Decoding runs without the interpreter lock. A frame callback fills private memory; Python objects are made after it.
 */
#include "_core_media.h"

#include <stdlib.h>
#include <string.h>

static PyTypeObject *source_type;

static const char *text_or_none(const char *text) { return text[0] != 0 ? text : NULL; }

static PyObject *probe(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"path", "exact", NULL};
    PyObject *path = NULL;
    int exact = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|p", names, PyUnicode_FSConverter, &path, &exact)) {
        return NULL;
    }
    stoker_media_info info;
    stoker_error err = {0};
    stoker_status status;
    const char *text = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    status = stoker_media_probe(text, exact ? STOKER_PROBE_EXACT : 0, &info, &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    return Py_BuildValue("{s:s,s:I,s:I,s:i,s:K,s:d,s:K,s:L,s:(II),s:z,s:I,s:z,s:z,s:O,s:O}", "codec", info.codec,
                         "width", info.width, "height", info.height, "rotation", (int)info.rotation, "frames",
                         (unsigned long long)info.frames, "duration_s", info.duration_s, "bytes",
                         (unsigned long long)info.bytes, "mtime_ns", (long long)info.mtime_ns, "sar", info.sar_num,
                         info.sar_den, "pixel_format", text_or_none(info.pixel_format), "bit_depth", info.bit_depth,
                         "matrix", text_or_none(info.matrix), "range", text_or_none(info.range), "interlaced",
                         info.interlaced ? Py_True : Py_False, "alpha", info.alpha ? Py_True : Py_False);
}

stoker_source *core_source_handle(PyObject *object)
{
    if (!PyObject_TypeCheck(object, source_type)) {
        PyErr_SetString(PyExc_TypeError, "expected a stoker._core.Source");
        return NULL;
    }
    stoker_source *source = ((struct source_object *)object)->source;
    if (source == NULL) {
        core_raise_closed("source");
    }
    return source;
}

PyObject *core_source_wrap(stoker_source *source)
{
    allocfunc allocate = (allocfunc)PyType_GetSlot(source_type, Py_tp_alloc);
    struct source_object *object = (struct source_object *)allocate(source_type, 0);
    if (object == NULL) {
        stoker_source_close(source);
        return NULL;
    }
    object->source = source;
    return (PyObject *)object;
}

int core_colour(PyObject *sequence, float out[3], const char *name)
{
    if (sequence == Py_None) {
        return 0;
    }
    for (Py_ssize_t i = 0; i < 3; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        double value = item != NULL ? PyFloat_AsDouble(item) : -1.0;
        Py_XDECREF(item);
        if (PyErr_Occurred() != NULL) {
            PyErr_Clear();
            PyErr_Format(PyExc_ValueError, "%s must be three numbers, one for each of R, G and B", name);
            return -1;
        }
        out[i] = (float)value;
    }
    return 0;
}

int core_picture(PyObject *background, stoker_picture_options *out)
{
    if (background == Py_None) {
        return 0;
    }
    out->alpha = STOKER_ALPHA_COMPOSITE;
    for (Py_ssize_t i = 0; i < 3; i++) {
        PyObject *item = PySequence_GetItem(background, i);
        long value = item != NULL ? PyLong_AsLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred() != NULL || value < 0 || value > 255) {
            PyErr_Clear();
            PyErr_SetString(PyExc_ValueError, "background must be three numbers from 0 to 255: R, G and B");
            return -1;
        }
        out->background[i] = (uint8_t)value;
    }
    return 0;
}

static stoker_status create_video(const void *list, const void *spec, stoker_source **out_source, stoker_error *err)
{
    return stoker_source_create_video(list, spec, out_source, err);
}

static PyObject *video_source(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"paths",       "frames",          "width",      "height",       "dtype",
                            "layout",      "resize",          "short_clip", "mean",         "std",
                            "damaged_max", "sampling",        "stride",     "fps",          "frames_min",
                            "frames_max",  "frame_factor",    "rounding",   "spread",       "untagged",
                            "apply_sar",   "ignore_rotation", "background", "count_frames", "mode",
                            "filter",      "augment",         "parts",      "object",       NULL};
    PyObject *paths, *mean = Py_None, *std = Py_None, *background = Py_None, *augment = Py_None, *parts = Py_None,
                     *object = Py_None;
    stoker_video_spec spec = STOKER_VIDEO_SPEC_INIT;
    int dtype = 0, layout = 0, resize = 0, short_clip = 0, sampling = 0, rounding = 0, spread = 0, untagged = 0;
    int apply_sar = 0, ignore_rotation = 0, count_frames = 0, mode = 0, filter = 0;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O|O&O&O&iiiiOOdiO&dO&O&O&iiippOpiiOOO", names, &paths, CORE_NUMBER("frames", spec.frames),
            CORE_NUMBER("width", spec.width), CORE_NUMBER("height", spec.height), &dtype, &layout, &resize, &short_clip,
            &mean, &std, &spec.damaged_max, &sampling, CORE_NUMBER("stride", spec.stride), &spec.fps,
            CORE_NUMBER("frames_min", spec.frames_min), CORE_NUMBER("frames_max", spec.frames_max),
            CORE_NUMBER("frame_factor", spec.frame_factor), &rounding, &spread, &untagged, &apply_sar, &ignore_rotation,
            &background, &count_frames, &mode, &filter, &augment, &parts, &object)) {
        return NULL;
    }
    if (core_colour(mean, spec.mean, "mean") < 0 || core_colour(std, spec.std, "std") < 0 ||
        core_picture(background, &spec.picture) < 0 || core_augment(augment, &spec.augment) < 0) {
        return NULL;
    }
    spec.mode = (stoker_video_mode)mode;
    spec.filter = (stoker_video_filter)filter;
    spec.dtype = (stoker_dtype)dtype;
    spec.layout = (stoker_video_layout)layout;
    spec.resize = (stoker_resize_mode)resize;
    spec.short_clip = (stoker_short_clip)short_clip;
    spec.sampling = (stoker_sampling)sampling;
    spec.rounding = (stoker_rounding)rounding;
    spec.spread = (stoker_spread)spread;
    spec.picture.untagged = (stoker_untagged)untagged;
    spec.picture.apply_sar = (uint32_t)apply_sar;
    spec.picture.ignore_rotation = (uint32_t)ignore_rotation;
    spec.count_frames = (uint32_t)count_frames;
    return core_source_of_paths(create_video, &spec, paths, parts, object);
}

static stoker_status create_process(const void *list, const void *spec, stoker_source **out_source, stoker_error *err)
{
    (void)list;
    return stoker_source_create_process(spec, out_source, err);
}

static PyObject *process_source(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"argv", "env", "cwd", "payload", "count", NULL};
    PyObject *argv, *env, *cwd = NULL;
    Py_buffer payload;
    unsigned long long count = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOO&y*|O&", names, &argv, &env, PyUnicode_FSConverter, &cwd,
                                     &payload, CORE_NUMBER("count", count))) {
        return NULL;
    }
    PyObject *argv_keep = NULL, *env_keep = NULL, *result = NULL;
    Py_ssize_t unused;
    const char **argv_texts = core_texts(argv, &argv_keep, &unused);
    const char **env_texts = argv_texts != NULL ? core_texts(env, &env_keep, &unused) : NULL;
    if (env_texts != NULL) {
        stoker_process_spec spec = {.argv = argv_texts,
                                    .envp = env_texts,
                                    .cwd = PyBytes_AsString(cwd),
                                    .payload = payload.buf,
                                    .payload_size = (size_t)payload.len,
                                    .count = count};
        result = core_source_create(create_process, NULL, &spec);
    }
    PyMem_Free(argv_texts);
    PyMem_Free(env_texts);
    Py_XDECREF(argv_keep);
    Py_XDECREF(env_keep);
    Py_DECREF(cwd);
    PyBuffer_Release(&payload);
    return result;
}

static PyObject *source_count(PyObject *self, void *unused)
{
    (void)unused;
    stoker_source *source = core_source_handle(self);
    return source == NULL ? NULL : PyLong_FromUnsignedLongLong(stoker_source_count(source));
}

static PyObject *source_names(PyObject *self, void *unused)
{
    (void)unused;
    stoker_source *source = core_source_handle(self);
    PyObject *list = source == NULL ? NULL : PyList_New(0);
    const char *name;
    for (size_t i = 0; list != NULL && (name = stoker_source_member(source, i)) != NULL; i++) {
        PyObject *text = PyUnicode_FromString(name);
        if (text == NULL || PyList_Append(list, text) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(text);
    }
    PyObject *names = list == NULL ? NULL : PyList_AsTuple(list);
    Py_XDECREF(list);
    return names;
}

static PyObject *source_describe(PyObject *self, PyObject *args)
{
    unsigned long long id;
    stoker_source *source = core_source_handle(self);
    if (source == NULL || !PyArg_ParseTuple(args, "O&", CORE_NUMBER("id", id))) {
        return NULL;
    }
    stoker_descriptor descriptor;
    stoker_error err = {0};
    stoker_status status = stoker_source_describe(source, id, &descriptor, &err);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    PyObject *shape = PyTuple_New((Py_ssize_t)descriptor.ndim);
    for (uint32_t i = 0; shape != NULL && i < descriptor.ndim; i++) {
        PyObject *extent = PyLong_FromUnsignedLongLong(descriptor.shape[i]);
        if (extent == NULL || PyTuple_SetItem(shape, (Py_ssize_t)i, extent) < 0) {
            Py_CLEAR(shape);
        }
    }
    if (shape == NULL) {
        return NULL;
    }
    PyObject *path = descriptor.path != NULL
                         ? PyUnicode_DecodeFSDefaultAndSize(descriptor.path, (Py_ssize_t)strlen(descriptor.path))
                         : Py_NewRef(Py_None);
    return Py_BuildValue("{s:K,s:N,s:K,s:L,s:i,s:N,s:K,s:K}", "id", (unsigned long long)descriptor.id, "path", path,
                         "bytes", (unsigned long long)descriptor.bytes, "mtime_ns", (long long)descriptor.mtime_ns,
                         "dtype", (int)descriptor.dtype, "shape", shape, "sample_bytes",
                         (unsigned long long)descriptor.sample_bytes, "tokens", (unsigned long long)descriptor.tokens);
}

static PyObject *source_materialise(PyObject *self, PyObject *args)
{
    unsigned long long id;
    unsigned long long draw = 0;
    Py_buffer buffer;
    stoker_source *source = core_source_handle(self);
    if (source == NULL ||
        !PyArg_ParseTuple(args, "O&w*|O&", CORE_NUMBER("id", id), &buffer, CORE_NUMBER("draw", draw))) {
        return NULL;
    }
    stoker_descriptor descriptor;
    stoker_error err = {0};
    stoker_status status = stoker_source_describe(source, id, &descriptor, &err);
    if (status >= 0 && (uint64_t)buffer.len != descriptor.sample_bytes) {
        PyErr_Format(PyExc_ValueError, "the buffer has %zd bytes, the sample %llu", buffer.len,
                     (unsigned long long)descriptor.sample_bytes);
        PyBuffer_Release(&buffer);
        return NULL;
    }
    if (status >= 0) {
        const stoker_sample sample = {.id = id, .draw = draw};
        Py_BEGIN_ALLOW_THREADS
        status = stoker_source_make(source, &sample, buffer.buf, &err);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&buffer);
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

static PyObject *sample_draw(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned long long seed, epoch, id, occurrence = 0;
    if (!PyArg_ParseTuple(args, "KKK|K", &seed, &epoch, &id, &occurrence)) { /* modulo 2**64 */
        return NULL;
    }
    const stoker_draw_key key = {.seed = seed, .epoch = epoch, .id = id, .occurrence = occurrence};
    return PyLong_FromUnsignedLongLong(stoker_sample_draw(&key));
}

static void source_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    stoker_source_close(((struct source_object *)self)->source);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyMethodDef source_methods[] = {
    {"describe", source_describe, METH_VARARGS, "describe(id) -> dict\n\nWhat is known of one sample; never decodes."},
    {"materialise", source_materialise, METH_VARARGS,
     "materialise(id, buffer, draw=0) -> None\n\nMake one sample in this thread, into a writable buffer of its size."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef source_properties[] = {
    {"count", source_count, NULL, "Number of samples.", NULL},
    {"names", source_names, NULL, "Names of the members of a sample; empty if it is one tensor.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot source_slots[] = {
    {Py_tp_dealloc, source_dealloc},
    {Py_tp_methods, source_methods},
    {Py_tp_getset, source_properties},
    {0, NULL},
};

static PyType_Spec source_spec = {
    .name = "stoker._core.Source",
    .basicsize = sizeof(struct source_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = source_slots,
};

static PyMethodDef media_functions[] = {
    {"probe", (PyCFunction)(void (*)(void))probe, METH_VARARGS | METH_KEYWORDS,
     "probe(path, exact=False) -> dict\n\nFacts about one file, from its packet table unless exact."},
    {"video_source", (PyCFunction)(void (*)(void))video_source, METH_VARARGS | METH_KEYWORDS,
     "video_source(paths, frames, width, height, ...) -> Source"},
    {"sample_draw", sample_draw, METH_VARARGS,
     "sample_draw(seed, epoch, id, occurrence=0) -> int\n\nWhere the randomness of a native sample comes from."},
    {"process_source", (PyCFunction)(void (*)(void))process_source, METH_VARARGS | METH_KEYWORDS,
     "process_source(argv, env, cwd, payload, count=0) -> Source"},
    {NULL, NULL, 0, NULL},
};

int core_media_init(PyObject *module)
{
    source_type = core_add_type(module, "Source", &source_spec);
    if (source_type == NULL || PyModule_AddFunctions(module, media_functions) < 0 || core_frames_init(module) < 0 ||
        core_image_init(module) < 0) {
        return -1;
    }
    return core_vision_init(module);
}
