/* SPDX-License-Identifier: Apache-2.0
 *
 * Items against a slow model that follows the rules word by word: every type of token, every form, with and without the
 * extra token, with padding; then what is refused.
 */
#include "tokens/item.h"

#include "tests/support/allocations.h"
#include "tokens/files_fixture.h"
#include "tokens/gpt.h"

enum { S = 12, SEQUENCES = 60, CELLS = S * S };

/* An item as plain arrays, with a cell behind each that must stay as it was. */
struct cells {
    int64_t tokens[S + 1], labels[S + 1], position_ids[S + 1];
    float loss_mask[S + 1];
    uint8_t attention_mask[CELLS + 1];
    int32_t cu_seqlens[S + 2], max_seqlen[2];
};

static stoker_gpt_item places_of(struct cells *cells, const stoker_gpt_form *form)
{
    memset(cells, 0x77, sizeof *cells);
    return (stoker_gpt_item){cells->tokens,
                             cells->labels,
                             cells->loss_mask,
                             cells->position_ids,
                             form->attention_mask ? cells->attention_mask : NULL,
                             form->documents ? cells->cu_seqlens : NULL,
                             form->documents ? cells->max_seqlen : NULL};
}

/* Values 0 .. 8 of any of the six integer types, or the floating ones; signed types also hold -1. Lengths 0 .. 9. */
static stoker_dataset *open_noise(int dtype_code)
{
    static uint8_t bytes[SEQUENCES * 10 * 8];
    static int32_t lengths[SEQUENCES];
    static int64_t documents[SEQUENCES + 1];
    const size_t size = stoker_token_dtype_size(dtype_code);
    uint32_t noise = 1;
    size_t used = 0;
    for (int i = 0; i < SEQUENCES; i++) {
        noise = noise * 1664525u + 1013904223u;
        lengths[i] = (int32_t)(noise >> 24) % 10;
        documents[i + 1] = i + 1;
        for (int j = 0; j < lengths[i]; j++) {
            noise = noise * 1664525u + 1013904223u;
            int value = (int)(noise >> 24) % 9;
            bool is_unsigned = dtype_code == STOKER_TOKEN_UINT8 || dtype_code == STOKER_TOKEN_UINT16;
            if (value == 8 && !is_unsigned) value = -1;
            float single = (float)value;
            double twice = value;
            int64_t whole = value;
            const void *from = dtype_code == STOKER_TOKEN_FLOAT32   ? (const void *)&single
                               : dtype_code == STOKER_TOKEN_FLOAT64 ? (const void *)&twice
                                                                    : (const void *)&whole;
            memcpy(bytes + used, from, size);
            used += size;
        }
    }
    const struct fixture_index index = {dtype_code, SEQUENCES, SEQUENCES + 1, lengths, NULL, documents, NULL};
    stoker_dataset *dataset = NULL;
    stoker_error err = {0};
    const char *prefix = fixture_write("noise", &index, bytes, used);
    if (stoker_dataset_open(prefix, NULL, &dataset, &err) != STOKER_OK) fail_msg("%s", err.message);
    return dataset;
}

static stoker_gpt_dataset *open_gpt(stoker_dataset *dataset, int no_extra_token, int keep_partial)
{
    stoker_gpt_options options = STOKER_GPT_OPTIONS_INIT;
    options.random_seed = 5;
    options.sequence_length = S;
    options.no_extra_token = no_extra_token;
    options.keep_partial = keep_partial;
    options.split = "valid";
    stoker_gpt_dataset *gpt = NULL;
    stoker_error err = {0};
    if (stoker_gpt_dataset_open(dataset, &options, &gpt, &err) != STOKER_OK) fail_msg("%s", err.message);
    return gpt;
}

/* ------------------------------------------------------------------------------------------------------------ model */

static void model_bounds(const int64_t *lengths, uint64_t parts, int extra, struct cells *out)
{
    int64_t left[S + 2] = {0};
    uint64_t count = parts;
    int64_t sum = 0;
    for (uint64_t i = 0; i < parts; i++) left[i] = lengths[i];
    if (extra && --left[count - 1] == 0) count--;
    for (uint64_t i = 0; i < count; i++) sum += left[i];
    if (sum < S && count == 0) left[count++] = 0;
    if (sum < S) left[count - 1] += S - sum;
    for (int i = 0; i <= S; i++) out->cu_seqlens[i] = S;
    out->cu_seqlens[0] = 0;
    out->max_seqlen[0] = 0;
    for (uint64_t i = 0; i < count; i++) {
        out->cu_seqlens[i + 1] = out->cu_seqlens[i] + (int32_t)left[i];
        if (left[i] > out->max_seqlen[0]) out->max_seqlen[0] = (int32_t)left[i];
        for (int64_t j = 0; j < left[i]; j++) out->position_ids[out->cu_seqlens[i] + j] = j;
    }
}

static void model(stoker_gpt_dataset *gpt, const stoker_gpt_form *form, uint64_t index, int extra, struct cells *out)
{
    int64_t text[S + 1], documents[S + 2], lengths[S + 2];
    stoker_gpt_text got = {text, 0, documents, lengths, S + 2, 0};
    stoker_error err = {0};
    if (stoker_gpt_dataset_text(gpt, index, &got, &err) != STOKER_OK) fail_msg("%s", err.message);
    assert_in_range(got.parts, 1, S + 2);
    for (uint64_t i = got.count; i < (uint64_t)(S + extra); i++) text[i] = form->pad;
    memcpy(out->tokens, text, S * sizeof *text);
    memcpy(out->labels, text + 1, (S - 1) * sizeof *text);
    out->labels[S - 1] = extra ? text[S] : form->pad;
    for (int i = 0; i < S; i++) {
        out->loss_mask[i] = form->eod_mask_loss && text[i] == form->eod ? 0.0f : 1.0f;
        out->position_ids[i] = i;
        for (int j = 0; form->attention_mask && j < S; j++) out->attention_mask[i * S + j] = j > i;
    }
    for (int e = 0; e < S; e++) {
        if (text[e] != form->eod) continue;
        for (int i = e + 1; i < S; i++) {
            if (form->reset_position_ids) out->position_ids[i] = i - e - 1;
            for (int j = 0; form->attention_mask && form->reset_attention_mask && j <= e; j++)
                out->attention_mask[i * S + j] = 1;
        }
    }
    if (form->documents) model_bounds(lengths, got.parts, extra, out);
    for (int i = 0; i < S; i++) {
        if (out->labels[i] == form->pad) out->loss_mask[i] = 0.0f;
        if (out->tokens[i] == form->pad) out->tokens[i] = 0;
        if (out->labels[i] == form->pad) out->labels[i] = 0;
    }
}

static void expect_items(stoker_gpt_dataset *gpt, const stoker_gpt_form *form, int extra)
{
    int64_t count = stoker_gpt_dataset_count(gpt);
    for (int64_t k = 0; k < count; k++) {
        struct cells want, got;
        stoker_error err = {0};
        (void)places_of(&want, form);
        model(gpt, form, (uint64_t)k, extra, &want);
        stoker_gpt_item out = places_of(&got, form);
        if (stoker_gpt_dataset_item(gpt, form, k, &out, &err) != STOKER_OK) fail_msg("%s", err.message);
        assert_memory_equal(&got, &want, sizeof got);
        out = places_of(&got, form);
        assert_int_equal(stoker_gpt_dataset_item(gpt, form, k - count, &out, &err), STOKER_OK);
        assert_memory_equal(&got, &want, sizeof got);
    }
}

static void expect_forms(stoker_gpt_dataset *gpt, int extra)
{
    static const int64_t pads[] = {-1, 0, 5, 300};
    for (int flags = 0; flags < 32; flags++)
        for (int p = 0; p < 4; p++)
            for (int64_t eod = 5; eod < 7; eod++) {
                stoker_gpt_form form = STOKER_GPT_FORM_INIT;
                form.pad = pads[p];
                form.eod = eod;
                form.reset_position_ids = flags & 1;
                form.reset_attention_mask = flags >> 1 & 1;
                form.eod_mask_loss = flags >> 2 & 1;
                form.attention_mask = flags >> 3 & 1;
                form.documents = flags >> 4 & 1;
                if (form.documents && form.attention_mask) continue;
                expect_items(gpt, &form, extra);
            }
}

/* ------------------------------------------------------------------------------------------------------------ tests */

static void test_items_follow_the_rules(void **state)
{
    (void)state;
    for (int code = STOKER_TOKEN_UINT8; code <= STOKER_TOKEN_UINT16; code++) {
        stoker_dataset *dataset = open_noise(code);
        for (int extra = 0; extra < 2; extra++)
            for (int partial = 0; partial < 2; partial++) {
                stoker_gpt_dataset *gpt = open_gpt(dataset, !extra, partial);
                expect_forms(gpt, extra);
                stoker_gpt_dataset_close(gpt);
            }
        stoker_dataset_close(dataset);
    }
}

static void test_readers_without_a_mapping_give_the_same(void **state)
{
    (void)state;
    stoker_dataset *mapped = open_noise(STOKER_TOKEN_INT32), *file = NULL, *fast = NULL;
    stoker_dataset_options options = STOKER_DATASET_OPTIONS_INIT;
    stoker_error err;
    options.access = STOKER_DATASET_FILE;
    assert_int_equal(stoker_dataset_open(in_folder("noise"), &options, &file, &err), STOKER_OK);
    options.access = STOKER_DATASET_MMAP;
    options.unchecked = 1;
    assert_int_equal(stoker_dataset_open(in_folder("noise"), &options, &fast, &err), STOKER_OK);
    stoker_dataset *const others[] = {file, fast};
    stoker_gpt_dataset *gpt = open_gpt(mapped, 0, 1);
    stoker_gpt_form form = STOKER_GPT_FORM_INIT;
    for (int i = 0; i < 2; i++) {
        stoker_gpt_dataset *other = open_gpt(others[i], 0, 1);
        for (int64_t k = 0; k < stoker_gpt_dataset_count(gpt); k++) {
            struct cells want, got;
            stoker_gpt_item a = places_of(&want, &form), b = places_of(&got, &form);
            assert_int_equal(stoker_gpt_dataset_item(gpt, &form, k, &a, &err), STOKER_OK);
            assert_int_equal(stoker_gpt_dataset_item(other, &form, k, &b, &err), STOKER_OK);
            assert_memory_equal(&got, &want, sizeof got);
        }
        stoker_gpt_dataset_close(other);
        stoker_dataset_close(others[i]);
    }
    stoker_gpt_dataset_close(gpt);
    stoker_dataset_close(mapped);
}

static void test_padding_item_and_bounds(void **state)
{
    (void)state;
    stoker_dataset *dataset = open_noise(STOKER_TOKEN_UINT16);
    stoker_gpt_dataset *gpt = open_gpt(dataset, 0, 0);
    stoker_gpt_form form = STOKER_GPT_FORM_INIT;
    struct cells first, padding;
    stoker_error err;
    int64_t count = stoker_gpt_dataset_count(gpt);
    stoker_gpt_item a = places_of(&first, &form), b = places_of(&padding, &form);
    assert_int_equal(stoker_gpt_dataset_item(gpt, &form, 0, &a, &err), STOKER_OK);
    assert_int_equal(stoker_gpt_dataset_item(gpt, &form, INT64_MIN, &b, &err), STOKER_OK);
    assert_memory_equal(padding.tokens, first.tokens, sizeof first.tokens);
    for (int i = 0; i < S; i++) assert_true(padding.loss_mask[i] == 0.0f);
    assert_int_equal(stoker_gpt_dataset_item(gpt, &form, count, &a, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_gpt_dataset_item(gpt, &form, -count - 1, &a, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "the valid split has"));
    assert_int_equal(stoker_gpt_dataset_item(gpt, &form, INT64_MIN + 1, &a, &err), STOKER_ERR_INVALID_ARGUMENT);
    stoker_gpt_item only = {.tokens = first.tokens};
    int64_t before[S];
    memcpy(before, first.tokens, sizeof before);
    assert_int_equal(stoker_gpt_dataset_item(gpt, &form, 0, &only, &err), STOKER_OK);
    assert_memory_equal(first.tokens, before, sizeof before);
    stoker_gpt_dataset_close(gpt);
    stoker_dataset_close(dataset);
}

static void test_batches_are_items_in_a_row(void **state)
{
    (void)state;
    enum { N = 5 };
    static const int64_t indices[N] = {2, 0, -1, 2, INT64_MIN};
    stoker_dataset *dataset = open_noise(STOKER_TOKEN_INT16);
    stoker_gpt_dataset *gpt = open_gpt(dataset, 0, 1);
    for (int documents = 0; documents < 2; documents++) {
        int64_t tokens[N * S], labels[N * S], positions[N * S];
        float loss[N * S];
        uint8_t attention[N * CELLS];
        int32_t bounds[N * (S + 1)], longest[N];
        stoker_gpt_form form = STOKER_GPT_FORM_INIT;
        form.documents = documents;
        form.attention_mask = !documents;
        stoker_gpt_item out = {tokens,
                               labels,
                               loss,
                               positions,
                               documents ? NULL : attention,
                               documents ? bounds : NULL,
                               documents ? longest : NULL};
        stoker_error err;
        assert_int_equal(stoker_gpt_dataset_batch(gpt, &form, indices, N, &out, &err), STOKER_OK);
        for (int i = 0; i < N; i++) {
            struct cells one;
            stoker_gpt_item place = places_of(&one, &form);
            assert_int_equal(stoker_gpt_dataset_item(gpt, &form, indices[i], &place, &err), STOKER_OK);
            assert_memory_equal(tokens + i * S, one.tokens, S * sizeof *tokens);
            assert_memory_equal(labels + i * S, one.labels, S * sizeof *labels);
            assert_memory_equal(positions + i * S, one.position_ids, S * sizeof *positions);
            assert_memory_equal(loss + i * S, one.loss_mask, S * sizeof *loss);
            if (!documents) assert_memory_equal(attention + i * CELLS, one.attention_mask, CELLS);
            if (documents) assert_memory_equal(bounds + i * (S + 1), one.cu_seqlens, (S + 1) * sizeof *bounds);
            if (documents) assert_int_equal(longest[i], one.max_seqlen[0]);
        }
        static const int64_t bad[2] = {0, 1000000};
        assert_int_equal(stoker_gpt_dataset_batch(gpt, &form, bad, 2, &out, &err), STOKER_ERR_INVALID_ARGUMENT);
        assert_string_equal(err.context, "sample 1000000");
        assert_int_equal(stoker_gpt_dataset_batch(gpt, &form, NULL, 0, &out, &err), STOKER_OK);
        assert_int_equal(stoker_gpt_dataset_batch(gpt, &form, NULL, 1, &out, &err), STOKER_ERR_INVALID_ARGUMENT);
    }
    stoker_gpt_dataset_close(gpt);
    stoker_dataset_close(dataset);
}

static void test_forms_that_cannot_be(void **state)
{
    (void)state;
    stoker_dataset *dataset = open_noise(STOKER_TOKEN_INT16);
    stoker_gpt_dataset *gpt = open_gpt(dataset, 0, 0);
    struct cells cells;
    stoker_error err;
    stoker_gpt_form form = STOKER_GPT_FORM_INIT;
    stoker_gpt_item out = places_of(&cells, &form);
    form.struct_size = 4;
    assert_int_equal(stoker_gpt_dataset_item(gpt, &form, 0, &out, &err), STOKER_ERR_UNSUPPORTED);
    assert_int_equal(stoker_gpt_dataset_item(gpt, NULL, 0, &out, &err), STOKER_ERR_UNSUPPORTED);
    form.struct_size = sizeof form;
    form.documents = form.attention_mask = 1;
    assert_int_equal(stoker_gpt_dataset_item(gpt, &form, 0, &out, &err), STOKER_ERR_INVALID_ARGUMENT);
    form.attention_mask = 0;
    assert_int_equal(stoker_gpt_dataset_item(gpt, &form, 0, &out, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "cu_seqlens"));
    form.documents = 0;
    out.tokens = NULL;
    assert_int_equal(stoker_gpt_dataset_item(gpt, &form, 0, &out, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_gpt_dataset_item(gpt, &form, 0, NULL, &err), STOKER_ERR_INVALID_ARGUMENT);
    stoker_gpt_dataset_close(gpt);
    stoker_dataset_close(dataset);
}

/* One token in each of two documents, and 20 empty ones between them: more parts than cu_seqlens has places. */
static void test_too_many_documents_for_cu_seqlens(void **state)
{
    (void)state;
    static int32_t lengths[40];
    static int64_t documents[41];
    static const uint16_t tokens[40] = {1, 2, 3};
    for (int i = 0; i < 40; i++) documents[i + 1] = i + 1;
    lengths[0] = 20, lengths[39] = 5;
    const struct fixture_index index = {8, 40, 41, lengths, NULL, documents, NULL};
    const char *prefix = fixture_write("gaps", &index, tokens, 50);
    stoker_dataset *dataset = NULL;
    stoker_error err;
    assert_int_equal(stoker_dataset_open(prefix, NULL, &dataset, &err), STOKER_OK);
    int refused = 0;
    for (uint32_t seed = 0; seed < 20; seed++) {
        stoker_gpt_options options = STOKER_GPT_OPTIONS_INIT;
        options.sequence_length = S;
        options.random_seed = seed;
        stoker_gpt_dataset *gpt = NULL;
        stoker_gpt_form form = STOKER_GPT_FORM_INIT;
        struct cells cells;
        form.documents = 1;
        assert_int_equal(stoker_gpt_dataset_open(dataset, &options, &gpt, &err), STOKER_OK);
        for (int64_t k = 0; k < stoker_gpt_dataset_count(gpt); k++) {
            stoker_gpt_item out = places_of(&cells, &form);
            stoker_status status = stoker_gpt_dataset_item(gpt, &form, k, &out, &err);
            assert_int_equal(cells.cu_seqlens[S + 1], 0x77777777);
            if (status == STOKER_OK) continue;
            assert_int_equal(status, STOKER_ERR_INVALID_ARGUMENT);
            assert_non_null(strstr(err.message, "more than 12 documents"));
            refused++;
        }
        stoker_gpt_dataset_close(gpt);
    }
    assert_true(refused > 0);
    stoker_dataset_close(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_items_follow_the_rules),  FIXTURE_TEST(test_readers_without_a_mapping_give_the_same),
        FIXTURE_TEST(test_padding_item_and_bounds), FIXTURE_TEST(test_batches_are_items_in_a_row),
        FIXTURE_TEST(test_forms_that_cannot_be),    FIXTURE_TEST(test_too_many_documents_for_cu_seqlens),
    };
    return stk_run_tests(tests);
}
