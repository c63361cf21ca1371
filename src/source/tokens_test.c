/* SPDX-License-Identifier: Apache-2.0
 *
 * Native token sources: samples equal the items of the datasets they were made of, in this process and in another one.
 */
#include "source/source_fixture.h"
#include "source/token_fixture.h"
#include "sys/thread.h"

enum { SAMPLES = 60, FIRST_SIZE = 40, SECOND_SIZE = 20 };

struct world {
    stoker_dataset *files[2];
    stoker_gpt_dataset *datasets[2];
    stoker_blend_index *blend;
    stoker_gpt_form form;
    struct stoker_source *source;
};

static void make_world(struct world *world, const char *folder, int defer, int is_blend, int documents)
{
    static const uint64_t sizes[2] = {FIRST_SIZE, SECOND_SIZE};
    stoker_error err = {0};
    memset(world, 0, sizeof *world);
    world->files[0] = token_files("a", 100), world->files[1] = token_files("b", 1000);
    if (defer) { /* the files must be there */
        stoker_gpt_dataset_close(token_gpt(world->files[0], folder, "stem-a", 0));
        stoker_gpt_dataset_close(token_gpt(world->files[1], folder, "stem-b", 0));
    }
    world->datasets[0] = token_gpt(world->files[0], folder, "stem-a", defer);
    world->datasets[1] = token_gpt(world->files[1], folder, "stem-b", defer);
    world->form = (stoker_gpt_form)STOKER_GPT_FORM_INIT;
    world->form.eod = 105;
    world->form.eod_mask_loss = world->form.reset_position_ids = 1;
    world->form.documents = documents;
    world->form.attention_mask = !documents;
    stoker_blend_options options = STOKER_BLEND_OPTIONS_INIT;
    options.datasets = 2;
    options.sizes = sizes;
    options.cache.folder = folder;
    options.cache.stem = "stem-blend";
    if (is_blend && stoker_blend_index_open(&options, &world->blend, &err) != STOKER_OK) fail_msg("%s", err.message);
    const stoker_token_spec spec = {sizeof spec,  is_blend ? 2 : 1, world->datasets,
                                    world->blend, &world->form,     SAMPLES};
    if (stoker_source_create_tokens(&spec, &world->source, &err) != STOKER_OK) fail_msg("%s", err.message);
}

static void drop_world(struct world *world)
{
    stoker_source_close(world->source);
    stoker_blend_index_close(world->blend);
    for (int i = 0; i < 2; i++) {
        stoker_gpt_dataset_close(world->datasets[i]);
        stoker_dataset_close(world->files[i]);
    }
}

/* An item as the dataset makes it. */
struct item {
    int16_t dataset_id;
    int64_t tokens[TOKEN_LENGTH], labels[TOKEN_LENGTH], position_ids[TOKEN_LENGTH];
    float loss_mask[TOKEN_LENGTH];
    uint8_t attention_mask[TOKEN_LENGTH * TOKEN_LENGTH];
    int32_t cu_seqlens[TOKEN_LENGTH + 1], max_seqlen;
};

static void direct_item(struct world *world, uint64_t id, struct item *out)
{
    int64_t sample = (int64_t)id;
    stoker_error err = {0};
    out->dataset_id = 0;
    if (world->blend) {
        stoker_index_array dataset, samples;
        assert_int_equal(stoker_blend_index_arrays(world->blend, &dataset, &samples, NULL, &err), STOKER_OK);
        out->dataset_id = ((const int16_t *)dataset.data)[id];
        sample = ((const int64_t *)samples.data)[id];
    }
    const stoker_gpt_item at = {out->tokens,
                                out->labels,
                                out->loss_mask,
                                out->position_ids,
                                world->form.attention_mask ? out->attention_mask : NULL,
                                world->form.documents ? out->cu_seqlens : NULL,
                                world->form.documents ? &out->max_seqlen : NULL};
    if (stoker_gpt_dataset_item(world->datasets[out->dataset_id], &world->form, sample, &at, &err) != STOKER_OK)
        fail_msg("%s", err.message);
}

static const void *member_of(const struct item *item, const char *name)
{
    if (strcmp(name, "dataset_id") == 0) return &item->dataset_id;
    if (strcmp(name, "tokens") == 0) return item->tokens;
    if (strcmp(name, "labels") == 0) return item->labels;
    if (strcmp(name, "loss_mask") == 0) return item->loss_mask;
    if (strcmp(name, "position_ids") == 0) return item->position_ids;
    if (strcmp(name, "attention_mask") == 0) return item->attention_mask;
    if (strcmp(name, "cu_seqlens") == 0) return item->cu_seqlens;
    return &item->max_seqlen;
}

/* All samples, made as a batch of three in whose middle they stand; the places beside stay as they were. */
static void expect_samples(struct world *world, const struct stoker_source *source)
{
    static uint8_t batch[1 << 16];
    struct stk_batch_layout layout;
    struct stk_made made;
    stoker_error err = {0};
    assert_int_equal(stk_source_layout(source, 3, &layout, &err), STOKER_OK);
    assert_true(layout.total_bytes <= sizeof batch);
    for (uint64_t id = 0; id < SAMPLES; id++) {
        void *places[STK_NATIVE_LEAVES_MAX], *before[STK_NATIVE_LEAVES_MAX], *after[STK_NATIVE_LEAVES_MAX];
        struct item item;
        memset(batch, 0x5a, sizeof batch);
        stk_batch_places(&layout, batch, 0, before);
        stk_batch_places(&layout, batch, 1, places);
        stk_batch_places(&layout, batch, 2, after);
        if (stk_source_make(source, &(stoker_sample){id, 0}, places, &made, &err) != STOKER_OK)
            fail_msg("%s: %s", err.context, err.message);
        direct_item(world, id, &item);
        for (uint32_t i = 0; i < layout.leaf_count; i++) {
            const char *name = stoker_source_member(source, i);
            assert_memory_equal(places[i], member_of(&item, name), layout.leaf_bytes[i]);
            assert_int_equal(layout.leaves[i].offset % STK_LEAF_ALIGNMENT, 0);
            assert_int_equal(*(uint8_t *)before[i], 0x5a);
            assert_int_equal(*(uint8_t *)after[i], 0x5a);
        }
        assert_null(stoker_source_member(source, layout.leaf_count));
    }
}

static void test_samples_are_items(void **state)
{
    (void)state;
    for (int i = 0; i < 16; i++) {
        struct world world;
        make_world(&world, i & 1 ? "cache" : NULL, (i & 3) == 3, i >> 2 & 1, i >> 3 & 1);
        assert_int_equal(stoker_source_count(world.source), SAMPLES);
        expect_samples(&world, world.source);
        struct stoker_source *copy = reopen(world.source);
        assert_int_equal(chdir("/"), 0);
        expect_samples(&world, copy);
        assert_int_equal(chdir(token_folder), 0);
        stoker_source_close(copy);
        drop_world(&world);
    }
}

static void test_layout_of_a_batch(void **state)
{
    (void)state;
    struct world world;
    struct stk_batch_layout layout;
    stoker_error err;
    static const char *const names[] = {"dataset_id",     "tokens",    "labels",
                                        "attention_mask", "loss_mask", "position_ids"};
    static const uint32_t dtypes[] = {STOKER_DTYPE_INT16, STOKER_DTYPE_INT64,   STOKER_DTYPE_INT64,
                                      STOKER_DTYPE_BOOL,  STOKER_DTYPE_FLOAT32, STOKER_DTYPE_INT64};
    make_world(&world, NULL, 0, 1, 0);
    assert_int_equal(stk_source_layout(world.source, 5, &layout, &err), STOKER_OK);
    assert_int_equal(layout.leaf_count, 6);
    for (uint32_t i = 0; i < 6; i++) {
        assert_string_equal(stoker_source_member(world.source, i), names[i]);
        assert_int_equal(layout.leaves[i].dtype, dtypes[i]);
        assert_int_equal(layout.leaves[i].shape[0], 5);
        assert_int_equal(layout.leaves[i].ndim, i == 0 ? 1 : i == 3 ? 4 : 2);
        assert_int_equal(layout.leaves[i].size, 5 * layout.leaf_bytes[i]);
    }
    assert_int_equal(layout.leaves[3].shape[1], 1);
    assert_int_equal(layout.leaves[3].shape[3], TOKEN_LENGTH);
    stoker_descriptor descriptor;
    assert_int_equal(stoker_source_describe(world.source, 7, &descriptor, &err), STOKER_OK);
    assert_int_equal(stk_source_layout(world.source, 1, &layout, &err), STOKER_OK);
    assert_int_equal(descriptor.sample_bytes, layout.total_bytes);
    uint8_t *sample = malloc((size_t)descriptor.sample_bytes);
    struct item item;
    assert_non_null(sample);
    assert_int_equal(stoker_source_materialise(world.source, 7, sample, &err), STOKER_OK);
    direct_item(&world, 7, &item);
    assert_memory_equal(sample + layout.leaves[1].offset, item.tokens, sizeof item.tokens);
    free(sample);
    assert_int_equal(stoker_source_describe(world.source, SAMPLES, &descriptor, &err), STOKER_ERR_INVALID_ARGUMENT);
    drop_world(&world);
}

static void test_mock_data(void **state)
{
    (void)state;
    stoker_gpt_options options = STOKER_GPT_OPTIONS_INIT;
    struct world world = {.form = STOKER_GPT_FORM_INIT};
    stoker_error err;
    options.sequence_length = TOKEN_LENGTH;
    options.samples = SAMPLES;
    assert_int_equal(stoker_gpt_dataset_open_mock(50, 49, &options, &world.datasets[0], &err), STOKER_OK);
    const stoker_token_spec spec = {sizeof spec, 1, world.datasets, NULL, &world.form, SAMPLES};
    assert_int_equal(stoker_source_create_tokens(&spec, &world.source, &err), STOKER_OK);
    struct stoker_source *copy = reopen(world.source);
    expect_samples(&world, copy);
    stoker_source_close(copy);
    drop_world(&world);
}

/* Rule A8: a descriptor is a promise. */
static void test_a8_changed_data_is_a_mismatch(void **state)
{
    (void)state;
    struct world world;
    stoker_error err = {0};
    struct item item;
    void *places[STK_NATIVE_LEAVES_MAX] = {item.tokens, item.labels, item.attention_mask, item.loss_mask,
                                           item.position_ids};
    struct stk_made made;
    make_world(&world, "cache", 0, 0, 0);
    struct stoker_source *copy = reopen(world.source);
    assert_int_equal(truncate("a.bin", 100), 0);
    assert_int_equal(stk_source_make(copy, &(stoker_sample){0, 0}, places, &made, &err), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(err.message, "100 bytes"));
    assert_non_null(strstr(err.context, "/a"));
    assert_int_equal(unlink("a.bin"), 0);
    assert_int_equal(stk_source_make(copy, &(stoker_sample){0, 0}, places, &made, &err), STOKER_ERR_NOT_FOUND);
    stoker_source_close(copy);
    stoker_dataset_close(token_files("a", 100));
    copy = reopen(world.source);
    assert_int_equal(unlink("cache/stem-a-sample_index.npy"), 0);
    assert_int_equal(stk_source_make(copy, &(stoker_sample){0, 0}, places, &made, &err), STOKER_ERR_NOT_FOUND);
    assert_non_null(strstr(err.message, "sample_index"));
    stoker_gpt_dataset_close(token_gpt(world.files[0], "cache", "stem-a", 0)); /* it is built again: all is well */
    assert_int_equal(stk_source_make(copy, &(stoker_sample){0, 0}, places, &made, &err), STOKER_OK);
    stoker_source_close(copy);
    drop_world(&world);
}

static void make_all(void *argument)
{
    struct item *item = malloc(sizeof *item);
    struct stk_made made;
    assert_non_null(item);
    for (uint64_t id = 0; id < SAMPLES; id++) {
        void *places[STK_NATIVE_LEAVES_MAX] = {&item->dataset_id,    item->tokens,    item->labels,
                                               item->attention_mask, item->loss_mask, item->position_ids};
        assert_int_equal(stk_source_make(argument, &(stoker_sample){id, 0}, places, &made, NULL), STOKER_OK);
    }
    free(item);
}

static void test_threads_share_a_source(void **state)
{
    (void)state;
    struct world world;
    struct stk_thread *threads[4];
    make_world(&world, "cache", 0, 1, 0);
    for (int i = 0; i < 4; i++)
        assert_int_equal(stk_thread_start("maker", make_all, world.source, &threads[i], NULL), STOKER_OK);
    for (int i = 0; i < 4; i++) stk_thread_join(threads[i]);
    drop_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TOKEN_TEST(test_samples_are_items),
        TOKEN_TEST(test_layout_of_a_batch),
        TOKEN_TEST(test_mock_data),
        TOKEN_TEST(test_a8_changed_data_is_a_mismatch),
        TOKEN_TEST(test_threads_share_a_source),
    };
    return stk_run_tests(tests);
}
