/* SPDX-License-Identifier: Apache-2.0
 *
 * Shared segments: created and reserved by the DataServer, mapped by ranks and workers (rules A2, A3).
 *
 * A segment is a memfd (or an unlinked file in a chosen directory), sealed against resizing, and reserved by
 * posix_fallocate in 64 MiB steps, so that a later touch can never end in SIGBUS. Before each step the room on the
 * machine and along the cgroup path is compared with what is needed plus a margin: an error instead of the kernel's
 * kill.
 */
#ifndef STK_SYS_SHMEM_H
#define STK_SYS_SHMEM_H

#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

/* Creates and reserves. Gives a descriptor (close-on-exec). NO_MEMORY names needed, available, and where the bound is
 * (machine, cgroup path, or directory), and says "lower max_bytes, or ...". NO_SPACE for a directory that is full. */
stoker_status stk_shmem_create(const char *directory, size_t size, int *out_fd, stoker_error *err);
/* Gives the pages back to the system at once, whoever still maps them. */
stoker_status stk_shmem_punch(int fd, size_t size, stoker_error *err);
/* Maps a whole segment read-write, MADV_DONTFORK if asked. The descriptor may be closed afterwards. MISMATCH if the
 * file is not of exactly this size or, for a memfd, not sealed against shrinking. */
stoker_status stk_shmem_map(int fd, size_t size, int dont_fork, void **out_address, stoker_error *err);
void stk_shmem_unmap(void *address, size_t size); /* NULL allowed */

/* A sealed, read-only blob that is passed by descriptor (datasets, manifests). */
stoker_status stk_shmem_blob_create(const void *data, size_t size, int *out_fd, stoker_error *err);
/* Maps it read-only: every seal is checked, so the sender cannot change or cut it. */
stoker_status stk_shmem_blob_map(int fd, const void **out_data, size_t *out_size, stoker_error *err);
void stk_shmem_blob_unmap(const void *data, size_t size);

/* Room for `size` more bytes of memory: NO_MEMORY as above, else OK. The file roots are parameters for tests: NULL
 * means /proc and /sys/fs/cgroup. Handles cgroup v1 (memory.limit_in_bytes - memory.usage_in_bytes + inactive file
 * pages) and v2 (memory.max, memory.high
 * - memory.current). */
stoker_status stk_memory_room(uint64_t size, const char *proc_root, const char *cgroup_root, stoker_error *err);

#endif
