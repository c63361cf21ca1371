/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of items, lent to Python: blocks, and parts of blocks. Memory of a block that is gone rests in its pool and
 * serves the next block of its size: an allocation of that size goes to the system each time, and its pages would cost
 * more than the item. All of it under the interpreter lock.
 */
#ifndef STOKER_PYTHON_CORE_BLOCK_H
#define STOKER_PYTHON_CORE_BLOCK_H

#include "_core.h"

enum { CORE_BLOCK_ALIGNMENT = 64 };

struct core_block_pool;

/* NULL with MemoryError set. */
struct core_block_pool *core_block_pool_create(void);
/* Gives up what rests; blocks that are still lent stay valid. NULL allowed. */
void core_block_pool_close(struct core_block_pool *pool);
/* Gives up what rests. */
void core_block_pool_forget(struct core_block_pool *pool);

/* A new block of so many bytes, not initialised: an object with a writable buffer. NULL with MemoryError set. */
PyObject *core_block_new(struct core_block_pool *pool, size_t size);
void *core_block_data(PyObject *block);
size_t core_block_size(PyObject *block);
/* Bytes [offset, offset + size) of a block as an object of its own, which keeps the block. NULL with an exception
 * set. */
PyObject *core_block_part(PyObject *block, size_t offset, size_t size);

int core_block_init(PyObject *module);

#endif
