/* SPDX-License-Identifier: Apache-2.0
 *
 * Redistribution between ranks (stoker/balance.h): the pure functions over Python lists, and the exchange of a loader.
 */
#include "_core.h"

#include <limits.h>

#include "_core_batch.h"

/* Owners, costs and an assignment as the library wants them; freed by round_free(). */
struct round_arrays {
    stoker_balance_round round;
    uint32_t *owners, *assignment, *scratch;
    uint64_t *costs;
};

static void round_free(struct round_arrays *arrays)
{
    PyMem_Free(arrays->owners);
    PyMem_Free(arrays->assignment);
    PyMem_Free(arrays->scratch);
    PyMem_Free(arrays->costs);
}

/* Numbers above 32 bits become UINT32_MAX, which no round has: the library names the sample. */
static uint32_t *narrow(PyObject *sequence, const char *name, size_t *out_count)
{
    size_t count;
    uint64_t *wide = core_numbers(sequence, name, &count);
    uint32_t *out = wide != NULL ? PyMem_Malloc((count + 1) * sizeof *out) : NULL;
    if (wide != NULL && out == NULL) {
        PyErr_NoMemory();
    }
    for (size_t i = 0; out != NULL && i < count; i++) {
        out[i] = wide[i] > UINT32_MAX ? UINT32_MAX : (uint32_t)wide[i];
    }
    PyMem_Free(wide);
    *out_count = count;
    return out;
}

/* costs and assignment may be None. -1 with an exception. */
static int round_read(struct round_arrays *arrays, unsigned int ranks, PyObject *owners, PyObject *costs,
                      PyObject *assignment)
{
    size_t count = 0, cost_count = 0, assigned = 0;
    *arrays = (struct round_arrays){.round = STOKER_BALANCE_ROUND_INIT};
    arrays->owners = narrow(owners, "owners", &count);
    if (arrays->owners == NULL) {
        return -1;
    }
    if (costs != Py_None) {
        arrays->costs = core_numbers(costs, "costs", &cost_count);
    } else {
        arrays->costs = PyMem_Calloc(count + 1, sizeof *arrays->costs);
        cost_count = count;
    }
    if (assignment != Py_None) {
        arrays->assignment = narrow(assignment, "assignment", &assigned);
    } else {
        arrays->assignment = PyMem_Malloc((count + 1) * sizeof *arrays->assignment);
        assigned = count;
    }
    arrays->scratch = PyMem_Malloc((count + 1) * sizeof *arrays->scratch);
    if (PyErr_Occurred() == NULL && (arrays->costs == NULL || arrays->assignment == NULL || arrays->scratch == NULL)) {
        PyErr_NoMemory();
    }
    if (PyErr_Occurred() == NULL && (cost_count != count || assigned != count || count > UINT_MAX)) {
        PyErr_Format(PyExc_ValueError, "a round of %zu samples has %zu costs and an assignment of %zu", count,
                     cost_count, assigned);
    }
    if (PyErr_Occurred() != NULL) {
        round_free(arrays);
        return -1;
    }
    arrays->round.ranks = ranks;
    arrays->round.count = (uint32_t)count;
    arrays->round.owners = arrays->owners;
    arrays->round.costs = arrays->costs;
    return 0;
}

static PyObject *list_of(const uint32_t *numbers, uint32_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (uint32_t i = 0; list != NULL && i < count; i++) {
        PyObject *number = PyLong_FromUnsignedLong(numbers[i]);
        if (number == NULL || PyList_SetItem(list, (Py_ssize_t)i, number) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *balance_propose(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"ranks", "owners", "costs", "transfer_cost", "min_gain_ppm", NULL};
    PyObject *owners, *costs;
    unsigned int ranks;
    unsigned long long transfer_cost = 0;
    stoker_balance_gate gate = STOKER_BALANCE_GATE_INIT;
    struct round_arrays arrays;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&OO|O&O&", names, CORE_NUMBER("ranks", ranks), &owners, &costs,
                                     CORE_NUMBER("transfer_cost", transfer_cost),
                                     CORE_NUMBER("min_gain_ppm", gate.min_gain_ppm)) ||
        round_read(&arrays, ranks, owners, costs, Py_None) < 0) {
        return NULL;
    }
    stoker_error err = {0};
    gate.transfer_cost = transfer_cost;
    stoker_status status = stoker_balance_propose(&arrays.round, arrays.scratch, arrays.assignment, &err);
    if (status == STOKER_OK) {
        status = stoker_balance_decide(&arrays.round, &gate, arrays.assignment, &err);
    }
    PyObject *made = status < 0 ? core_raise(status, &err, NULL, 0) : list_of(arrays.assignment, arrays.round.count);
    round_free(&arrays);
    return made;
}

static PyObject *balance_load(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *owners, *costs, *assignment = Py_None;
    unsigned int ranks;
    struct round_arrays arrays;
    if (!PyArg_ParseTuple(args, "O&OO|O", CORE_NUMBER("ranks", ranks), &owners, &costs, &assignment) ||
        round_read(&arrays, ranks, owners, costs, assignment) < 0) {
        return NULL;
    }
    stoker_error err = {0};
    uint64_t load = 0;
    stoker_status status =
        stoker_balance_load(&arrays.round, assignment != Py_None ? arrays.assignment : NULL, &load, &err);
    round_free(&arrays);
    return status < 0 ? core_raise(status, &err, NULL, 0) : PyLong_FromUnsignedLongLong(load);
}

static PyObject *balance_plan(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *owners, *assignment;
    unsigned int ranks;
    struct round_arrays arrays;
    if (!PyArg_ParseTuple(args, "O&OO", CORE_NUMBER("ranks", ranks), &owners, &assignment) ||
        round_read(&arrays, ranks, owners, Py_None, assignment) < 0) {
        return NULL;
    }
    stoker_error err = {0};
    size_t count = 0;
    stoker_balance_move *moves = PyMem_Malloc(((size_t)arrays.round.count + 1) * sizeof *moves);
    stoker_status status = STOKER_OK;
    PyObject *list = NULL;
    if (moves == NULL) {
        PyErr_NoMemory();
    } else {
        status = stoker_balance_plan(&arrays.round, arrays.assignment, moves, &count, &err);
        list = status < 0 ? core_raise(status, &err, NULL, 0) : PyList_New((Py_ssize_t)count);
    }
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *move = Py_BuildValue("(III)", moves[i].sample, moves[i].from, moves[i].to);
        if (move == NULL || PyList_SetItem(list, (Py_ssize_t)i, move) < 0) {
            Py_CLEAR(list);
        }
    }
    PyMem_Free(moves);
    round_free(&arrays);
    return list;
}

/* ------------------------------------------------------------------------------------------------------ exchange */

static PyObject *loader_gather(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *object, *members;
    unsigned long long number;
    Py_buffer data;
    if (!PyArg_ParseTuple(args, "OO&Oy*", &object, CORE_NUMBER("number", number), &members, &data)) {
        return NULL;
    }
    stoker_gather gather = {.number = number, .data = data.buf, .size = (size_t)data.len};
    uint32_t *ranks = narrow(members, "members", &gather.rank_count);
    stoker_loader *loader = ranks != NULL ? core_loader_enter(object) : NULL;
    stoker_error err = {0};
    stoker_status status = STOKER_OK;
    if (loader != NULL) {
        gather.ranks = ranks;
        status = stoker_loader_gather(loader, &gather, &err);
        core_loader_leave(object);
    }
    PyMem_Free(ranks);
    PyBuffer_Release(&data);
    if (loader == NULL) {
        return NULL;
    }
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

/* Waits in slices for what was gathered or given; sets an exception and returns a failure, or gives OK. */
static stoker_status wait_heard(PyObject *object, uint64_t number, uint64_t left_ns, PyObject **out_data,
                                stoker_batch **out_batch, uint32_t *out_tag)
{
    for (;;) {
        stoker_loader *loader = core_loader_enter(object);
        if (loader == NULL) {
            return STOKER_ERR_WRONG_STATE;
        }
        uint64_t slice_ns = left_ns < CORE_SLICE_NS ? left_ns : CORE_SLICE_NS;
        const void *data = NULL;
        size_t size = 0;
        stoker_error err = {0};
        stoker_status status;
        Py_BEGIN_ALLOW_THREADS
        status = out_data != NULL ? stoker_loader_gathered(loader, number, slice_ns, &data, &size, &err)
                                  : stoker_loader_take(loader, number, slice_ns, out_batch, out_tag, &err);
        Py_END_ALLOW_THREADS
        if (status == STOKER_OK && out_data != NULL) {
            *out_data = PyBytes_FromStringAndSize(data, (Py_ssize_t)size); /* borrowed until the next call */
            status = *out_data != NULL ? STOKER_OK : STOKER_ERR_NO_MEMORY;
        } else if (status < 0) {
            core_raise(status, &err, NULL, 0);
        }
        core_loader_leave(object);
        if (status != STOKER_AGAIN) {
            return status;
        }
        if (PyErr_CheckSignals() < 0) {
            return STOKER_ERR_WRONG_STATE;
        }
        if (left_ns != UINT64_MAX && (left_ns -= slice_ns) == 0) {
            PyErr_SetNone(PyExc_TimeoutError);
            return STOKER_ERR_TIMEOUT;
        }
    }
}

static PyObject *loader_gathered(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *object, *seconds = NULL, *data = NULL;
    unsigned long long number;
    uint64_t timeout_ns;
    if (!PyArg_ParseTuple(args, "OO&|O", &object, CORE_NUMBER("number", number), &seconds) ||
        core_duration(seconds, &timeout_ns) < 0) {
        return NULL;
    }
    return wait_heard(object, number, timeout_ns, &data, NULL, NULL) == STOKER_OK ? data : NULL;
}

static PyObject *loader_take(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *object, *seconds = NULL;
    unsigned long long number;
    uint64_t timeout_ns;
    stoker_batch *batch = NULL;
    uint32_t tag = 0;
    if (!PyArg_ParseTuple(args, "OO&|O", &object, CORE_NUMBER("number", number), &seconds) ||
        core_duration(seconds, &timeout_ns) < 0 ||
        wait_heard(object, number, timeout_ns, NULL, &batch, &tag) != STOKER_OK) {
        return NULL;
    }
    PyObject *wrapped = core_batch_wrap(batch);
    return wrapped != NULL ? Py_BuildValue("(NI)", wrapped, (unsigned int)tag) : NULL;
}

static PyObject *loader_give(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *object, *batch_object;
    unsigned int rank, tag;
    unsigned long long number;
    if (!PyArg_ParseTuple(args, "OOO&O&O&", &object, &batch_object, CORE_NUMBER("rank", rank),
                          CORE_NUMBER("number", number), CORE_NUMBER("tag", tag))) {
        return NULL;
    }
    stoker_batch *batch = core_batch_handle(batch_object);
    stoker_loader *loader = batch != NULL ? core_loader_enter(object) : NULL;
    if (loader == NULL) {
        return NULL;
    }
    stoker_error err = {0};
    stoker_status status = stoker_loader_give(loader, batch, rank, number, tag, &err);
    core_loader_leave(object);
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

static PyMethodDef balance_functions[] = {
    {"balance_propose", (PyCFunction)(void (*)(void))balance_propose, METH_VARARGS | METH_KEYWORDS,
     "balance_propose(ranks, owners, costs, transfer_cost=0, min_gain_ppm=0) -> list\n\nEach sample's rank."},
    {"balance_load", balance_load, METH_VARARGS,
     "balance_load(ranks, owners, costs, assignment=None) -> int\n\nLoad of the rank that has most."},
    {"balance_plan", balance_plan, METH_VARARGS,
     "balance_plan(ranks, owners, assignment) -> list of (sample, from, to)"},
    {"loader_gather", loader_gather, METH_VARARGS,
     "loader_gather(loader, number, ranks, data) -> None\n\nTell the ranks; never waits."},
    {"loader_gathered", loader_gathered, METH_VARARGS,
     "loader_gathered(loader, number, timeout=None) -> bytes\n\nWhat all ranks told, each after its size (u32)."},
    {"loader_give", loader_give, METH_VARARGS,
     "loader_give(loader, batch, rank, number, tag) -> None\n\nThe batch is that rank's; only drop it."},
    {"loader_take", loader_take, METH_VARARGS,
     "loader_take(loader, number, timeout=None) -> (Batch, tag)\n\nA batch that another rank gave."},
    {NULL, NULL, 0, NULL},
};

int core_balance_init(PyObject *module) { return PyModule_AddFunctions(module, balance_functions); }
