/* SPDX-License-Identifier: Apache-2.0
 *
 * The end of a program whose invariant is broken: one line on stderr, then abort. This is the only place of the library
 * that writes to stderr, because nothing that could carry a record can be trusted any more.
 */
#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void stk_assert_failed(const char *condition, const char *file, int line)
{
    fprintf(stderr, "stoker: broken invariant: %s (%s:%d)\n", condition, file, line);
    abort();
}
