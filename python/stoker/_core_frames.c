/* SPDX-License-Identifier: Apache-2.0
 *
 * Frames of one file for Python: by number, by time or by a plan, and the plans themselves.
 *
 * Decoding runs without the interpreter lock. A frame callback fills private memory; Python objects are made after it.
 */
#include <stdlib.h>
#include <string.h>

#include "_core_media.h"

/* Frames collected without the interpreter lock. */
struct frames {
    unsigned char *data;
    size_t count, capacity; /* in frames */
    size_t frame_bytes;
    uint32_t width, height;
};

static stoker_status frames_take(void *user, size_t position, const uint8_t *rgb, uint32_t width, uint32_t height,
                                 stoker_error *err)
{
    struct frames *frames = user;
    if (frames->frame_bytes == 0) {
        frames->width = width;
        frames->height = height;
        frames->frame_bytes = (size_t)width * height * 3;
    }
    if (width != frames->width || height != frames->height) {
        err->status = STOKER_ERR_UNSUPPORTED;
        (void)PyOS_snprintf(err->message, sizeof err->message, "frame %zu is %ux%u, the frames before it are %ux%u",
                            position, width, height, frames->width, frames->height);
        return err->status;
    }
    if (position >= frames->capacity) {
        size_t capacity = frames->capacity != 0 ? frames->capacity : 16;
        while (capacity <= position) {
            capacity *= 2;
        }
        unsigned char *data =
            capacity <= SIZE_MAX / frames->frame_bytes ? realloc(frames->data, capacity * frames->frame_bytes) : NULL;
        if (data == NULL) {
            err->status = STOKER_ERR_NO_MEMORY;
            (void)PyOS_snprintf(err->message, sizeof err->message, "no memory for %zu frames of %zu bytes", capacity,
                                frames->frame_bytes);
            return err->status;
        }
        frames->data = data;
        frames->capacity = capacity;
    }
    memcpy(frames->data + position * frames->frame_bytes, rgb, frames->frame_bytes);
    if (position >= frames->count) {
        frames->count = position + 1;
    }
    return STOKER_OK;
}

/* Times as a private array; NULL with *out_count 0 and no exception for None. */
static double *time_array(PyObject *sequence, size_t *out_count)
{
    if (sequence == Py_None) {
        return NULL;
    }
    Py_ssize_t count = PySequence_Size(sequence);
    if (count < 0) {
        return NULL;
    }
    double *seconds = PyMem_Calloc((size_t)count + 1, sizeof *seconds);
    if (seconds == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        seconds[i] = item != NULL ? PyFloat_AsDouble(item) : 0;
        Py_XDECREF(item);
        if (PyErr_Occurred() != NULL) {
            PyMem_Free(seconds);
            return NULL;
        }
    }
    *out_count = (size_t)count;
    return seconds;
}

/* The arrays of a list; drop_list() frees them, also after a failure. */
static int fill_list(stoker_frame_list *list, PyObject *indices, PyObject *seconds)
{
    if (indices != Py_None && seconds != Py_None) {
        PyErr_SetString(PyExc_ValueError, "both indices and seconds are given");
        return -1;
    }
    if (indices != Py_None) {
        list->indices = core_numbers(indices, "indices", &list->count);
    } else {
        list->seconds = time_array(seconds, &list->count);
    }
    return PyErr_Occurred() != NULL ? -1 : 0;
}

static void drop_list(stoker_frame_list *list)
{
    PyMem_Free((void *)(uintptr_t)list->indices);
    PyMem_Free((void *)(uintptr_t)list->seconds);
}

static int parse_plan(PyObject *bytes, stoker_plan **out_plan)
{
    char *data;
    Py_ssize_t size;
    if (bytes == Py_None) {
        return 0;
    }
    if (PyBytes_AsStringAndSize(bytes, &data, &size) < 0) {
        return -1;
    }
    stoker_error err = {0};
    stoker_status status = stoker_plan_decode(data, (size_t)size, out_plan, &err);
    if (status < 0) {
        core_raise(status, &err, NULL, 0);
        return -1;
    }
    return 0;
}

static PyObject *frames(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"path",      "indices",         "width",      "height", "seconds", "untagged",
                            "apply_sar", "ignore_rotation", "background", "plan",   NULL};
    PyObject *path = NULL, *indices = Py_None, *seconds = Py_None, *background = Py_None, *plan = Py_None;
    int untagged = 0, apply_sar = 0, ignore_rotation = 0;
    stoker_frame_list list = {.count = 0};
    stoker_plan *parsed = NULL;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|OO&O&OippOO", names, PyUnicode_FSConverter, &path, &indices,
                                     CORE_NUMBER("width", list.width), CORE_NUMBER("height", list.height), &seconds,
                                     &untagged, &apply_sar, &ignore_rotation, &background, &plan)) {
        return NULL;
    }
    list.picture.untagged = (stoker_untagged)untagged;
    list.picture.apply_sar = (uint32_t)apply_sar;
    list.picture.ignore_rotation = (uint32_t)ignore_rotation;
    if (core_picture(background, &list.picture) < 0 || fill_list(&list, indices, seconds) < 0 ||
        parse_plan(plan, &parsed) < 0) {
        drop_list(&list);
        Py_DECREF(path);
        return NULL;
    }
    list.plan = parsed;
    struct frames out = {0};
    stoker_error err = {0};
    stoker_status status;
    const char *text = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    status = stoker_frames_read(text, &list, frames_take, &out, &err);
    Py_END_ALLOW_THREADS
    stoker_plan_close(parsed);
    drop_list(&list);
    Py_DECREF(path);
    PyObject *result = NULL;
    if (status < 0) {
        core_raise(status, &err, NULL, 0);
    } else {
        PyObject *bytes =
            PyByteArray_FromStringAndSize((const char *)out.data, (Py_ssize_t)(out.count * out.frame_bytes));
        if (bytes != NULL) {
            result = Py_BuildValue("(NnII)", bytes, (Py_ssize_t)out.count, out.height, out.width);
        }
    }
    free(out.data);
    return result;
}

static PyObject *segment_list(const stoker_plan_info *info)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < info->segment_count; i++) {
        PyObject *entry =
            Py_BuildValue("(IIL)", info->segments[i].first, info->segments[i].end, (long long)info->segments[i].dts);
        if (entry == NULL || PyList_Append(list, entry) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(entry);
    }
    return list;
}

static PyObject *kept_list(const stoker_plan_info *info)
{
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list != NULL && i < info->frame_count; i++) {
        PyObject *entry = PyLong_FromUnsignedLong(info->kept[i].ordinal);
        if (entry == NULL || PyList_Append(list, entry) < 0) {
            Py_CLEAR(list);
        }
        Py_XDECREF(entry);
    }
    return list;
}

/* What a plan says, and its bytes. */
static PyObject *plan_dict(const stoker_plan *plan)
{
    stoker_plan_info info;
    stoker_plan_read_info(plan, &info);
    size_t size = stoker_plan_encode(plan, NULL, 0);
    unsigned char *data = PyMem_Calloc(size, 1);
    if (data == NULL) {
        return PyErr_NoMemory();
    }
    (void)stoker_plan_encode(plan, data, size);
    PyObject *bytes = PyBytes_FromStringAndSize((const char *)data, (Py_ssize_t)size);
    PyMem_Free(data);
    PyObject *segments = segment_list(&info), *kept = kept_list(&info);
    if (bytes == NULL || segments == NULL || kept == NULL) {
        Py_XDECREF(bytes);
        Py_XDECREF(segments);
        Py_XDECREF(kept);
        return NULL;
    }
    return Py_BuildValue("{s:K,s:O,s:O,s:I,s:I,s:N,s:N,s:K,s:K,s:d,s:N}", "hash", (unsigned long long)info.hash,
                         "by_time", info.by_time ? Py_True : Py_False, "skips", info.skips ? Py_True : Py_False,
                         "packets", info.packets, "frames", info.frames, "segments", segments, "kept", kept,
                         "packets_sent", (unsigned long long)info.packets_sent, "bytes_sent",
                         (unsigned long long)info.bytes_sent, "predicted_s", info.seconds, "bytes", bytes);
}

static PyObject *frame_plan(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"path", "indices", "seconds", NULL};
    PyObject *path = NULL, *indices = Py_None, *seconds = Py_None;
    stoker_frame_list list = {.count = 0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|OO", names, PyUnicode_FSConverter, &path, &indices, &seconds)) {
        return NULL;
    }
    PyObject *result = NULL;
    if (fill_list(&list, indices, seconds) == 0) {
        stoker_plan *plan = NULL;
        stoker_error err = {0};
        stoker_status status;
        const char *text = PyBytes_AsString(path);
        Py_BEGIN_ALLOW_THREADS
        status = stoker_frames_plan(text, &list, &plan, &err);
        Py_END_ALLOW_THREADS
        result = status < 0 ? core_raise(status, &err, NULL, 0) : plan_dict(plan);
        stoker_plan_close(plan);
    }
    drop_list(&list);
    Py_DECREF(path);
    return result;
}

static PyMethodDef frame_functions[] = {
    {"frames", (PyCFunction)(void (*)(void))frames, METH_VARARGS | METH_KEYWORDS,
     "frames(path, indices=None, width=0, height=0, seconds=None, ...) -> (bytearray, count, height, width)\n\n"
     "Decode frames as RGB."},
    {"frame_plan", (PyCFunction)(void (*)(void))frame_plan, METH_VARARGS | METH_KEYWORDS,
     "frame_plan(path, indices=None, seconds=None) -> dict\n\nThe plan by which they would be decoded."},
    {NULL, NULL, 0, NULL},
};

int core_frames_init(PyObject *module) { return PyModule_AddFunctions(module, frame_functions); }
