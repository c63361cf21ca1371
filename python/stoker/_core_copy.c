/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of much memory that somebody else will read: stores pass the cache, so that the destination is not read first
 * and what this processor works on stays cached (docs/decisions/0260).
 */
#include "_core.h"

#include <string.h>

#if defined(__x86_64__)

#include <emmintrin.h>

#define LINE ((size_t)64)

/* Whole cache lines, to a boundary of them. */
static void copy_lines(uint8_t *to, const uint8_t *from, size_t lines)
{
    for (size_t i = 0; i < lines; i++, to += LINE, from += LINE) {
        __m128i a = _mm_loadu_si128((const __m128i *)(const void *)from);
        __m128i b = _mm_loadu_si128((const __m128i *)(const void *)(from + 16));
        __m128i c = _mm_loadu_si128((const __m128i *)(const void *)(from + 32));
        __m128i d = _mm_loadu_si128((const __m128i *)(const void *)(from + 48));
        _mm_stream_si128((__m128i *)(void *)to, a);
        _mm_stream_si128((__m128i *)(void *)(to + 16), b);
        _mm_stream_si128((__m128i *)(void *)(to + 32), c);
        _mm_stream_si128((__m128i *)(void *)(to + 48), d);
    }
    _mm_sfence(); /* stored for whoever is told next */
}

static void copy(uint8_t *to, const uint8_t *from, size_t size)
{
    size_t head = (size_t)(-(uintptr_t)to & (LINE - 1));
    if (head > size) {
        head = size;
    }
    const size_t lines = (size - head) / LINE, done = head + lines * LINE;
    memcpy(to, from, head);
    copy_lines(to + head, from + head, lines);
    memcpy(to + done, from + done, size - done);
}

#else

static void copy(uint8_t *to, const uint8_t *from, size_t size) { memcpy(to, from, size); }

#endif

/* One source to `at` in the destination; its bytes, or -1 with an exception. */
static Py_ssize_t copy_source(const Py_buffer *to, Py_ssize_t at, PyObject *source)
{
    Py_buffer from;
    if (PyObject_GetBuffer(source, &from, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    Py_ssize_t size = from.len;
    if (size > to->len - at) {
        PyErr_Format(PyExc_ValueError, "the sources have more than the %zd bytes of the destination", to->len);
        size = -1;
    } else if (size > 0) {
        Py_BEGIN_ALLOW_THREADS
        copy((uint8_t *)to->buf + at, from.buf, (size_t)size);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&from);
    return size;
}

static int copy_all(const Py_buffer *to, PyObject *sources)
{
    Py_ssize_t count = PySequence_Size(sources), at = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *source = PySequence_GetItem(sources, i);
        Py_ssize_t size = source != NULL ? copy_source(to, at, source) : -1;
        Py_XDECREF(source);
        if (size < 0) {
            return -1;
        }
        at += size;
    }
    if (count >= 0 && at < to->len) {
        PyErr_Format(PyExc_ValueError, "the sources have %zd bytes, the destination %zd", at, to->len);
        return -1;
    }
    return count >= 0 ? 0 : -1;
}

static PyObject *copy_past_cache(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *destination, *sources;
    Py_buffer to;
    if (!PyArg_ParseTuple(args, "OO", &destination, &sources) ||
        PyObject_GetBuffer(destination, &to, PyBUF_WRITABLE) < 0) {
        return NULL;
    }
    int result = copy_all(&to, sources);
    PyBuffer_Release(&to);
    if (result < 0) {
        return NULL;
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"copy_past_cache", copy_past_cache, METH_VARARGS,
     "copy_past_cache(destination, sources)\n\nThe sources, one after another, fill the destination, which they do not "
     "overlap."},
    {NULL, NULL, 0, NULL},
};

int core_copy_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
