/* SPDX-License-Identifier: Apache-2.0
 *
 * Still images for Python: probe, decode into a buffer, and the native image source.
 *
 * An image is a path, or any object that lends its bytes. Decoding runs without the interpreter lock.
 */
#include "_core_media.h"

#include <stdlib.h>

#include <stoker/image.h>

/* A path or bytes: one of both is set. */
struct image {
    PyObject *path; /* encoded */
    Py_buffer buffer;
};

static int image_open(PyObject *object, struct image *image)
{
    image->path = NULL;
    image->buffer.obj = NULL;
    if (PyUnicode_Check(object) || !PyObject_CheckBuffer(object)) {
        return PyUnicode_FSConverter(object, &image->path) ? 0 : -1;
    }
    return PyObject_GetBuffer(object, &image->buffer, PyBUF_SIMPLE);
}

static void image_close(struct image *image)
{
    Py_XDECREF(image->path);
    PyBuffer_Release(&image->buffer); /* does nothing if none is held */
}

static PyObject *probe_image(PyObject *self, PyObject *args)
{
    (void)self;
    static const char *const formats[] = {"", "jpeg", "png", "webp", "gif"};
    PyObject *object;
    struct image image;
    if (!PyArg_ParseTuple(args, "O", &object) || image_open(object, &image) < 0) {
        return NULL;
    }
    const char *path = image.path != NULL ? PyBytes_AsString(image.path) : NULL;
    stoker_image_info info;
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = path != NULL ? stoker_image_probe(path, &info, &err)
                          : stoker_image_probe_bytes(image.buffer.buf, (size_t)image.buffer.len, &info, &err);
    Py_END_ALLOW_THREADS
    image_close(&image);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    return Py_BuildValue("{s:s,s:I,s:I,s:i,s:I,s:I,s:K,s:L}", "format", formats[info.format], "width", info.width,
                         "height", info.height, "orientation", (int)info.orientation, "channels", info.channels,
                         "bit_depth", info.bit_depth, "bytes", (unsigned long long)info.bytes, "mtime_ns",
                         (long long)info.mtime_ns);
}

/* The keywords of a form, after the first two positional arguments. */
#define FORM_NAMES                                                                                                     \
    "width", "height", "dtype", "layout", "resize", "filter", "mode", "background", "ignore_orientation", "partial",   \
        "pixels_max", "mean", "std", "augment"
#define FORM_FORMAT "O&O&iiiiiOpiO&OOO"

struct form_arguments {
    stoker_image_spec spec;
    int dtype, layout, resize, filter, mode, ignore_orientation, partial;
    PyObject *background, *mean, *std, *augment;
};

#define FORM_POINTERS(form)                                                                                            \
    CORE_NUMBER("width", (form).spec.width), CORE_NUMBER("height", (form).spec.height), &(form).dtype, &(form).layout, \
        &(form).resize, &(form).filter, &(form).mode, &(form).background, &(form).ignore_orientation, &(form).partial, \
        CORE_NUMBER("pixels_max", (form).spec.pixels_max), &(form).mean, &(form).std, &(form).augment

static void form_init(struct form_arguments *form)
{
    static const stoker_image_spec defaults = STOKER_IMAGE_SPEC_INIT;
    *form = (struct form_arguments){
        .spec = defaults, .background = Py_None, .mean = Py_None, .std = Py_None, .augment = Py_None};
}

int core_background(PyObject *background, stoker_image_alpha *out_alpha, uint8_t out[3])
{
    float values[3];
    if (background == Py_None) {
        return 0;
    }
    if (core_colour(background, values, "background") < 0) {
        return -1;
    }
    *out_alpha = STOKER_IMAGE_ALPHA_COMPOSITE;
    for (int c = 0; c < 3; c++) {
        if (!(values[c] >= 0 && values[c] <= 255)) {
            PyErr_SetString(PyExc_ValueError, "background must be three numbers from 0 to 255");
            return -1;
        }
        out[c] = (uint8_t)values[c];
    }
    return 0;
}

static int form_finish(struct form_arguments *form)
{
    stoker_image_spec *spec = &form->spec;
    spec->dtype = (stoker_dtype)form->dtype;
    spec->layout = (stoker_image_layout)form->layout;
    spec->resize = (stoker_image_resize)form->resize;
    spec->filter = (stoker_image_filter)form->filter;
    spec->mode = (stoker_image_mode)form->mode;
    spec->ignore_orientation = (uint8_t)form->ignore_orientation;
    spec->partial = (stoker_image_partial)form->partial;
    if (core_background(form->background, &spec->alpha, spec->background) < 0) {
        return -1;
    }
    if (core_augment(form->augment, &spec->augment) < 0) {
        return -1;
    }
    return core_colour(form->mean, spec->mean, "mean") < 0 || core_colour(form->std, spec->std, "std") < 0 ? -1 : 0;
}

static PyObject *read_image(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"image", "buffer", FORM_NAMES, NULL};
    PyObject *object;
    Py_buffer out;
    struct image image;
    struct form_arguments form;
    form_init(&form);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Ow*|" FORM_FORMAT, names, &object, &out, FORM_POINTERS(form))) {
        return NULL;
    }
    if (form_finish(&form) < 0 || image_open(object, &image) < 0) {
        PyBuffer_Release(&out);
        return NULL;
    }
    const char *path = image.path != NULL ? PyBytes_AsString(image.path) : NULL;
    const stoker_image_bytes bytes = {image.buffer.buf, path != NULL ? 0 : (size_t)image.buffer.len};
    stoker_image_result result;
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = path != NULL ? stoker_image_read(path, &form.spec, out.buf, (size_t)out.len, &result, &err)
                          : stoker_image_decode(&bytes, &form.spec, out.buf, (size_t)out.len, &result, &err);
    Py_END_ALLOW_THREADS
    image_close(&image);
    PyBuffer_Release(&out);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    return Py_BuildValue("{s:I,s:I,s:N,s:I,s:K}", "width", result.width, "height", result.height, "partial",
                         PyBool_FromLong((long)result.partial), "reduced", result.reduced, "bytes_read",
                         (unsigned long long)result.bytes_read);
}

static stoker_status create_images(const void *list, const void *spec, stoker_source **out_source, stoker_error *err)
{
    return stoker_source_create_images(list, spec, out_source, err);
}

static PyObject *image_source(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"paths", FORM_NAMES, "parts", "object", NULL};
    PyObject *paths, *parts = Py_None, *object = Py_None;
    struct form_arguments form;
    form_init(&form);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|" FORM_FORMAT "OO", names, &paths, FORM_POINTERS(form), &parts,
                                     &object) ||
        form_finish(&form) < 0) {
        return NULL;
    }
    return core_source_of_paths(create_images, &form.spec, paths, parts, object);
}

static PyMethodDef image_functions[] = {
    {"probe_image", probe_image, METH_VARARGS,
     "probe_image(image) -> dict\n\nFacts about one image (a path or bytes), from its header."},
    {"read_image", (PyCFunction)(void (*)(void))read_image, METH_VARARGS | METH_KEYWORDS,
     "read_image(image, buffer, width=0, height=0, ...) -> dict\n\nDecode one image into a buffer of its sample's "
     "size."},
    {"image_source", (PyCFunction)(void (*)(void))image_source, METH_VARARGS | METH_KEYWORDS,
     "image_source(paths, width, height, ...) -> Source"},
    {NULL, NULL, 0, NULL},
};

int core_image_init(PyObject *module) { return PyModule_AddFunctions(module, image_functions); }
