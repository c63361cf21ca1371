/* SPDX-License-Identifier: Apache-2.0
 *
 * Lists of files for the sources of the extension: paths, and where members of tar shards lie in them.
 */
#include "_core_media.h"
#include "_core_object.h"

#include <string.h>

static int copy_parts(struct core_paths *out, PyObject *parts)
{
    Py_buffer view;
    if (PyObject_GetBuffer(parts, &view, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    const size_t wanted = out->list.count * sizeof *out->parts;
    if ((size_t)view.len != wanted) {
        PyErr_Format(PyExc_ValueError, "parts has %zd bytes, expected %zu for %zu paths", view.len, wanted,
                     out->list.count);
    } else if ((out->parts = PyMem_Malloc(wanted > 0 ? wanted : 1)) == NULL) {
        PyErr_NoMemory();
    } else {
        memcpy(out->parts, view.buf, wanted); /* the buffer need not be aligned */
        out->list.parts = out->parts;
    }
    PyBuffer_Release(&view);
    return out->parts != NULL ? 0 : -1;
}

int core_paths_init(struct core_paths *out, PyObject *paths, PyObject *parts, PyObject *object)
{
    static const stoker_object_options defaults = STOKER_OBJECT_OPTIONS_INIT;
    Py_ssize_t count = 0;
    *out = (struct core_paths){0};
    out->texts = core_texts(paths, &out->keep, &count);
    if (out->texts == NULL) {
        return -1;
    }
    out->list = (stoker_path_list){.paths = out->texts, .count = (size_t)count};
    out->object = defaults;
    if ((parts != Py_None && copy_parts(out, parts) < 0) ||
        (object != Py_None && core_object_options(object, &out->object, &out->object_keep) < 0)) {
        core_paths_fini(out);
        return -1;
    }
    out->list.object = object != Py_None ? &out->object : NULL;
    return 0;
}

PyObject *core_source_create(core_create_fn create, const void *list, const void *spec)
{
    stoker_source *source = NULL;
    stoker_error err = {0};
    stoker_status status;
    Py_BEGIN_ALLOW_THREADS
    status = create(list, spec, &source, &err);
    Py_END_ALLOW_THREADS
    return status < 0 ? core_raise(status, &err, NULL, 0) : core_source_wrap(source);
}

PyObject *core_source_of_paths(core_create_fn create, const void *spec, PyObject *paths, PyObject *parts,
                               PyObject *object)
{
    struct core_paths list;
    if (core_paths_init(&list, paths, parts, object) < 0) {
        return NULL;
    }
    PyObject *source = core_source_create(create, &list.list, spec);
    core_paths_fini(&list);
    return source;
}

void core_paths_fini(struct core_paths *paths)
{
    PyMem_Free(paths->parts);
    PyMem_Free(paths->texts);
    Py_XDECREF(paths->keep);
    Py_XDECREF(paths->object_keep);
}
