/* SPDX-License-Identifier: Apache-2.0 */
#include "sys/digest.h"

#include <stdio.h>

#include "tests/support/unit.h"

/* Vectors of FIPS 180-4. */
static void test_known_digests(void **state)
{
    (void)state;
    char hex[65];
    stk_sha256_hex("abc", 3, hex);
    assert_string_equal(hex, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    stk_sha256_hex(NULL, 0, hex);
    assert_string_equal(hex, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void test_hex_equals_bytes(void **state)
{
    (void)state;
    uint8_t raw[32];
    char hex[65], two[3];
    stk_sha256("stoker", 6, raw);
    stk_sha256_hex("stoker", 6, hex);
    for (int i = 0; i < 32; i++) {
        (void)snprintf(two, sizeof two, "%02x", raw[i]);
        assert_memory_equal(two, hex + 2 * i, 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_known_digests), cmocka_unit_test(test_hex_equals_bytes)};
    return stk_run_tests(tests);
}
