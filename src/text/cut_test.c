/* SPDX-License-Identifier: Apache-2.0
 *
 * Cuts: where they stand, where they must not, and that the pieces are the text.
 */
#include "text/cut.h"

#include "tests/support/unit.h"

/* The pieces, joined by '|', are compared with `expected`. */
static void expect(enum stk_cut_rule rule, const char *guard, const char *text, const char *expected)
{
    struct stk_cutter cutter = {.rule = rule};
    char joined[256] = "";
    size_t used = 0;
    for (; *guard; guard++) cutter.guard[(unsigned char)*guard] = true;
    const char *piece, *at = text;
    size_t size;
    stk_cutter_begin(&cutter, text, strlen(text));
    while (stk_cutter_next(&cutter, &piece, &size)) {
        assert_ptr_equal(piece, at);
        assert_true(size > 0);
        at += size;
        if (used) joined[used++] = '|';
        memcpy(joined + used, piece, size);
        used += size;
    }
    assert_ptr_equal(at, text + strlen(text));
    assert_string_equal(joined, expected);
}

static void test_cut_at_single_spaces_between_solid_characters(void **state)
{
    (void)state;
    expect(STK_CUT_SPACES, "", "", "");
    expect(STK_CUT_SPACES, "", "a", "a");
    expect(STK_CUT_SPACES, "", " ", " ");
    expect(STK_CUT_SPACES, "", "one two, (three) 4", "one| two,| (three)| 4");
    expect(STK_CUT_SPACES, "", " lead  two \n three trail ", " lead  two \n three| trail ");
    expect(STK_CUT_SPACES, "", "caf\xc3\xa9 \xc3\xa9t\xc3\xa9", "caf\xc3\xa9| \xc3\xa9t\xc3\xa9");
    expect(STK_CUT_SPACES, "", "a\xc2\xa0 b", "a\xc2\xa0 b");           /* no-break space */
    expect(STK_CUT_SPACES, "", "a \xe3\x80\x80 b", "a \xe3\x80\x80 b"); /* ideographic space */
    expect(STK_CUT_SPACES, "", "a\x01 b", "a\x01 b");
}

static void test_cut_where_words_and_numbers_end(void **state)
{
    (void)state;
    expect(STK_CUT_WORDS, "", "one,two 12ab--c", "one|,two| 12|ab|--|c");
    expect(STK_CUT_WORDS, "", "it's 'tis don't.", "it's| 'tis| don't|.");
    expect(STK_CUT_WORDS, "", "(see (see ((see '(see x(see", "(see| (|see| ((|see| '(|see| x|(see");
    expect(STK_CUT_WORDS, "", "#1 '1 \"'s", "#|1| '|1| \"'s");
    expect(STK_CUT_WORDS, "", "a  b\n\nc", "a| | b|\n\nc");
    expect(STK_CUT_WORDS, "", "a\n    b \n c\td\t e", "a|\n   | b| \n| c|\td|\t| e");
    expect(STK_CUT_WORDS, "", "a\nb.\nc\n/d \ne\n1", "a|\n|b|.\n|c|\n/d| \ne|\n|1");
    expect(STK_CUT_WORDS, "", "\nb\xc3\xa9\nb", "\nb\xc3\xa9\n|b");
    expect(STK_CUT_WORDS, "", "\xc2\xa0\nb", "\xc2\xa0\nb");
    expect(STK_CUT_WORDS, "", "caf\xc3\xa9, caf\xc3\xa9s,", "caf\xc3\xa9,| caf\xc3\xa9s|,");
    expect(STK_CUT_WORDS, "", "3.14e5", "3|.|14|e|5");
}

static void test_cut_less_where_a_special_token_may_begin(void **state)
{
    (void)state;
    expect(STK_CUT_WORDS, "<", "a,b <|end|> c,d", "a|,b| <|end|>| c|,d");
    expect(STK_CUT_WORDS, "<", "x<|end|>y,z", "x<|end|>y,z");
    expect(STK_CUT_WORDS, "<", "x  <|end|>  y", "x  <|end|> | y");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_at_single_spaces_between_solid_characters),
        cmocka_unit_test(test_cut_where_words_and_numbers_end),
        cmocka_unit_test(test_cut_less_where_a_special_token_may_begin),
    };
    return stk_run_tests(tests);
}
