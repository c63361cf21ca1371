/* SPDX-License-Identifier: Apache-2.0 */
#include "tokens/builder_internal.h"

#include "tokens/builder_fixture.h"

static const int64_t values[] = {99, 6, 1, 3, 1, 1, 1, 1, 1, 6, 99};
static const int64_t offsets[] = {1, 4, 4, 9, 10, 10}; /* the first need not be 0, the last not the end */

static stoker_document_batch batch_of(void)
{
    return (stoker_document_batch){
        .elements = {values, 11, STOKER_TOKEN_INT64}, .offsets = offsets, .document_count = 5};
}

static void test_batch_with_and_without_eod(void **state)
{
    (void)state;
    static const int32_t plain[] = {3, 0, 5, 1, 0}, ended[] = {4, 1, 6, 2, 1};
    static const int64_t documents[] = {0, 1, 2, 3, 4, 5};
    static const int8_t modes[] = {1, 0, 2, -1, 4};
    static const uint16_t plain_data[] = {6, 1, 3, 1, 1, 1, 1, 1, 6};
    static const uint16_t ended_data[] = {6, 1, 3, 50256, 50256, 1, 1, 1, 1, 1, 50256, 6, 50256, 50256};
    stoker_document_batch batch = batch_of();
    stoker_dataset_builder *builder = new_builder("p", STOKER_TOKEN_UINT16, false, false);
    assert_int_equal(stoker_dataset_builder_add_documents(builder, &batch, NULL), STOKER_OK);
    finish(builder, "p");
    struct fixture_index index = {STOKER_TOKEN_UINT16, 5, 6, plain, NULL, documents, NULL};
    expect_files("p", &index, plain_data, sizeof plain_data);

    builder = new_builder("q", STOKER_TOKEN_UINT16, true, false);
    batch.append_eod = 1, batch.eod = 50256, batch.modes = modes;
    assert_int_equal(stoker_dataset_builder_add_documents(builder, &batch, NULL), STOKER_OK);
    finish(builder, "q");
    index = (struct fixture_index){STOKER_TOKEN_UINT16, 5, 6, ended, NULL, documents, modes};
    expect_files("q", &index, ended_data, sizeof ended_data);
}

static void test_no_documents(void **state)
{
    (void)state;
    stoker_document_batch batch = batch_of();
    static const int64_t zero[] = {0};
    batch.document_count = 0;
    stoker_dataset_builder *builder = new_builder("n", STOKER_TOKEN_INT32, false, false);
    assert_int_equal(stoker_dataset_builder_add_documents(builder, &batch, NULL), STOKER_OK);
    finish(builder, "n");
    struct fixture_index index = {STOKER_TOKEN_INT32, 0, 1, NULL, NULL, zero, NULL};
    expect_files("n", &index, "", 0);
}

static void expect_fault(const stoker_document_batch *batch, stoker_status status, const char *text)
{
    stoker_error err = {0};
    stoker_dataset_builder *builder = new_builder("x", STOKER_TOKEN_UINT16, false, false);
    assert_int_equal(stoker_dataset_builder_add_documents(builder, batch, &err), status);
    assert_non_null(strstr(err.message, text));
    assert_int_equal(builder->lengths.count, 0);
    assert_int_equal(builder->documents.count, 1);
    assert_int_equal(builder->written + builder->used, 0);
    stoker_dataset_builder_destroy(builder);
}

static void test_bad_batches_are_refused_whole(void **state)
{
    (void)state;
    static const int64_t falling[] = {0, 5, 4, 9, 10, 10}, below[] = {-1, 4, 4, 9, 10, 10};
    static const int64_t past[] = {0, 1, 2, 3, 4, 12}, far[] = {0, 1, 2, 3, 4, INT64_MAX};
    static const int64_t wraps[] = {0, INT64_MIN, 2, 3, 4, 5}, wide[] = {0, INT32_MAX};
    stoker_document_batch batch = batch_of();
    batch.offsets = falling;
    expect_fault(&batch, STOKER_ERR_INVALID_ARGUMENT, "offset 2 is 4, below the one before (5)");
    batch.offsets = below;
    expect_fault(&batch, STOKER_ERR_INVALID_ARGUMENT, "offset 0 is -1");
    batch.offsets = past;
    expect_fault(&batch, STOKER_ERR_INVALID_ARGUMENT, "last offset is 12, but there are 11");
    batch.offsets = far;
    expect_fault(&batch, STOKER_ERR_LIMIT, "document 4 of the batch");
    batch.offsets = wraps;
    expect_fault(&batch, STOKER_ERR_INVALID_ARGUMENT, "offset 1 is");
    batch.offsets = NULL;
    expect_fault(&batch, STOKER_ERR_INVALID_ARGUMENT, "offsets must be given");
    batch.offsets = wide, batch.document_count = 1, batch.append_eod = 1; /* one too many with the token */
    expect_fault(&batch, STOKER_ERR_LIMIT, "document 0 of the batch");
    batch = batch_of();
    batch.append_eod = 1, batch.eod = 65536;
    expect_fault(&batch, STOKER_ERR_LIMIT, "token 65536 does not fit the element type uint16");
}

static void test_a_value_that_does_not_fit_names_its_document(void **state)
{
    (void)state;
    int64_t bad[11];
    memcpy(bad, values, sizeof bad);
    bad[0] = -1; /* outside the batch: not looked at */
    stoker_document_batch batch = batch_of();
    batch.elements.data = bad;
    for (int eod = 0; eod < 2; eod++) {
        batch.append_eod = eod;
        bad[8] = 70000;
        expect_fault(&batch, STOKER_ERR_LIMIT, "token 70000 at position 4 of document 2 ");
        bad[8] = 1, bad[9] = -3;
        expect_fault(&batch, STOKER_ERR_LIMIT, "token -3 at position 0 of document 3 ");
        bad[9] = 6, bad[1] = 70001;
        expect_fault(&batch, STOKER_ERR_LIMIT, "token 70001 at position 0 of document 0 ");
        bad[1] = 6;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(test_batch_with_and_without_eod),
        FIXTURE_TEST(test_no_documents),
        FIXTURE_TEST(test_bad_batches_are_refused_whole),
        FIXTURE_TEST(test_a_value_that_does_not_fit_names_its_document),
    };
    return stk_run_tests(tests);
}
