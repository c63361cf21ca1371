/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines of JSON: what is found, what is passed over, and where a bad line is bad.
 */
#include "text/jsonl.h"

#include <stdlib.h>

#include "tests/support/unit.h"

static const char *const keys[] = {"text", "other"};

static struct stk_jsonl *parser_of(size_t key_count)
{
    struct stk_jsonl *parser = NULL;
    assert_int_equal(stk_jsonl_create(keys, key_count, &parser, NULL), STOKER_OK);
    return parser;
}

/* The line in memory of exactly its size, so that a read past its end is seen. */
static stoker_status parse(struct stk_jsonl *parser, const char *line, struct stk_jsonl_fault *fault)
{
    static char *exact;
    size_t size = strlen(line);
    free(exact);
    exact = malloc(size ? size : 1);
    assert_non_null(exact);
    memcpy(exact, line, size);
    return stk_jsonl_parse(parser, exact, size, fault, NULL);
}

static void expect(struct stk_jsonl *parser, const char *line, const char *wanted)
{
    struct stk_jsonl_fault fault;
    size_t count;
    if (parse(parser, line, &fault) != STOKER_OK) fail_msg("%s: %s at %zu", line, fault.cause, fault.offset);
    const struct stk_jsonl_text *texts = stk_jsonl_texts(parser, 0, &count);
    assert_int_equal(count, 1);
    assert_int_equal(texts->size, strlen(wanted));
    assert_memory_equal(texts->bytes, wanted, texts->size);
}

static void test_jsonl_finds_the_text(void **state)
{
    (void)state;
    struct stk_jsonl *parser = parser_of(1);
    expect(parser, "{\"text\": \"a b\"}", "a b");
    expect(parser, " {\"text\":\"\"} \r", "");
    expect(parser, "{\"x\": [1, {\"text\": \"no\"}, []], \"text\": \"yes\", \"y\": {}}", "yes");
    expect(parser, "{\"text\": \"first\", \"text\": \"last\"}", "last");
    expect(parser, "{\"te\\u0078t\": \"by escape\"}", "by escape");
    expect(parser, "{\"n\": [-0, 1.5e+3, 0.1, NaN, Infinity, -Infinity, true, false, null], \"text\": \"n\"}", "n");
    expect(parser, "{\"meta\": \"\\ud800\", \"\\ud800\": 1, \"text\": \"lone surrogates elsewhere\"}",
           "lone surrogates elsewhere");
    expect(parser, "{\"text\": \"\\u00e9\\u20ac\\ud83d\\ude00 \\\"\\\\\\/\\b\\f\\n\\r\\t\"}",
           "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 \"\\/\b\f\n\r\t");
    expect(parser, "{\"text\": \"long plain text before \\n an escape, and long plain text after it\"}",
           "long plain text before \n an escape, and long plain text after it");
    expect(parser, "{\"text\": \"\xc3\xa9t\xc3\xa9 \xe2\x82\xac\"}", "\xc3\xa9t\xc3\xa9 \xe2\x82\xac");
    stk_jsonl_destroy(parser);
}

static void test_jsonl_lists_and_several_keys(void **state)
{
    (void)state;
    struct stk_jsonl *parser = parser_of(2);
    struct stk_jsonl_fault fault;
    size_t count;
    assert_int_equal(parse(parser, "{\"other\": [\"\\n\", \"b\", \"\"], \"text\": []}", &fault), STOKER_OK);
    (void)stk_jsonl_texts(parser, 0, &count);
    assert_int_equal(count, 0);
    const struct stk_jsonl_text *texts = stk_jsonl_texts(parser, 1, &count);
    assert_int_equal(count, 3);
    assert_int_equal(texts[0].bytes[0], '\n');
    assert_int_equal(texts[1].bytes[0], 'b');
    assert_int_equal(texts[2].size, 0);
    stk_jsonl_destroy(parser);
}

static void test_jsonl_bad_lines_are_bad_where_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        size_t offset;
        const char *cause;
    } cases[] = {
        {"", 0, "empty"},
        {" \t", 0, "empty"},
        {"[1]", 0, "no JSON object"},
        {"\xef\xbb\xbf{\"text\": \"a\"}", 0, "byte order mark"},
        {"{\"text\": \"a\"", 12, "ends inside"},
        {"{\"text\": \"a", 11, "ends inside"},
        {"{\"text\": \"a\\", 12, "ends inside"},
        {"{\"text\": \"a\\u12", 13, "hexadecimal"},
        {"{\"text\": \"a\\q\"}", 12, "escape"},
        {"{\"text\": \"a\tb\"}", 11, "control"},
        {"{\"text\": \"12345678\x01\"}", 18, "control"},
        {"{\"text\": \"a\xff\"}", 11, "UTF-8"},
        {"{\"text\": \"a\xed\xa0\x80\"}", 11, "UTF-8"},
        {"{\"text\": \"a\\ud800\"}", 11, "surrogate"},
        {"{\"text\": \"a\\udc00\"}", 11, "surrogate"},
        {"{\"text\": \"a\\ud800\\u0041\"}", 11, "surrogate"},
        {"{\"text\": 5}", 9, "neither a text"},
        {"{\"text\": null}", 9, "neither a text"},
        {"{\"text\": [\"a\", 1]}", 15, "neither a text"},
        {"{\"text\": {\"a\": \"b\"}}", 9, "neither a text"},
        {"{\"texts\": \"a\"}", 0, "no such key"},
        {"{}", 0, "no such key"},
        {"{\"text\": \"a\"} x", 14, "more after"},
        {"{\"text\": \"a\",}", 13, "quoted name"},
        {"{text: \"a\"}", 1, "quoted name"},
        {"{\"text\" \"a\"}", 8, "':'"},
        {"{\"text\": \"a\" \"b\": 1}", 13, "','"},
        {"{\"x\": 01, \"text\": \"a\"}", 7, "','"},
        {"{\"x\": 1., \"text\": \"a\"}", 8, "point"},
        {"{\"x\": 1e, \"text\": \"a\"}", 8, "exponent"},
        {"{\"x\": [1,], \"text\": \"a\"}", 9, "JSON value"},
        {"{\"x\": [1}, \"text\": \"a\"}", 8, "','"},
        {"{\"x\": {\"y\": 1], \"text\": \"a\"}", 13, "','"},
        {"{\"x\": tru, \"text\": \"a\"}", 6, "JSON value"},
        {"{\"x\": [[[", 9, "ends inside"},
    };
    struct stk_jsonl *parser = parser_of(1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct stk_jsonl_fault fault = {0, "", 0};
        if (parse(parser, cases[i].line, &fault) != STOKER_ERR_CORRUPT) fail_msg("%s is accepted", cases[i].line);
        if (fault.offset != cases[i].offset || !strstr(fault.cause, cases[i].cause))
            fail_msg("%s: %s at %zu", cases[i].line, fault.cause, fault.offset);
    }
    expect(parser, "{\"text\": \"the parser lives on\"}", "the parser lives on");
    stk_jsonl_destroy(parser);
}

static void test_jsonl_depth_has_a_limit(void **state)
{
    (void)state;
    struct stk_jsonl *parser = parser_of(1);
    struct stk_jsonl_fault fault;
    for (size_t depth = 4096; depth <= 4097; depth++) {
        char *line = malloc(2 * depth + 64);
        assert_non_null(line);
        size_t at = 6;
        memcpy(line, "{\"x\": ", at);
        memset(line + at, '[', depth);
        memset(line + at + depth, ']', depth);
        static const char rest[] = ", \"text\": \"a\"}";
        memcpy(line + at + 2 * depth, rest, sizeof rest);
        stoker_status status = parse(parser, line, &fault);
        assert_int_equal(status, depth == 4096 ? STOKER_OK : STOKER_ERR_CORRUPT);
        free(line);
    }
    assert_non_null(strstr(fault.cause, "nested"));
    stk_jsonl_destroy(parser);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_jsonl_finds_the_text),
        cmocka_unit_test(test_jsonl_lists_and_several_keys),
        cmocka_unit_test(test_jsonl_bad_lines_are_bad_where_they_are),
        cmocka_unit_test(test_jsonl_depth_has_a_limit),
    };
    return stk_run_tests(tests);
}
