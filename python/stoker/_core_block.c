/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of items, lent to Python (ItemBlock): see _core_block.h.
 */
#include "_core_block.h"

#include <stdlib.h>

enum { RESTING_MAX = 8 };
#define RESTING_BYTES_MAX ((size_t)64 << 20) /* of one pool: a few batches */

struct core_block_pool {
    size_t references; /* the owner's, and one for each block */
    int closed;
    int count;
    size_t bytes;
    struct {
        void *data;
        size_t size;
    } resting[RESTING_MAX];
};

struct block_object {
    PyObject_HEAD struct core_block_pool *pool; /* NULL: a part */
    PyObject *base;                             /* of a part: the block that it belongs to */
    void *data;
    size_t size;
};

static PyTypeObject *block_type;

/* ------------------------------------------------------------------------------------------------------------- pool */

struct core_block_pool *core_block_pool_create(void)
{
    struct core_block_pool *pool = calloc(1, sizeof *pool);
    if (pool == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    pool->references = 1;
    return pool;
}

static void unref(struct core_block_pool *pool)
{
    if (--pool->references == 0) {
        free(pool);
    }
}

void core_block_pool_forget(struct core_block_pool *pool)
{
    while (pool->count > 0) {
        free(pool->resting[--pool->count].data);
    }
    pool->bytes = 0;
}

void core_block_pool_close(struct core_block_pool *pool)
{
    if (pool != NULL) {
        core_block_pool_forget(pool);
        pool->closed = 1;
        unref(pool);
    }
}

static void *take(struct core_block_pool *pool, size_t size)
{
    for (int i = pool->count - 1; i >= 0; i--) { /* the latest is warmest */
        if (pool->resting[i].size == size) {
            void *data = pool->resting[i].data;
            pool->resting[i] = pool->resting[--pool->count];
            pool->bytes -= size;
            return data;
        }
    }
    size_t whole = (size + CORE_BLOCK_ALIGNMENT - 1) / CORE_BLOCK_ALIGNMENT * CORE_BLOCK_ALIGNMENT;
    return whole < size ? NULL : aligned_alloc(CORE_BLOCK_ALIGNMENT, whole > 0 ? whole : CORE_BLOCK_ALIGNMENT);
}

static void give_back(struct core_block_pool *pool, void *data, size_t size)
{
    if (data == NULL || pool->closed || pool->count == RESTING_MAX || size > RESTING_BYTES_MAX - pool->bytes) {
        free(data);
        return;
    }
    pool->resting[pool->count].data = data;
    pool->resting[pool->count++].size = size;
    pool->bytes += size;
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
    block->pool = pool;
    pool->references++;
    block->size = size;
    block->data = take(pool, size);
    if (block->data == NULL) {
        Py_DECREF((PyObject *)block);
        return PyErr_NoMemory();
    }
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
    if (block->pool != NULL) {
        give_back(block->pool, block->data, block->size);
        unref(block->pool);
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
