/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers without a sign as arguments of functions. The formats "I", "K" and "H" of PyArg_Parse take a number modulo
 * 2^32, 2^64 and 2^16: what a caller has computed wrong would be read as something else. This is the format "O&" with a
 * range (docs/decisions/0246).
 */
#include "_core.h"

static void out_of_range(const struct core_number *number, PyObject *object, unsigned long long most)
{
    PyErr_Clear();
    PyErr_Format(PyExc_OverflowError, "%s=%R is not between 0 and %llu", number->name, object, most);
}

static void store(const struct core_number *number, unsigned long long value)
{
    switch (number->size) {
    case sizeof(uint16_t): *(uint16_t *)number->out = (uint16_t)value; break;
    case sizeof(uint32_t): *(uint32_t *)number->out = (uint32_t)value; break;
    default: *(uint64_t *)number->out = value; break;
    }
}

int core_number(PyObject *object, void *target)
{
    const struct core_number *number = target;
    unsigned long long most = UINT64_MAX >> (64 - 8 * number->size);
    PyObject *whole = PyNumber_Index(object);
    if (whole == NULL) {
        if (PyErr_ExceptionMatches(PyExc_TypeError)) {
            PyErr_Format(PyExc_TypeError, "%s=%R is no whole number", number->name, object);
        }
        return 0;
    }
    unsigned long long value = PyLong_AsUnsignedLongLong(whole);
    Py_DECREF(whole);
    if (PyErr_Occurred() != NULL) {
        if (PyErr_ExceptionMatches(PyExc_OverflowError)) {
            out_of_range(number, object, most);
        }
        return 0;
    }
    if (value > most) {
        out_of_range(number, object, most);
        return 0;
    }
    store(number, value);
    return 1;
}

uint64_t *core_numbers(PyObject *sequence, const char *name, size_t *out_count)
{
    Py_ssize_t count = PySequence_Size(sequence);
    uint64_t *numbers = count >= 0 ? PyMem_Calloc((size_t)count + 1, sizeof *numbers) : NULL;
    *out_count = count >= 0 ? (size_t)count : 0;
    if (numbers == NULL && PyErr_Occurred() == NULL) {
        PyErr_NoMemory();
    }
    for (Py_ssize_t i = 0; numbers != NULL && i < count; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);
        struct core_number number = {name, &numbers[i], sizeof numbers[i]};
        int good = item != NULL && core_number(item, &number);
        Py_XDECREF(item);
        if (!good) {
            PyMem_Free(numbers);
            return NULL;
        }
    }
    return numbers;
}
