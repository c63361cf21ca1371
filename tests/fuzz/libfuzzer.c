/* SPDX-License-Identifier: Apache-2.0
 *
 * The entry of libFuzzer: see fuzz.h. How to build and run it: meson.build.
 */
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)stk_fuzz_one(data, size); /* both answers are right: the target itself checks the properties */
    return 0;
}
