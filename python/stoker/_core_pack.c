/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing for Python: schedules as nested lists (micro-batch, rank, id), routes as lists, arrays as bytearrays. Lengths
 * and prefix sums come in as buffers of 32-bit integers.
 *
 * Schedules are made without the interpreter lock.
 */
#include "_core.h"

#include <stdlib.h>
#include <string.h>

#include <stoker/pack.h>

/* The memory of one call, aligned to 16; NULL with an exception set. */
static void *take_block(size_t size)
{
    void *block = size > 0 && size < SIZE_MAX - 16 ? aligned_alloc(16, (size + 15) / 16 * 16) : NULL;
    if (block == NULL) {
        PyErr_NoMemory();
    }
    return block;
}

static int check_words(const Py_buffer *buffer, const char *name)
{
    if (buffer->len % 4 != 0) {
        PyErr_Format(PyExc_ValueError, "%s has %zd bytes, expected 32-bit integers", name, buffer->len);
        return -1;
    }
    return 0;
}

static PyObject *list_of_words(const uint32_t *words, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *item = PyLong_FromUnsignedLong(words[i]);
        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

static PyObject *list_of_longs(const uint64_t *values, size_t count)
{
    PyObject *list = PyList_New((Py_ssize_t)count);
    for (size_t i = 0; list != NULL && i < count; i++) {
        PyObject *item = PyLong_FromUnsignedLongLong(values[i]);
        if (item == NULL || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) {
            Py_CLEAR(list);
        }
    }
    return list;
}

/* Each rank gets a list of its own, so that a caller may change one. */
static PyObject *groups_of(const stoker_pack_schedule *schedule)
{
    PyObject *groups = PyList_New((Py_ssize_t)schedule->microbatches);
    for (uint32_t m = 0; groups != NULL && m < schedule->microbatches; m++) {
        PyObject *ranks = PyList_New((Py_ssize_t)schedule->ranks);
        if (ranks == NULL || PyList_SetItem(groups, (Py_ssize_t)m, ranks) < 0) {
            Py_CLEAR(groups);
        }
    }
    for (size_t i = 0; groups != NULL && i < schedule->span_count; i++) {
        const stoker_pack_span *span = &schedule->spans[i];
        PyObject *ranks = PyList_GetItem(groups, (Py_ssize_t)span->microbatch);
        for (uint32_t r = span->first_rank; groups != NULL && r < span->first_rank + span->ranks; r++) {
            PyObject *ids = list_of_words(schedule->samples + span->first, span->count);
            if (ids == NULL || PyList_SetItem(ranks, (Py_ssize_t)r, ids) < 0) {
                Py_CLEAR(groups);
            }
        }
    }
    return groups;
}

static PyObject *pack_schedule(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"kind",          "lengths",     "tokens_per_rank", "data_ranks",
                            "context_ranks", "stage_group", "linear_tokens",   NULL};
    Py_buffer lengths;
    int kind;
    stoker_pack_options options = STOKER_PACK_OPTIONS_INIT;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "iy*O&|O&O&O&O&", names, &kind, &lengths,
            CORE_NUMBER("tokens_per_rank", options.tokens_per_rank), CORE_NUMBER("data_ranks", options.data_ranks),
            CORE_NUMBER("context_ranks", options.context_ranks), CORE_NUMBER("stage_group", options.stage_group),
            CORE_NUMBER("linear_tokens", options.linear_tokens))) {
        return NULL;
    }
    PyObject *result = NULL;
    size_t count = (size_t)lengths.len / 4, size = stoker_pack_schedule_bytes((stoker_pack_kind)kind, count);
    /* A size of 0 is told apart by the call itself, which names the reason. */
    void *block = check_words(&lengths, "lengths") == 0 ? take_block(size > 0 ? size : 16) : NULL;
    if (block != NULL) {
        stoker_pack_schedule schedule;
        stoker_error err = {0};
        stoker_status status;
        Py_BEGIN_ALLOW_THREADS
        status = stoker_pack_schedule_make((stoker_pack_kind)kind, lengths.buf, count, &options, block, size, &schedule,
                                           &err);
        Py_END_ALLOW_THREADS
        result = status < 0 ? core_raise(status, &err, NULL, 0) : groups_of(&schedule);
    }
    free(block);
    PyBuffer_Release(&lengths);
    return result;
}

static PyObject *pack_ranks_needed(PyObject *self, PyObject *args)
{
    (void)self;
    unsigned int length, tokens_per_rank;
    if (!PyArg_ParseTuple(args, "O&O&", CORE_NUMBER("length", length),
                          CORE_NUMBER("tokens_per_rank", tokens_per_rank))) {
        return NULL;
    }
    return PyLong_FromUnsignedLong(stoker_pack_ranks_needed(length, tokens_per_rank));
}

static PyObject *pack_buckets(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer lengths;
    unsigned int tokens_per_rank;
    if (!PyArg_ParseTuple(args, "y*O&", &lengths, CORE_NUMBER("tokens_per_rank", tokens_per_rank))) {
        return NULL;
    }
    PyObject *result = NULL;
    uint32_t *ends = check_words(&lengths, "lengths") == 0 ? take_block((size_t)lengths.len + 4) : NULL;
    if (ends != NULL) {
        size_t count;
        stoker_error err = {0};
        stoker_status status =
            stoker_pack_buckets(lengths.buf, (size_t)lengths.len / 4, tokens_per_rank, ends, &count, &err);
        result = status < 0 ? core_raise(status, &err, NULL, 0) : list_of_words(ends, count);
    }
    free(ends);
    PyBuffer_Release(&lengths);
    return result;
}

static PyObject *pack_offsets(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer counts;
    if (!PyArg_ParseTuple(args, "y*", &counts)) {
        return NULL;
    }
    PyObject *result = NULL;
    uint32_t *offsets = check_words(&counts, "counts") == 0 ? take_block((size_t)counts.len + 4) : NULL;
    if (offsets != NULL) {
        stoker_error err = {0};
        stoker_status status = stoker_pack_offsets(counts.buf, (size_t)counts.len / 4, offsets, &err);
        result = status < 0 ? core_raise(status, &err, NULL, 0) : list_of_words(offsets, (size_t)counts.len / 4 + 1);
    }
    free(offsets);
    PyBuffer_Release(&counts);
    return result;
}

/* ----------------------------------------------------------------------------------------------------------- routes */

/* A schedule that came from Python: one span a cell. */
struct groups {
    stoker_pack_schedule schedule;
    stoker_pack_span *spans;
    uint32_t *samples;
};

static void groups_drop(struct groups *groups)
{
    PyMem_Free(groups->spans);
    PyMem_Free(groups->samples);
}

/* Adds the ids of one cell; -1 with an exception set. */
static int groups_add(struct groups *groups, PyObject *ids, uint32_t microbatch, uint32_t rank)
{
    Py_ssize_t count = PySequence_Size(ids);
    size_t held = groups->schedule.sample_count;
    if (count < 0) {
        return -1;
    }
    uint32_t *samples = PyMem_Realloc(groups->samples, (held + (size_t)count + 1) * sizeof *samples);
    if (samples == NULL || held + (size_t)count > UINT32_MAX) {
        PyErr_NoMemory();
        return -1;
    }
    groups->samples = samples;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *item = PySequence_GetItem(ids, i);
        PyObject *number = item != NULL ? PyNumber_Index(item) : NULL;
        unsigned long value = number != NULL ? PyLong_AsUnsignedLong(number) : 0;
        Py_XDECREF(number);
        Py_XDECREF(item);
        if (PyErr_Occurred() != NULL) {
            return -1;
        }
        if (value > UINT32_MAX) {
            PyErr_Format(PyExc_ValueError, "sample %lu of micro-batch %u, rank %u, expected less than 2^32", value,
                         microbatch, rank);
            return -1;
        }
        samples[held + (size_t)i] = (uint32_t)value;
    }
    groups->spans[groups->schedule.span_count++] = (stoker_pack_span){
        .microbatch = microbatch, .first_rank = rank, .ranks = 1, .first = (uint32_t)held, .count = (uint32_t)count};
    groups->schedule.sample_count = held + (size_t)count;
    return 0;
}

static int groups_read(struct groups *groups, PyObject *nested, uint32_t ranks)
{
    Py_ssize_t microbatches = PySequence_Size(nested);
    if (microbatches < 0) {
        return -1;
    }
    groups->spans = PyMem_Calloc((size_t)microbatches + 1, ranks * sizeof *groups->spans + 1);
    if (groups->spans == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t m = 0; m < microbatches; m++) {
        PyObject *cells = PySequence_GetItem(nested, m);
        int good = cells != NULL && PySequence_Size(cells) == (Py_ssize_t)ranks;
        if (cells != NULL && !good && PyErr_Occurred() == NULL) {
            PyErr_Format(PyExc_ValueError, "micro-batch %zd has %zd ranks, expected %u", m, PySequence_Size(cells),
                         ranks);
        }
        for (uint32_t r = 0; good && r < ranks; r++) {
            PyObject *ids = PySequence_GetItem(cells, (Py_ssize_t)r);
            good = ids != NULL && groups_add(groups, ids, (uint32_t)m, r) == 0;
            Py_XDECREF(ids);
        }
        Py_XDECREF(cells);
        if (!good) {
            return -1;
        }
    }
    groups->schedule.microbatches = (uint32_t)microbatches;
    groups->schedule.ranks = ranks;
    groups->schedule.spans = groups->spans;
    groups->schedule.samples = groups->samples;
    return 0;
}

static PyObject *route_of(const struct groups *groups, const uint32_t *lengths, const stoker_pack_owners *owners)
{
    size_t size = stoker_pack_route_bytes(&groups->schedule, owners);
    void *block = take_block(size > 0 ? size : 16);
    if (block == NULL) {
        return NULL;
    }
    stoker_pack_route route;
    stoker_error err = {0};
    stoker_status status = stoker_pack_route_make(&groups->schedule, lengths, owners, block, size, &route, &err);
    PyObject *result = NULL;
    if (status < 0) {
        core_raise(status, &err, NULL, 0);
    } else {
        size_t ranks = groups->schedule.ranks;
        result = Py_BuildValue("{s:N,s:N,s:N,s:N,s:N,s:N}", "send_ids", list_of_words(route.send_ids, route.send_count),
                               "receive_ids", list_of_words(route.receive_ids, route.receive_count), "send_tokens",
                               list_of_longs(route.send_tokens, ranks), "receive_tokens",
                               list_of_longs(route.receive_tokens, ranks), "send_samples",
                               list_of_words(route.send_samples, ranks), "receive_samples",
                               list_of_words(route.receive_samples, ranks));
    }
    free(block);
    return result;
}

static PyObject *pack_route(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"groups", "lengths", "members", "offsets", "ranks", "rank", NULL};
    PyObject *nested, *result = NULL;
    Py_buffer lengths, members, offsets;
    unsigned int ranks, rank;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oy*y*y*O&O&", names, &nested, &lengths, &members, &offsets,
                                     CORE_NUMBER("ranks", ranks), CORE_NUMBER("rank", rank))) {
        return NULL;
    }
    struct groups groups = {0};
    size_t member_count = (size_t)members.len / 4;
    const uint32_t *ends = offsets.buf;
    if (check_words(&lengths, "lengths") == 0 && check_words(&members, "members") == 0 &&
        check_words(&offsets, "offsets") == 0) {
        if (member_count == 0 || (size_t)offsets.len / 4 != member_count + 1 ||
            ends[member_count] != (size_t)lengths.len / 4) {
            PyErr_Format(PyExc_ValueError, "%zu members, %zd offsets and %zd lengths do not belong together",
                         member_count, offsets.len / 4, lengths.len / 4);
        } else if (groups_read(&groups, nested, ranks) == 0) {
            stoker_pack_owners owners = {
                .members = members.buf, .member_count = member_count, .offsets = ends, .rank = rank};
            result = route_of(&groups, lengths.buf, &owners);
        }
    }
    groups_drop(&groups);
    PyBuffer_Release(&lengths);
    PyBuffer_Release(&members);
    PyBuffer_Release(&offsets);
    return result;
}

/* ----------------------------------------------------------------------------------------------------------- arrays */

static PyObject *bytes_of(const void *data, size_t size)
{
    return PyByteArray_FromStringAndSize(data, (Py_ssize_t)size);
}

static PyObject *pack_cumulate(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer lengths;
    if (!PyArg_ParseTuple(args, "y*", &lengths)) {
        return NULL;
    }
    PyObject *result = NULL;
    size_t count = (size_t)lengths.len / 4;
    int32_t *cu = check_words(&lengths, "lengths") == 0 ? take_block((count + 1) * sizeof *cu) : NULL, longest;
    if (cu != NULL) {
        stoker_error err = {0};
        stoker_status status = stoker_pack_cumulate(lengths.buf, count, cu, &longest, &err);
        result = status < 0 ? core_raise(status, &err, NULL, 0)
                            : Py_BuildValue("(Ni)", bytes_of(cu, (count + 1) * sizeof *cu), (int)longest);
    }
    free(cu);
    PyBuffer_Release(&lengths);
    return result;
}

static PyObject *pack_padding_mask(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer cu, padded;
    if (!PyArg_ParseTuple(args, "y*y*", &cu, &padded)) {
        return NULL;
    }
    PyObject *result = NULL;
    size_t count = (size_t)cu.len / 4;
    if (check_words(&cu, "cu_seqlens") == 0 && (cu.len != padded.len || count == 0)) {
        PyErr_Format(PyExc_ValueError, "cu_seqlens has %zu entries, cu_seqlens_padded %zd", count, padded.len / 4);
    } else if (PyErr_Occurred() == NULL) {
        int32_t total = ((const int32_t *)padded.buf)[count - 1];
        uint8_t *mask = take_block(total > 0 ? (size_t)total : 1);
        stoker_error err = {0};
        if (mask != NULL) {
            stoker_status status = stoker_pack_padding_mask(cu.buf, padded.buf, count, mask, &err);
            result = status < 0 ? core_raise(status, &err, NULL, 0) : bytes_of(mask, (size_t)total);
        }
        free(mask);
    }
    PyBuffer_Release(&cu);
    PyBuffer_Release(&padded);
    return result;
}

static PyObject *pack_slice(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer padded;
    stoker_pack_part part;
    if (!PyArg_ParseTuple(args, "y*O&O&", &padded, CORE_NUMBER("ranks", part.ranks), CORE_NUMBER("rank", part.rank))) {
        return NULL;
    }
    PyObject *result = NULL;
    size_t count = (size_t)padded.len / 4;
    int32_t total = count > 0 ? ((const int32_t *)padded.buf)[count - 1] : 0;
    size_t places = total > 0 && part.ranks > 0 ? (size_t)total / part.ranks : 0;
    int64_t *block = check_words(&padded, "cu_seqlens_padded") == 0 ? take_block((places + 1) * sizeof *block) : NULL;
    if (block != NULL) {
        stoker_error err = {0};
        stoker_status status = stoker_pack_slice(padded.buf, count, part, block, &err);
        result = status < 0 ? core_raise(status, &err, NULL, 0) : bytes_of(block, places * sizeof *block);
    }
    free(block);
    PyBuffer_Release(&padded);
    return result;
}

static PyObject *pack_sequence_index(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer cu;
    long long total;
    if (!PyArg_ParseTuple(args, "y*L", &cu, &total)) {
        return NULL;
    }
    PyObject *result = NULL;
    size_t entries = 0;
    stoker_error err = {0};
    stoker_status status = STOKER_OK;
    if (check_words(&cu, "cu_seqlens") == 0) {
        status = stoker_pack_sequence_index(cu.buf, (size_t)cu.len / 4, total, NULL, &entries, &err);
        int32_t *index = status < 0 ? NULL : take_block((entries + 1) * sizeof *index);
        if (index != NULL) {
            status = stoker_pack_sequence_index(cu.buf, (size_t)cu.len / 4, total, index, &entries, &err);
            result = bytes_of(index, entries * sizeof *index);
        }
        free(index);
    }
    if (status < 0) {
        Py_CLEAR(result);
        core_raise(status, &err, NULL, 0);
    }
    PyBuffer_Release(&cu);
    return result;
}

static PyObject *pack_sum(PyObject *self, PyObject *args)
{
    (void)self;
    Py_buffer lengths;
    if (!PyArg_ParseTuple(args, "y*", &lengths)) {
        return NULL;
    }
    PyObject *result = NULL;
    stoker_pack_statistics sums;
    stoker_error err = {0};
    if (check_words(&lengths, "lengths") == 0) {
        stoker_status status = stoker_pack_sum(lengths.buf, (size_t)lengths.len / 4, &sums, &err);
        result = status < 0 ? core_raise(status, &err, NULL, 0)
                            : Py_BuildValue("(KK)", (unsigned long long)sums.tokens, (unsigned long long)sums.squares);
    }
    PyBuffer_Release(&lengths);
    return result;
}

static PyMethodDef pack_functions[] = {
    {"pack_schedule", (PyCFunction)(void (*)(void))pack_schedule, METH_VARARGS | METH_KEYWORDS,
     "pack_schedule(kind, lengths, tokens_per_rank, data_ranks=1, ...) -> list\n\nIds of each micro-batch and rank."},
    {"pack_ranks_needed", pack_ranks_needed, METH_VARARGS, "pack_ranks_needed(length, tokens_per_rank) -> int"},
    {"pack_buckets", pack_buckets, METH_VARARGS, "pack_buckets(lengths, tokens_per_rank) -> list\n\nEnds of buckets."},
    {"pack_offsets", pack_offsets, METH_VARARGS, "pack_offsets(counts) -> list\n\nPrefix sums, one entry more."},
    {"pack_route", (PyCFunction)(void (*)(void))pack_route, METH_VARARGS | METH_KEYWORDS,
     "pack_route(groups, lengths, members, offsets, ranks, rank) -> dict\n\nWhat one rank sends and receives."},
    {"pack_cumulate", pack_cumulate, METH_VARARGS, "pack_cumulate(lengths) -> (int32 bytes, longest)"},
    {"pack_padding_mask", pack_padding_mask, METH_VARARGS, "pack_padding_mask(cu, cu_padded) -> one byte a token"},
    {"pack_slice", pack_slice, METH_VARARGS, "pack_slice(cu_padded, ranks, rank) -> int64 bytes\n\nPlaces of tokens."},
    {"pack_sequence_index", pack_sequence_index, METH_VARARGS, "pack_sequence_index(cu, total_tokens) -> int32 bytes"},
    {"pack_sum", pack_sum, METH_VARARGS, "pack_sum(lengths) -> (sum of L, sum of L * L)"},
    {NULL, NULL, 0, NULL},
};

int core_pack_init(PyObject *module) { return PyModule_AddFunctions(module, pack_functions); }
