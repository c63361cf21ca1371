/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for the blobs that describe sources. An input with the magic of process sources goes to their parser, all
 * others to that of media sources; what is accepted is opened and used to its last entry.
 */
#include <string.h>

#include "source/blob.h"
#include "source/source_internal.h"
#include "sys/shmem.h"
#include "tests/fuzz/fuzz.h"

#define PROCESS_MAGIC 0x504b5453u

static void use_media(const struct stoker_source *source)
{
    stoker_error err;
    uint64_t count = stoker_source_count(source);
    for (uint64_t i = 0; i < count; i++) {
        stoker_descriptor descriptor;
        STK_FUZZ_CHECK(stoker_source_describe(source, i, &descriptor, &err) == STOKER_OK);
        STK_FUZZ_CHECK(descriptor.path && strlen(descriptor.path) >= 1 && strlen(descriptor.path) <= 4095);
        STK_FUZZ_CHECK(descriptor.sample_bytes > 0);
    }
}

static void use_process(const struct stoker_source *source)
{
    stoker_error err;
    struct stk_process_source view;
    size_t size = 0;
    STK_FUZZ_CHECK(stk_source_process(source, &view, &err) == STOKER_OK);
    STK_FUZZ_CHECK(view.argv[0] && view.argv[0][0]);
    for (size_t i = 0; view.argv[i]; i++) size += strlen(view.argv[i]);
    for (size_t i = 0; view.envp[i]; i++) size += strlen(view.envp[i]);
    STK_FUZZ_CHECK(size <= (size_t)16 << 20);
}

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    stoker_error err = {0};
    bool process = size >= 4 && stk_blob_get32(data) == PROCESS_MAGIC;
    stoker_status status =
        process ? stk_process_source_check(data, size, &err) : stk_media_source_check(data, size, &err);
    if (status != STOKER_OK) {
        STK_FUZZ_CHECK(status == STOKER_ERR_CORRUPT || status == STOKER_ERR_UNSUPPORTED);
        STK_FUZZ_CHECK(err.message[0] != 0);
        return 0;
    }
    int blob_fd = -1, payload_fd = -1;
    struct stoker_source *source = NULL;
    STK_FUZZ_CHECK(stk_shmem_blob_create(data, size, &blob_fd, &err) == STOKER_OK);
    if (process) STK_FUZZ_CHECK(stk_shmem_blob_create("p", 1, &payload_fd, &err) == STOKER_OK);
    STK_FUZZ_CHECK(stk_source_open_blob(process ? STK_SOURCE_PROCESS : STK_SOURCE_MEDIA, blob_fd, payload_fd, &source,
                                        &err) == STOKER_OK);
    if (process)
        use_process(source);
    else
        use_media(source);
    stoker_source_close(source);
    return 1;
}
