/* SPDX-License-Identifier: Apache-2.0
 *
 * What a process that handles bytes from outside gives up before it begins. The claim is crash containment: a decoder
 * that goes wrong cannot start programs, talk to the network, change files or touch other processes. It is not
 * integrity of the memory that it may write.
 *
 * Refused calls answer EPERM, or ENOSYS where the C library falls back to a call that can be judged; nothing is killed.
 */
#ifndef STK_SYS_SANDBOX_H
#define STK_SYS_SANDBOX_H

#include <stdint.h>

#include <stoker/error.h>

/* Of a process whose files lie in object storage: it may open connections, but accepts none. */
enum stk_sandbox_network { STK_SANDBOX_OFFLINE, STK_SANDBOX_CONNECTS };

/* Locks the calling process and all its threads, for good. Reading files by name stays possible. UNSUPPORTED if this
 * build or the kernel cannot (the message says which), and then nothing has changed. */
stoker_status stk_sandbox_lock(enum stk_sandbox_network network, stoker_error *err);

/* Private memory of the process may not pass `bytes`, for good: allocations beyond fail. Shared and mapped files do not
 * count. INVALID_ARGUMENT if it uses more already; IO. */
stoker_status stk_sandbox_limit_memory(uint64_t bytes, stoker_error *err);

#endif
