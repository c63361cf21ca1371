/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks of lines to tokens, with a tokenizer of one id a piece or a character; documents, sentences, end-of-document
 * ids, lines that are left out, and every allocation failing once.
 */
#include <stoker/text.h>

#include <stdlib.h>

#include "tests/support/allocations.h"
#include "tests/support/unit.h"

static stoker_text_encoder *make(stoker_text_options options, const char *const *keys, size_t key_count)
{
    stoker_text_encoder *encoder = NULL;
    stoker_error err;
    options.keys = keys;
    options.key_count = key_count;
    if (stoker_text_encoder_create(&options, &encoder, &err) != STOKER_OK) fail_msg("%s", err.message);
    return encoder;
}

static stoker_status feed(stoker_text_encoder *encoder, const char *block, stoker_text_facts *facts)
{
    return stoker_text_encoder_feed(encoder, block, strlen(block), facts, NULL);
}

/* The tokenizer: one id for each byte of a piece, its code. */
static stoker_status learn_all(stoker_text_encoder *encoder, const stoker_text_facts *facts)
{
    for (size_t i = 0; i < facts->unknown; i++) {
        size_t size;
        const char *piece = stoker_text_encoder_unknown(encoder, i, &size);
        int32_t ids[256];
        assert_true(size <= 256);
        for (size_t j = 0; j < size; j++) ids[j] = (unsigned char)piece[j];
        stoker_status status = stoker_text_encoder_learn(encoder, i, ids, size, NULL);
        if (status < 0) return status;
    }
    return STOKER_OK;
}

static const char *const text_key[] = {"text"};

static void test_encoder_documents_sentences_and_eod(void **state)
{
    (void)state;
    static const char block[] =
        "{\"text\": \"ab c\"}\n{\"text\": \"\"}\n{\"text\": []}\n{\"text\": [\"x\", \"\", \"yz\"]}";
    stoker_text_options options = STOKER_TEXT_OPTIONS_INIT;
    options.eod = 65535;
    for (int rule = STOKER_TEXT_WHOLE; rule <= STOKER_TEXT_BYTES; rule++) {
        options.rule = (stoker_text_rule)rule;
        stoker_text_encoder *encoder = make(options, text_key, 1);
        stoker_text_facts facts;
        stoker_text_tokens out;
        assert_int_equal(feed(encoder, block, &facts), STOKER_OK);
        assert_int_equal(facts.lines, 4);
        assert_int_equal(facts.documents, 4);
        assert_int_equal(facts.fault_count, 0);
        if (rule == STOKER_TEXT_BYTES) assert_int_equal(facts.unknown, 0);
        assert_int_equal(learn_all(encoder, &facts), STOKER_OK);
        assert_int_equal(stoker_text_encoder_take(encoder, 0, &out, NULL), STOKER_OK);
        const uint16_t tokens[] = {'a', 'b', ' ', 'c', 65535, 'x', 'y', 'z', 65535};
        const int32_t lengths[] = {5, 1, 3};
        const int64_t documents[] = {1, 1, 1, 3};
        assert_int_equal(out.token_count, 9);
        assert_memory_equal(out.tokens, tokens, sizeof tokens);
        assert_int_equal(out.sequence_count, 3);
        assert_memory_equal(out.lengths, lengths, sizeof lengths);
        assert_int_equal(out.document_count, 4);
        assert_memory_equal(out.documents, documents, sizeof documents);
        stoker_text_encoder_destroy(encoder);
    }
}

static void test_encoder_asks_once_for_a_piece(void **state)
{
    (void)state;
    stoker_text_options options = STOKER_TEXT_OPTIONS_INIT;
    options.rule = STOKER_TEXT_WORDS;
    options.wide = 1;
    stoker_text_encoder *encoder = make(options, text_key, 1);
    stoker_text_facts facts;
    stoker_text_tokens out;
    assert_int_equal(feed(encoder, "{\"text\": \"the cat, the cat\"}\n{\"text\": \"the cat\"}\n", &facts), STOKER_OK);
    assert_int_equal(facts.unknown, 4); /* the| cat|,| the */
    assert_int_equal(stoker_text_encoder_take(encoder, 0, &out, NULL), STOKER_ERR_WRONG_STATE);
    assert_int_equal(learn_all(encoder, &facts), STOKER_OK);
    assert_int_equal(stoker_text_encoder_take(encoder, 0, &out, NULL), STOKER_OK);
    assert_int_equal(out.token_count, 16 + 7);
    assert_int_equal(((const int32_t *)out.tokens)[22], 't');
    assert_int_equal(feed(encoder, "{\"text\": \"the cat\"}", &facts), STOKER_OK);
    assert_int_equal(facts.unknown, 0);
    stoker_text_counters counters;
    stoker_text_encoder_get_counters(encoder, &counters);
    assert_int_equal(counters.pieces, 5 + 2 + 2);
    assert_int_equal(counters.unknown, 4);
    stoker_text_encoder_destroy(encoder);
}

static void test_encoder_numbers_keys_and_bad_lines(void **state)
{
    (void)state;
    static const char *const keys[] = {"a", "b"};
    stoker_text_options options = STOKER_TEXT_OPTIONS_INIT;
    options.rule = STOKER_TEXT_NUMBERS;
    options.id_limit = 1000;
    stoker_text_encoder *encoder = make(options, keys, 2);
    stoker_text_facts facts;
    stoker_text_tokens out;
    static const char block[] = "{\"a\": \"1 2\", \"b\": \"999\"}\n{\"a\": \"3\", \"b\": \"1000\"}\n{\"a\": \"4\"}\n"
                                "{\"b\": \"7\", \"a\": [\"5\", \"-1\"]}\n\n{\"a\": \"6\", \"b\": \"\"}\n";
    assert_int_equal(feed(encoder, block, &facts), STOKER_OK);
    assert_int_equal(facts.lines, 6);
    assert_int_equal(facts.documents, 2);
    assert_int_equal(facts.fault_count, 4);
    const char *causes[] = {"vocabulary", "no such key", "decimal", "empty"};
    const int64_t fault_keys[] = {1, 1, 0, -1};
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(facts.faults[i].line, i + 1);
        assert_non_null(strstr(facts.faults[i].cause, causes[i]));
        assert_int_equal(facts.faults[i].key, fault_keys[i]);
        assert_true(facts.faults[i].begin == 0 || block[facts.faults[i].begin - 1] == '\n');
    }
    assert_int_equal(stoker_text_encoder_take(encoder, 0, &out, NULL), STOKER_OK);
    const uint16_t first[] = {1, 2, 6};
    assert_int_equal(out.token_count, 3);
    assert_memory_equal(out.tokens, first, sizeof first);
    assert_int_equal(stoker_text_encoder_take(encoder, 1, &out, NULL), STOKER_OK);
    assert_int_equal(out.token_count, 1);
    assert_int_equal(out.document_count, 2);
    assert_int_equal(stoker_text_encoder_take(encoder, 2, &out, NULL), STOKER_ERR_INVALID_ARGUMENT);
    stoker_text_encoder_destroy(encoder);
}

static void test_encoder_ids_around_texts(void **state)
{
    (void)state;
    const int32_t before[] = {1, 2}, after[] = {3};
    stoker_text_options options = STOKER_TEXT_OPTIONS_INIT;
    options.rule = STOKER_TEXT_BYTES;
    options.prefix = before;
    options.prefix_count = 2;
    options.suffix = after;
    options.suffix_count = 1;
    stoker_text_encoder *encoder = make(options, text_key, 1);
    stoker_text_facts facts;
    stoker_text_tokens out;
    assert_int_equal(feed(encoder, "{\"text\": \"A\"}\n{\"text\": \"\"}", &facts), STOKER_OK);
    assert_int_equal(stoker_text_encoder_take(encoder, 0, &out, NULL), STOKER_OK);
    const uint16_t tokens[] = {1, 2, 'A', 3, 1, 2, 3};
    assert_int_equal(out.token_count, 7);
    assert_memory_equal(out.tokens, tokens, sizeof tokens);
    stoker_text_encoder_destroy(encoder);
}

static void test_encoder_refuses(void **state)
{
    (void)state;
    static const char *const twice[] = {"a", "a"};
    const int32_t big[] = {70000};
    stoker_text_options options = STOKER_TEXT_OPTIONS_INIT;
    stoker_text_encoder *encoder = NULL;
    stoker_error err;
    options.keys = twice;
    assert_int_equal(stoker_text_encoder_create(&options, &encoder, &err), STOKER_ERR_INVALID_ARGUMENT);
    options.key_count = 2;
    assert_int_equal(stoker_text_encoder_create(&options, &encoder, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "twice"));
    options.key_count = 1;
    options.eod = 65536;
    assert_int_equal(stoker_text_encoder_create(&options, &encoder, &err), STOKER_ERR_INVALID_ARGUMENT);
    options.eod = -1;
    options.prefix = big;
    options.prefix_count = 1;
    assert_int_equal(stoker_text_encoder_create(&options, &encoder, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_null(encoder);
    options.prefix_count = 0;
    encoder = make(options, text_key, 1);
    stoker_text_facts facts;
    assert_int_equal(feed(encoder, "{\"text\": \"a\"}", &facts), STOKER_OK);
    assert_int_equal(stoker_text_encoder_learn(encoder, 0, big, 1, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "70000"));
    assert_int_equal(stoker_text_encoder_learn(encoder, 1, big, 1, &err), STOKER_ERR_INVALID_ARGUMENT);
    stoker_text_encoder_destroy(encoder);
    stoker_text_encoder_destroy(NULL);
}

static void test_fault_encoder_every_allocation_failing_once(void **state)
{
    (void)state;
    static const char block[] =
        "{\"text\": [\"a piece, and more\\n\", \"a piece that is longer than what the table keeps "
        "because_it_has_no_place_to_cut_it_because_it_has_no_place_to_cut_it\"]}";
    static const int32_t before[] = {1};
    stoker_text_options options = STOKER_TEXT_OPTIONS_INIT;
    options.rule = STOKER_TEXT_SPACES;
    options.keys = text_key;
    options.key_count = 1;
    options.eod = 9;
    options.prefix = before;
    options.prefix_count = 1;
    for (uint64_t n = 1;; n++) {
        stoker_text_encoder *encoder = NULL;
        stoker_text_facts facts;
        stoker_text_tokens out;
        allocations_fail(n);
        stoker_status status = stoker_text_encoder_create(&options, &encoder, NULL);
        if (status == STOKER_OK) status = feed(encoder, block, &facts);
        if (status == STOKER_OK) status = learn_all(encoder, &facts);
        if (status == STOKER_OK) status = stoker_text_encoder_take(encoder, 0, &out, NULL);
        int failed = allocations_failed();
        allocations_fail(0);
        assert_int_equal(status, failed ? STOKER_ERR_NO_MEMORY : STOKER_OK);
        if (encoder && failed) { /* the encoder lives on */
            assert_int_equal(feed(encoder, block, &facts), STOKER_OK);
            assert_int_equal(learn_all(encoder, &facts), STOKER_OK);
            assert_int_equal(stoker_text_encoder_take(encoder, 0, &out, NULL), STOKER_OK);
            assert_int_equal(out.sequence_count, 2);
        }
        stoker_text_encoder_destroy(encoder);
        if (!failed) break;
        assert_true(n < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_encoder_documents_sentences_and_eod),
        cmocka_unit_test(test_encoder_asks_once_for_a_piece),
        cmocka_unit_test(test_encoder_numbers_keys_and_bad_lines),
        cmocka_unit_test(test_encoder_ids_around_texts),
        cmocka_unit_test(test_encoder_refuses),
        cmocka_unit_test(test_fault_encoder_every_allocation_failing_once),
    };
    return stk_run_tests(tests);
}
