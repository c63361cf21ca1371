/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of the builder share: a builder in the folder, its files compared with what they should be, and disks
 * that fail (the programs are linked with --wrap=pwrite64, fsync and rename).
 */
#ifndef STK_TOKENS_BUILDER_FIXTURE_H
#define STK_TOKENS_BUILDER_FIXTURE_H

#include <errno.h>
#include <sys/types.h>

#include "tokens/builder_internal.h"
#include "tokens/files_fixture.h"

static inline stoker_dataset_builder *new_builder(const char *name, int dtype_code, bool multimodal, bool wrap)
{
    stoker_dataset_builder_options options = STOKER_DATASET_BUILDER_OPTIONS_INIT;
    stoker_dataset_builder *builder = NULL;
    stoker_error err = {0};
    char path[300];
    options.dtype_code = dtype_code;
    options.multimodal = multimodal;
    options.range = wrap ? STOKER_TOKEN_RANGE_WRAP : STOKER_TOKEN_RANGE_ERROR;
    (void)snprintf(path, sizeof path, "%s.bin", in_folder(name));
    assert_int_equal(stoker_dataset_builder_create(path, &options, &builder, &err), STOKER_OK);
    assert_int_equal(err.status, STOKER_OK);
    return builder;
}

static inline void finish(stoker_dataset_builder *builder, const char *name)
{
    stoker_error err = {0};
    char path[300];
    (void)snprintf(path, sizeof path, "%s.idx", in_folder(name));
    assert_int_equal(stoker_dataset_builder_finalize(builder, path, &err), STOKER_OK);
    assert_int_equal(err.status, STOKER_OK);
    stoker_dataset_builder_destroy(builder);
}

static inline void expect_bytes(const char *name, const char *extension, const void *data, size_t size)
{
    char path[300];
    size_t found = 0;
    (void)snprintf(path, sizeof path, "%s%s", in_folder(name), extension);
    const uint8_t *bytes = read_bytes(path, &found);
    assert_int_equal(found, size);
    if (size > 0) assert_memory_equal(bytes, data, size);
}

static inline void expect_files(const char *name, const struct fixture_index *index, const void *bin, size_t bin_size)
{
    static uint8_t expected[1 << 20];
    expect_bytes(name, ".bin", bin, bin_size);
    expect_bytes(name, ".idx", expected, fixture_encode(index, expected));
}

#endif
