/* SPDX-License-Identifier: Apache-2.0
 *
 * Blobs of token sources: what goes in comes out, equal sources have equal blobs, damage is refused.
 */
#include "source/token_blob.h"

#include "source/source_fixture.h"
#include "source/token_fixture.h"

static stoker_gpt_form plain_form(void)
{
    stoker_gpt_form form = STOKER_GPT_FORM_INIT;
    form.pad = -7;
    form.eod = INT64_MIN;
    form.eod_mask_loss = form.documents = 1;
    return form;
}

static struct stoker_source *source_of(stoker_gpt_dataset *const *datasets, uint32_t count, stoker_blend_index *blend,
                                       const stoker_gpt_form *form)
{
    struct stoker_source *source = NULL;
    stoker_error err = {0};
    const stoker_token_spec spec = {sizeof spec, count, datasets, blend, form, 40};
    if (stoker_source_create_tokens(&spec, &source, &err) != STOKER_OK) fail_msg("%s", err.message);
    return source;
}

static void test_everything_travels(void **state)
{
    (void)state;
    stoker_error err;
    stoker_dataset *files = token_files("a", 100), *same = NULL;
    stoker_dataset_options options = STOKER_DATASET_OPTIONS_INIT;
    options.access = STOKER_DATASET_FILE;
    options.sequences = TOKEN_SEQUENCES;
    options.document_entries = TOKEN_SEQUENCES + 1;
    options.dtype_code = STOKER_TOKEN_UINT16;
    options.open_retries = -1;
    options.retry_delay_ns = 5;
    assert_int_equal(stoker_dataset_open("a", &options, &same, &err), STOKER_OK);
    stoker_gpt_dataset *datasets[] = {token_gpt(files, "cache", "stem", 0), token_gpt(same, NULL, NULL, 0)};
    const uint64_t sizes[2] = {30, 10};
    stoker_blend_options blend_options = STOKER_BLEND_OPTIONS_INIT;
    stoker_blend_index *blend = NULL;
    blend_options.datasets = 2;
    blend_options.sizes = sizes;
    assert_int_equal(stoker_blend_index_open(&blend_options, &blend, &err), STOKER_OK);
    stoker_gpt_form form = plain_form();
    struct stoker_source *source = source_of(datasets, 2, blend, &form);

    const void *blob = NULL;
    size_t size = 0;
    struct stk_token_head head;
    struct stk_token_set set;
    struct stk_token_dataset one;
    char path[100];
    assert_int_equal(stk_shmem_blob_map(source->blob_fd, &blob, &size, &err), STOKER_OK);
    stk_token_blob_head(blob, &head, &set);
    assert_int_equal(head.count, 40);
    assert_int_equal(head.sequence_length, TOKEN_LENGTH);
    assert_int_equal(head.datasets, 2);
    assert_true(head.is_blend && !head.no_extra_token);
    assert_int_equal(head.form.pad, form.pad);
    assert_true(head.form.eod == form.eod);
    assert_true(head.form.eod_mask_loss == 1 && head.form.documents == 1 && head.form.attention_mask == 0);
    assert_true(head.form.reset_position_ids == 0 && head.form.reset_attention_mask == 0);
    assert_null(set.folder);
    assert_int_equal(set.arrays[1].rows, 40);
    assert_int_equal(set.arrays[1].dtype, STOKER_INDEX_INT64);
    stk_token_blob_dataset(blob, 0, &one);
    (void)snprintf(path, sizeof path, "%s/a", token_folder);
    assert_string_equal(one.prefix, path); /* workers have another working directory */
    assert_string_equal(one.split, "train");
    (void)snprintf(path, sizeof path, "%s/cache", token_folder);
    assert_string_equal(one.set.folder, path);
    assert_string_equal(one.set.stem, "stem");
    assert_int_equal(one.sequences, TOKEN_SEQUENCES);
    assert_true(one.bin_bytes > 0);
    stk_token_blob_dataset(blob, 1, &one);
    assert_null(one.set.folder);
    assert_int_equal(one.options.access, options.access);
    assert_int_equal(one.options.sequences, options.sequences);
    assert_int_equal(one.options.document_entries, options.document_entries);
    assert_int_equal(one.options.dtype_code, options.dtype_code);
    assert_int_equal(one.options.open_retries, options.open_retries);
    assert_int_equal(one.options.retry_delay_ns, options.retry_delay_ns);
    stoker_index_array shuffle;
    assert_int_equal(stoker_gpt_dataset_arrays(datasets[1], NULL, NULL, &shuffle, &err), STOKER_OK);
    assert_int_equal(one.set.arrays[2].rows, shuffle.rows);
    assert_memory_equal(one.set.arrays[2].data, shuffle.data, 4 * shuffle.rows);
    stk_shmem_blob_unmap(blob, size);

    struct stoker_source *again = source_of(datasets, 2, blend, &form);
    assert_memory_equal(source->digest, again->digest, 32);
    stoker_source_close(again);
    form.pad++;
    again = source_of(datasets, 2, blend, &form);
    assert_memory_not_equal(source->digest, again->digest, 32);
    stoker_source_close(again);
    stoker_source_close(source);
    stoker_blend_index_close(blend);
    for (int i = 0; i < 2; i++) stoker_gpt_dataset_close(datasets[i]);
    stoker_dataset_close(files);
    stoker_dataset_close(same);
}

static void test_damaged_blobs_are_refused(void **state)
{
    (void)state;
    stoker_error err;
    stoker_dataset *files = token_files("a", 100);
    stoker_gpt_options options = STOKER_GPT_OPTIONS_INIT;
    stoker_gpt_dataset *mock = NULL;
    options.sequence_length = TOKEN_LENGTH;
    options.end_sequence = 3;
    assert_int_equal(stoker_gpt_dataset_open_mock(50, 49, &options, &mock, &err), STOKER_OK);
    stoker_gpt_dataset *datasets[] = {token_gpt(files, "cache", "stem", 0), mock};
    stoker_blend_options blend_options = STOKER_BLEND_OPTIONS_INIT;
    stoker_blend_index *blend = NULL;
    static const uint64_t sizes[2] = {3, 2};
    blend_options.datasets = 2;
    blend_options.sizes = sizes;
    blend_options.cache.folder = "cache";
    blend_options.cache.stem = "blend";
    assert_int_equal(stoker_blend_index_open(&blend_options, &blend, &err), STOKER_OK);
    stoker_gpt_form form = plain_form();
    struct stoker_source *source = source_of(datasets, 2, blend, &form);
    damage(source, stk_token_source_check);
    stoker_source_close(source);
    stoker_blend_index_close(blend);
    for (int i = 0; i < 2; i++) stoker_gpt_dataset_close(datasets[i]);
    stoker_dataset_close(files);
}

static void test_specs_that_cannot_be(void **state)
{
    (void)state;
    stoker_dataset *files = token_files("a", 100);
    stoker_gpt_dataset *datasets[] = {token_gpt(files, NULL, NULL, 0), token_gpt(files, NULL, NULL, 0)};
    for (int i = 0; i < 6; i++) {
        stoker_gpt_form form = plain_form();
        stoker_token_spec spec = {sizeof spec, 1, datasets, NULL, &form, 40};
        struct stoker_source *source = NULL;
        stoker_error err = {0};
        if (i == 0) spec.struct_size--;
        if (i == 1) spec.dataset_count = 2;
        if (i == 2) spec.dataset_count = 0;
        if (i == 3) spec.form = NULL;
        if (i == 4) form.attention_mask = 1;
        if (i == 5) spec.datasets = NULL;
        assert_int_equal(stoker_source_create_tokens(&spec, &source, &err),
                         i == 0 ? STOKER_ERR_UNSUPPORTED : STOKER_ERR_INVALID_ARGUMENT);
        assert_true(err.message[0] != 0);
        assert_null(source);
    }
    assert_int_equal(stoker_source_create_tokens(NULL, NULL, NULL), STOKER_ERR_INVALID_ARGUMENT);
    for (int i = 0; i < 2; i++) stoker_gpt_dataset_close(datasets[i]);
    stoker_dataset_close(files);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOKEN_TEST(test_everything_travels),
        TOKEN_TEST(test_damaged_blobs_are_refused),
        TOKEN_TEST(test_specs_that_cannot_be),
    };
    return stk_run_tests(tests);
}
