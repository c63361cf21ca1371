/* SPDX-License-Identifier: Apache-2.0
 *
 * The segments that this process has mapped: what a rank or worker needs to turn a region of a message into memory. A
 * segment is mapped when its descriptor first arrives and stays mapped until the DataServer says UNMAP and nothing uses
 * it any more.
 *
 * The table is counted: batches hold references to single mappings, so that the last view unmaps, whatever became of
 * the table (rule A6). References may be dropped on any thread; everything else belongs to the table's owner.
 */
#ifndef STK_TRANSPORT_SHM_H
#define STK_TRANSPORT_SHM_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

struct stk_shm_table;
struct stk_shm_mapping;

stoker_status stk_shm_table_create(int dont_fork, struct stk_shm_table **out_table, stoker_error *err);
/* Unreferenced mappings are unmapped now, the others by their last unref. NULL allowed. */
void stk_shm_table_destroy(struct stk_shm_table *table);

/* Adds a segment; takes `fd` (closed after mapping, even on failure). One that there is no memory for now is mapped
 * when it is first used. PROTOCOL if the id is known already. */
stoker_status stk_shm_table_add(struct stk_shm_table *table, uint64_t segment_id, uint64_t segment_bytes, int fd,
                                stoker_error *err);
/* Gives a reference and the address of `size` bytes at `offset`; PROTOCOL if the segment is not known or the range is
 * outside it, NO_MEMORY if it cannot be mapped (the next call tries again). */
stoker_status stk_shm_table_resolve(struct stk_shm_table *table, uint64_t segment_id, uint64_t offset, uint64_t size,
                                    struct stk_shm_mapping **out_mapping, void **out_address, stoker_error *err);
/* Forgets a segment; its memory is unmapped when the last reference goes. Unknown ids are ignored. */
void stk_shm_table_remove(struct stk_shm_table *table, uint64_t segment_id);

void stk_shm_mapping_ref(struct stk_shm_mapping *mapping);
void stk_shm_mapping_unref(struct stk_shm_mapping *mapping); /* any thread, lock-free, NULL allowed */

#endif
