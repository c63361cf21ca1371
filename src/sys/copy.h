/* SPDX-License-Identifier: Apache-2.0
 *
 * Bytes from file to file, inside the kernel where it can.
 */
#ifndef STK_SYS_COPY_H
#define STK_SYS_COPY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <stoker/error.h>

/* Copies the first `size` bytes of `from` to `to` at `to_offset`. The position of `to` may move. With `push`
 * they begin to go to the disk at once, so that a later sync waits less. CORRUPT: `from` ends
 * before; CANCELED: *stop became true (NULL: nobody says so); IO, NO_SPACE, NO_MEMORY. The caller adds the names. */
stoker_status stk_copy_bytes(int from, int to, uint64_t to_offset, uint64_t size, bool push, const atomic_bool *stop,
                             stoker_error *err);

#endif
