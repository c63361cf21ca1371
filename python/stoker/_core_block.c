/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of items, lent to Python as buffers (ItemBlock) and as tensors: see _core_block.h.
 *
 * Tensors are made by the table of functions that a library offers for DLPack (`__dlpack_c_exchange_api__`): a call of
 * Python for each would take twice the time. What DLPack must know of a tensor lies with the memory, and rests with it.
 */
#include "_core_block.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

enum { RESTING_MAX = 8 };
#define RESTING_BYTES_MAX ((size_t)64 << 20) /* of one pool: a few batches */

/* The structs of DLPack 1; the layout is fixed by the protocol. */
struct dl_version {
    uint32_t major, minor;
};

struct dl_tensor {
    void *data;
    int32_t device_type, device_id;
    int32_t ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
};

struct dl_managed {
    struct dl_version version;
    void *manager;
    void (*deleter)(struct dl_managed *);
    uint64_t flags; /* 0: may be written */
    struct dl_tensor tensor;
};

struct dl_exchange {
    struct dl_version version;
    const struct dl_exchange *older;
    void (*allocate)(void), (*from_object)(void);
    core_tensor_maker *to_object;
};

enum { DL_MAJOR = 1, DL_CPU = 1 };

struct lent {
    struct dl_managed managed;
    int64_t shape[CORE_TENSOR_DIMS_MAX], strides[CORE_TENSOR_DIMS_MAX];
};

struct core_memory {
    atomic_size_t references;
    struct core_block_pool *pool;
    size_t size, tensors;
    void *data;
    struct lent lent[]; /* [tensors] */
};

/* Tensors are dropped on any thread, so nothing here needs the interpreter lock. Who finds the list in use goes without
 * it: nobody waits, and a child that was forked meanwhile does not either. */
struct core_block_pool {
    atomic_size_t references; /* the owner's, and one for each memory in use */
    atomic_bool closed;
    atomic_flag busy; /* guards the rest */
    int count;
    size_t bytes;
    struct core_memory *resting[RESTING_MAX];
};

struct block_object {
    PyObject_HEAD struct core_memory *memory; /* NULL: a part */
    PyObject *base;                           /* of a part: the block that it belongs to */
    void *data;
    size_t size;
};

static PyTypeObject *block_type;

/* ------------------------------------------------------------------------------------------------------------- pool */

static int seize(struct core_block_pool *pool)
{
    return !atomic_flag_test_and_set_explicit(&pool->busy, memory_order_acquire);
}

static void release(struct core_block_pool *pool) { atomic_flag_clear_explicit(&pool->busy, memory_order_release); }

struct core_block_pool *core_block_pool_create(void)
{
    struct core_block_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    atomic_init(&pool->references, 1);
    atomic_flag_clear(&pool->busy);
    return pool;
}

static void free_memory(struct core_memory *memory)
{
    free(memory->data);
    free(memory);
}

static void forget(struct core_block_pool *pool)
{
    while (pool->count > 0) {
        free_memory(pool->resting[--pool->count]);
    }
    pool->bytes = 0;
}

static void unref(struct core_block_pool *pool)
{
    if (atomic_fetch_sub_explicit(&pool->references, 1, memory_order_acq_rel) == 1) {
        forget(pool);
        free(pool);
    }
}

void core_block_pool_forget(struct core_block_pool *pool)
{
    if (seize(pool)) { /* else what rests there is of no use any more, and goes with the pool */
        forget(pool);
        release(pool);
    }
}

void core_block_pool_close(struct core_block_pool *pool)
{
    if (pool != NULL) {
        atomic_store(&pool->closed, true);
        core_block_pool_forget(pool);
        unref(pool);
    }
}

/* ----------------------------------------------------------------------------------------------------------- memory */

static struct core_memory *take_resting(struct core_block_pool *pool, size_t size, size_t tensors)
{
    struct core_memory *memory = NULL;
    if (!seize(pool)) {
        return NULL;
    }
    for (int i = pool->count - 1; i >= 0 && memory == NULL; i--) { /* the latest is warmest */
        if (pool->resting[i]->size == size && pool->resting[i]->tensors == tensors) {
            memory = pool->resting[i];
            pool->resting[i] = pool->resting[--pool->count];
            pool->bytes -= size;
        }
    }
    release(pool);
    return memory;
}

static struct core_memory *new_memory(size_t size, size_t tensors)
{
    struct core_memory *memory;
    size_t whole = (size + CORE_BLOCK_ALIGNMENT - 1) / CORE_BLOCK_ALIGNMENT * CORE_BLOCK_ALIGNMENT;
    if (whole < size || tensors > (SIZE_MAX - sizeof *memory) / sizeof *memory->lent) {
        return NULL;
    }
    memory = malloc(sizeof *memory + tensors * sizeof *memory->lent);
    if (memory != NULL) {
        *memory = (struct core_memory){.size = size, .tensors = tensors};
        memory->data = aligned_alloc(CORE_BLOCK_ALIGNMENT, whole > 0 ? whole : CORE_BLOCK_ALIGNMENT);
        if (memory->data == NULL) {
            free(memory);
            memory = NULL;
        }
    }
    return memory;
}

struct core_memory *core_memory_take(struct core_block_pool *pool, size_t size, size_t tensors)
{
    struct core_memory *memory = take_resting(pool, size, tensors);
    if (memory == NULL && (memory = new_memory(size, tensors)) == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memory->pool = pool;
    atomic_fetch_add_explicit(&pool->references, 1, memory_order_relaxed);
    atomic_store_explicit(&memory->references, 1, memory_order_relaxed);
    return memory;
}

void *core_memory_data(struct core_memory *memory) { return memory->data; }

void core_memory_drop(struct core_memory *memory)
{
    if (atomic_fetch_sub_explicit(&memory->references, 1, memory_order_acq_rel) != 1) {
        return;
    }
    struct core_block_pool *pool = memory->pool;
    if (!atomic_load(&pool->closed) && seize(pool)) {
        if (pool->count < RESTING_MAX && memory->size <= RESTING_BYTES_MAX - pool->bytes) {
            pool->resting[pool->count++] = memory;
            pool->bytes += memory->size;
            memory = NULL;
        }
        release(pool);
    }
    if (memory != NULL) {
        free_memory(memory);
    }
    unref(pool);
}

/* ---------------------------------------------------------------------------------------------------------- tensors */

core_tensor_maker *core_tensor_maker_of(PyObject *capsule)
{
    const struct dl_exchange *exchange = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    if (exchange == NULL) {
        return NULL;
    }
    while (exchange != NULL && exchange->version.major != DL_MAJOR) {
        exchange = exchange->older;
    }
    if (exchange == NULL || exchange->to_object == NULL) {
        PyErr_SetString(PyExc_ValueError, "the table of functions is not that of DLPack 1");
        return NULL;
    }
    return exchange->to_object;
}

static void delete_lent(struct dl_managed *managed) { core_memory_drop(managed->manager); }

PyObject *core_tensor_new(core_tensor_maker *maker, struct core_memory *memory, size_t number, size_t offset,
                          const struct core_tensor_form *form)
{
    struct lent *lent = &memory->lent[number];
    int64_t stride = 1;
    for (int i = form->ndim - 1; i >= 0; i--) {
        lent->shape[i] = form->shape[i];
        lent->strides[i] = stride;
        stride *= form->shape[i];
    }
    lent->managed = (struct dl_managed){.version = {DL_MAJOR, 0},
                                        .manager = memory,
                                        .deleter = delete_lent,
                                        .tensor = {.data = (char *)memory->data + offset,
                                                   .device_type = DL_CPU,
                                                   .ndim = form->ndim,
                                                   .code = form->code,
                                                   .bits = form->bits,
                                                   .lanes = 1,
                                                   .shape = lent->shape,
                                                   .strides = lent->strides}};
    void *tensor = NULL;
    atomic_fetch_add_explicit(&memory->references, 1, memory_order_relaxed);
    /* On failure the memory counts as lent for ever: the protocol does not say whether it was given back. */
    return maker(&lent->managed, &tensor) == 0 ? tensor : NULL;
}

/* ----------------------------------------------------------------------------------------------------------- blocks */

static struct block_object *new_object(void)
{
    return (struct block_object *)((allocfunc)PyType_GetSlot(block_type, Py_tp_alloc))(block_type, 0);
}

PyObject *core_block_new(struct core_block_pool *pool, size_t size)
{
    struct block_object *block = new_object();
    if (block == NULL) {
        return NULL;
    }
    block->size = size;
    block->memory = core_memory_take(pool, size, 0);
    if (block->memory == NULL) {
        Py_DECREF((PyObject *)block);
        return NULL;
    }
    block->data = block->memory->data;
    return (PyObject *)block;
}

void *core_block_data(PyObject *block) { return ((struct block_object *)block)->data; }

size_t core_block_size(PyObject *block) { return ((struct block_object *)block)->size; }

PyObject *core_block_part(PyObject *block, size_t offset, size_t size)
{
    struct block_object *whole = (struct block_object *)block, *part = new_object();
    if (part != NULL) {
        part->base = Py_NewRef(block);
        part->data = (char *)whole->data + offset;
        part->size = size;
    }
    return (PyObject *)part;
}

static int block_buffer(PyObject *self, Py_buffer *out, int flags)
{
    struct block_object *block = (struct block_object *)self;
    return PyBuffer_FillInfo(out, self, block->data, (Py_ssize_t)block->size, 0, flags);
}

static void block_dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    struct block_object *block = (struct block_object *)self;
    if (block->memory != NULL) {
        core_memory_drop(block->memory);
    }
    Py_XDECREF(block->base);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyType_Slot block_slots[] = {
    {Py_tp_dealloc, block_dealloc},
    {Py_bf_getbuffer, block_buffer},
    {0, NULL},
};

static PyType_Spec block_spec = {
    .name = "stoker._core.ItemBlock",
    .basicsize = sizeof(struct block_object),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = block_slots,
};

int core_block_init(PyObject *module)
{
    block_type = core_add_type(module, "ItemBlock", &block_spec);
    return block_type == NULL ? -1 : 0;
}
