/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for .npy files: what is accepted lies inside the file, byte for byte, and comes back as the same header
 * when it is written.
 */
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "tokens/npy.h"

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    stoker_error err = {0};
    struct stk_npy_header header, again;
    stoker_status status = stk_npy_parse(data, size, size, &header, &err);
    if (status != STOKER_OK) {
        STK_FUZZ_CHECK(status == STOKER_ERR_CORRUPT);
        STK_FUZZ_CHECK(err.message[0] != 0);
        return 0;
    }
    STK_FUZZ_CHECK(header.data_at % 16 == 0);
    STK_FUZZ_CHECK(header.data_at + header.data_bytes == size);
    STK_FUZZ_CHECK(header.columns == 1 || header.columns == 2);
    STK_FUZZ_CHECK(header.rows * header.columns * stk_index_dtype_size(header.dtype) == header.data_bytes);
    uint8_t written[STK_NPY_HEADER_BYTES];
    stk_npy_encode(header.dtype, header.rows, header.columns, written);
    STK_FUZZ_CHECK(stk_npy_parse(written, sizeof written, sizeof written + header.data_bytes, &again, &err) ==
                   STOKER_OK);
    STK_FUZZ_CHECK(again.rows == header.rows && again.columns == header.columns && again.dtype == header.dtype);
    return 1;
}
