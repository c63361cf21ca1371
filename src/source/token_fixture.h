/* SPDX-License-Identifier: Apache-2.0
 *
 * Small token datasets for the tests of token sources: files in a private folder, and open GPT datasets over them.
 */
#ifndef STK_SOURCE_TOKEN_FIXTURE_H
#define STK_SOURCE_TOKEN_FIXTURE_H

#include <stoker/loader.h>

#include "tokens/files_fixture.h"

enum { TOKEN_LENGTH = 16, TOKEN_SEQUENCES = 30 };

#define token_folder fixture_folder

static inline int token_setup(void **state) { return fixture_setup(state) || chdir(token_folder); }

static inline int token_teardown(void **state) { return chdir("/") || fixture_teardown(state); }

#define TOKEN_TEST(name) cmocka_unit_test_setup_teardown(name, token_setup, token_teardown)

/* NAME.bin and NAME.idx in the working directory: 30 documents of 7 to 36 tokens, all `base` + position. */
static inline stoker_dataset *token_files(const char *name, uint16_t base)
{
    char path[64];
    stoker_dataset_builder *builder = NULL;
    stoker_dataset_builder_options options = STOKER_DATASET_BUILDER_OPTIONS_INIT;
    stoker_dataset *dataset = NULL;
    stoker_error err = {0};
    uint16_t tokens[64];
    options.dtype_code = STOKER_TOKEN_UINT16;
    (void)snprintf(path, sizeof path, "%s.bin", name);
    assert_int_equal(stoker_dataset_builder_create(path, &options, &builder, &err), STOKER_OK);
    for (int i = 0; i < TOKEN_SEQUENCES; i++) {
        for (int j = 0; j < 7 + i; j++) tokens[j] = (uint16_t)(base + j);
        const stoker_elements elements = {tokens, (uint64_t)(7 + i), STOKER_TOKEN_UINT16};
        assert_int_equal(stoker_dataset_builder_add_item(builder, elements, 0, &err), STOKER_OK);
        assert_int_equal(stoker_dataset_builder_end_document(builder, &err), STOKER_OK);
    }
    (void)snprintf(path, sizeof path, "%s.idx", name);
    assert_int_equal(stoker_dataset_builder_finalize(builder, path, &err), STOKER_OK);
    stoker_dataset_builder_destroy(builder);
    if (stoker_dataset_open(name, NULL, &dataset, &err) != STOKER_OK) fail_msg("%s", err.message);
    return dataset;
}

/* A dataset over these files; `folder` NULL: its index is in memory only. */
static inline stoker_gpt_dataset *token_gpt(stoker_dataset *dataset, const char *folder, const char *stem, int defer)
{
    stoker_gpt_options options = STOKER_GPT_OPTIONS_INIT;
    stoker_gpt_dataset *gpt = NULL;
    stoker_error err = {0};
    options.random_seed = 11;
    options.sequence_length = TOKEN_LENGTH;
    options.samples = 60;
    options.split = "train";
    options.defer = defer;
    options.cache.folder = folder;
    options.cache.stem = stem;
    options.cache.description = "{}";
    if (stoker_gpt_dataset_open(dataset, &options, &gpt, &err) != STOKER_OK) fail_msg("%s", err.message);
    return gpt;
}

#endif
