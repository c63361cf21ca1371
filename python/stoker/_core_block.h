/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of items, lent to Python: blocks, parts of blocks, and tensors. Memory that nobody uses any more rests in its
 * pool and serves the next of its size: an allocation of that size goes to the system each time, and its pages would
 * cost more than the item. Functions need the interpreter lock where nothing else is said.
 */
#ifndef STOKER_PYTHON_CORE_BLOCK_H
#define STOKER_PYTHON_CORE_BLOCK_H

#include "_core.h"

enum { CORE_BLOCK_ALIGNMENT = 64, CORE_TENSOR_DIMS_MAX = 3 };

struct core_block_pool;

/* NULL with MemoryError set. */
struct core_block_pool *core_block_pool_create(void);
/* Gives up what rests; memory that is still lent stays valid. NULL allowed. */
void core_block_pool_close(struct core_block_pool *pool);
/* Gives up what rests. */
void core_block_pool_forget(struct core_block_pool *pool);

/* So many bytes, not initialised, with room for the descriptions of so many tensors; the caller holds a reference. NULL
 * with MemoryError set. */
struct core_memory;
struct core_memory *core_memory_take(struct core_block_pool *pool, size_t size, size_t tensors);
void *core_memory_data(struct core_memory *memory);
/* Returns a reference. Any thread, with the interpreter lock or without. */
void core_memory_drop(struct core_memory *memory);

/* Makes a tensor object of a DLManagedTensorVersioned, which it takes; 0, or -1 with an exception set. */
struct dl_managed;
typedef int core_tensor_maker(struct dl_managed *managed, void **out_object);
/* That of a type's __dlpack_c_exchange_api__; NULL with an exception set. */
core_tensor_maker *core_tensor_maker_of(PyObject *capsule);

struct core_tensor_form {
    uint8_t code, bits; /* as DLPack has them */
    int32_t ndim;
    int64_t shape[CORE_TENSOR_DIMS_MAX];
};
/* A tensor on memory from `offset` on, which holds a reference of its own; `number` is one that no other tensor of this
 * memory has. NULL with an exception set. */
PyObject *core_tensor_new(core_tensor_maker *maker, struct core_memory *memory, size_t number, size_t offset,
                          const struct core_tensor_form *form);

/* A new block of so many bytes, not initialised: an object with a writable buffer. NULL with MemoryError set. */
PyObject *core_block_new(struct core_block_pool *pool, size_t size);
void *core_block_data(PyObject *block);
size_t core_block_size(PyObject *block);
/* Bytes [offset, offset + size) of a block as an object of its own, which keeps the block. NULL with an exception
 * set. */
PyObject *core_block_part(PyObject *block, size_t offset, size_t size);

int core_block_init(PyObject *module);

#endif
