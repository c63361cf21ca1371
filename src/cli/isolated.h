/* SPDX-License-Identifier: Apache-2.0
 *
 * A call in a process of its own: libraries that read whatever users have may crash, and a command goes on with the
 * next file then.
 */
#ifndef STK_CLI_ISOLATED_H
#define STK_CLI_ISOLATED_H

#include <stddef.h>

#include <stoker/error.h>

/* Makes `call(argument)` in a child, which ends with this process, and copies what it wrote to the `size` bytes at
 * `argument` back; pointers in them must be to what was there before. The status is the call's. CORRUPT if the child
 * crashed; NO_MEMORY, IO if there can be none. For programs of one thread, with nothing unwritten in stdout. */
stoker_status cli_isolated(stoker_status (*call)(void *argument, stoker_error *err), void *argument, size_t size,
                           stoker_error *err);

#endif
