/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for the blobs of token sources: what is accepted is opened, and samples of mock data are made from
 * whatever the index arrays in the blob say. Files are not opened: their names come from the input.
 */
#include <stdlib.h>

#include "source/source_internal.h"
#include "source/token_blob.h"
#include "sys/shmem.h"
#include "tests/fuzz/fuzz.h"

enum { SAMPLES_MAX = 50, SAMPLE_BYTES_MAX = 1 << 20 };

/* Do all samples come from the blob alone? */
static bool is_closed(const uint8_t *blob)
{
    struct stk_token_head head;
    struct stk_token_set set = {0};
    stk_token_blob_head(blob, &head, &set);
    if (set.folder) return false;
    for (uint32_t i = 0; i < head.datasets; i++) {
        struct stk_token_dataset dataset;
        stk_token_blob_dataset(blob, i, &dataset);
        if (!dataset.is_mock || dataset.set.folder) return false;
    }
    return true;
}

static void make_samples(const struct stoker_source *source)
{
    stoker_error err = {0};
    struct stk_batch_layout layout;
    uint64_t count = stoker_source_count(source);
    if (count == 0 || stk_source_layout(source, 1, &layout, &err) != STOKER_OK) return;
    STK_FUZZ_CHECK(layout.leaf_count >= 4 && layout.leaf_count <= STK_NATIVE_LEAVES_MAX);
    if (layout.total_bytes > SAMPLE_BYTES_MAX) return;
    uint8_t *sample = malloc((size_t)layout.total_bytes);
    STK_FUZZ_CHECK(sample != NULL);
    for (uint64_t id = 0; id < count && id < SAMPLES_MAX; id++) {
        stoker_status status = stoker_source_materialise(source, id, sample, &err);
        STK_FUZZ_CHECK(status == STOKER_OK || err.message[0] != 0);
    }
    free(sample);
}

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    stoker_error err = {0};
    stoker_status status = stk_token_source_check(data, size, &err);
    if (status != STOKER_OK) {
        STK_FUZZ_CHECK(status == STOKER_ERR_CORRUPT || status == STOKER_ERR_UNSUPPORTED);
        STK_FUZZ_CHECK(err.message[0] != 0);
        return 0;
    }
    int blob_fd = -1;
    struct stoker_source *source = NULL;
    STK_FUZZ_CHECK(stk_shmem_blob_create(data, size, &blob_fd, &err) == STOKER_OK);
    status = stk_source_open_blob(STK_SOURCE_TOKENS, blob_fd, -1, &source, &err);
    STK_FUZZ_CHECK(status == STOKER_OK || status == STOKER_ERR_LIMIT); /* a mask of S x S may be past any machine */
    if (status != STOKER_OK) return 1;
    if (is_closed(data)) make_samples(source);
    stoker_source_close(source);
    return 1;
}
