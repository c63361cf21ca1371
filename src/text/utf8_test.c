/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8: every character there and back, and what is refused.
 */
#include "text/utf8.h"

#include "tests/support/unit.h"

static void test_utf8_every_character_there_and_back(void **state)
{
    (void)state;
    for (uint32_t character = 1; character <= 0x10ffff; character++) {
        char text[4];
        if (character == 0xd800) character = 0xe000;
        size_t size = stk_utf8_encode(character, text);
        if (stk_utf8_length(text, 4) != size || stk_utf8_decode(text) != character)
            fail_msg("U+%04X", (unsigned)character);
        if (stk_utf8_length(text, size - 1) != 0)
            fail_msg("U+%04X is whole without its last byte", (unsigned)character);
    }
}

static void test_utf8_refuses_what_is_no_character(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\x80",         "\xbf",         "\xc0\x80",         "\xc1\xbf",         "\xc3\x28",
        "\xe0\x9f\xbf", "\xed\xa0\x80", "\xed\xbf\xbf",     "\xe2\x28\xa1",     "\xe2\x82\x28",
        "\xff",         "\xf5\x80\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf0\x90\x28\xbc"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        if (stk_utf8_length(bad[i], strlen(bad[i])) != 0) fail_msg("case %zu is accepted", i);
    assert_int_equal(stk_utf8_length("", 0), 0);
    assert_int_equal(stk_utf8_length("\0", 1), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_utf8_every_character_there_and_back),
        cmocka_unit_test(test_utf8_refuses_what_is_no_character),
    };
    return stk_run_tests(tests);
}
