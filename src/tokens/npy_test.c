/* SPDX-License-Identifier: Apache-2.0
 *
 * .npy files: the bytes that are written, what is read and what is refused, and where the memory comes from.
 */
#include "tokens/npy.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/limits.h"
#include "tests/support/allocations.h"
#include "tests/support/unit.h"
#include "tokens/reader_internal.h"

static stoker_status parse_text(const char *text, uint64_t data_bytes, struct stk_npy_header *out, stoker_error *err)
{
    uint8_t bytes[512] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    size_t length = strlen(text), whole = 10 + length;
    assert_true(whole <= sizeof bytes);
    memcpy(bytes + 10, text, length);
    while (whole % 64 != 63) bytes[whole++] = ' ';
    bytes[whole++] = '\n';
    bytes[8] = (uint8_t)(whole - 10), bytes[9] = (uint8_t)((whole - 10) >> 8);
    uint8_t *exact = malloc(whole); /* so that a sanitizer sees a read past the end */
    assert_non_null(exact);
    memcpy(exact, bytes, whole);
    stoker_status status = stk_npy_parse(exact, whole, whole + data_bytes, out, err);
    free(exact);
    return status;
}

static void test_header_is_that_of_numpy(void **state)
{
    (void)state;
    uint8_t header[STK_NPY_HEADER_BYTES];
    static const char start[] = "\x93NUMPY\x01\x00\x76\x00{'descr': '<i4', 'fortran_order': False, 'shape': (54, 2), }";
    stk_npy_encode(STOKER_INDEX_INT32, 54, 2, header);
    assert_memory_equal(header, start, sizeof start - 1);
    for (size_t i = sizeof start - 1; i < 127; i++) assert_int_equal(header[i], ' ');
    assert_int_equal(header[127], '\n');
    stk_npy_encode(STOKER_INDEX_INT16, UINT64_MAX, 1, header);
    static const char longest[] = "{'descr': '<i2', 'fortran_order': False, 'shape': (18446744073709551615,), }";
    assert_memory_equal(header + 10, longest, sizeof longest - 1);
    assert_int_equal(header[127], '\n');
}

static void test_own_headers_are_read(void **state)
{
    (void)state;
    static const stoker_index_dtype dtypes[] = {STOKER_INDEX_INT16, STOKER_INDEX_INT32, STOKER_INDEX_UINT32,
                                                STOKER_INDEX_INT64};
    stoker_error err;
    for (size_t i = 0; i < 4; i++)
        for (uint32_t columns = 1; columns <= 2; columns++) {
            uint8_t bytes[STK_NPY_HEADER_BYTES];
            struct stk_npy_header header;
            uint64_t size = 7 * columns * stk_index_dtype_size(dtypes[i]);
            stk_npy_encode(dtypes[i], 7, columns, bytes);
            assert_int_equal(stk_npy_parse(bytes, sizeof bytes, 128 + size, &header, &err), STOKER_OK);
            assert_int_equal(header.dtype, dtypes[i]);
            assert_int_equal(header.rows, 7);
            assert_int_equal(header.columns, columns);
            assert_int_equal(header.data_at, 128);
            assert_int_equal(header.data_bytes, size);
            assert_int_equal(stk_npy_parse(bytes, sizeof bytes, 127 + size, &header, &err), STOKER_ERR_CORRUPT);
            assert_int_equal(stk_npy_parse(bytes, sizeof bytes, 129 + size, &header, &err), STOKER_ERR_CORRUPT);
            assert_non_null(strstr(err.message, "does not fill the file"));
        }
    assert_int_equal(stk_index_dtype_size((stoker_index_dtype)9), 0);
    assert_string_equal(stk_index_dtype_text((stoker_index_dtype)9), "?");
}

static void test_what_else_numpy_may_write_is_read(void **state)
{
    (void)state;
    static const char *const good[] = {
        "{'shape': (3,), 'descr': '<i8', 'fortran_order': False}",
        "{ 'fortran_order':False,'descr':\"<i8\",'shape':( 3 , ) , }",
        "{'descr': '<i8', 'fortran_order': False, 'shape': (3,)}",
    };
    struct stk_npy_header header;
    stoker_error err;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_int_equal(parse_text(good[i], 24, &header, &err), STOKER_OK);
        assert_int_equal(header.rows, 3);
        assert_int_equal(header.columns, 1);
        assert_int_equal(header.dtype, STOKER_INDEX_INT64);
    }
}

static void test_bad_headers_are_refused_by_name(void **state)
{
    (void)state;
    static const struct {
        const char *text, *names;
    } bad[] = {
        {"", "header at offset"},
        {"{}", "has no 'descr'"},
        {"{'descr': '>i4', 'fortran_order': False, 'shape': (3,), }", "descr at offset"},
        {"{'descr': '<f4', 'fortran_order': False, 'shape': (3,), }", "descr at offset"},
        {"{'descr': '|O', 'fortran_order': False, 'shape': (3,), }", "expected '<i2'"},
        {"{'descr': '<i4', 'fortran_order': True, 'shape': (3,), }", "fortran_order at offset"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (), }", "a number"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (3), }", "','"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (3, 3), }", "has 3 columns, expected 2"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (1, 2, 3), }", "')'"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (-1,), }", "a number"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (18446744073709551616,), }", "below 2^64"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (4611686018427387907,), }", "does not fill"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': 3, }", "(ROWS,)"},
        {"{'descr': '<i4', 'fortran_order': False, }", "has no 'shape'"},
        {"{'descr': '<i4', 'shape': (3,), }", "has no 'fortran_order'"},
        {"{'descr': '<i4', 'descr': '<i4', 'shape': (3,), }", "once each"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (3,), 'more': 1}", "once each"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (3,)} 1", "blanks"},
        {"{'descr': '<i4' 'fortran_order': False, 'shape': (3,), }", "',' or '}'"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (3,), ", "once each"},
        {"{'descr': '<i4', 'fortran_order': False, 'shape': (3", "','"},
    };
    struct stk_npy_header header;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        stoker_error err = {0};
        assert_int_equal(parse_text(bad[i].text, 12, &header, &err), STOKER_ERR_CORRUPT);
        if (!strstr(err.message, bad[i].names)) fail_msg("'%s' does not say '%s'", err.message, bad[i].names);
    }
}

static void test_bad_beginnings_are_refused(void **state)
{
    (void)state;
    uint8_t bytes[STK_NPY_HEADER_BYTES];
    struct stk_npy_header header;
    stoker_error err;
    stk_npy_encode(STOKER_INDEX_INT32, 1, 1, bytes);
    for (size_t size = 0; size < sizeof bytes; size++)
        assert_int_equal(stk_npy_parse(bytes, size, size, &header, &err), STOKER_ERR_CORRUPT);
    static const struct {
        size_t at;
        uint8_t value;
        const char *names;
    } bad[] = {{0, 0x92, "magic"},
               {6, 2, "version at offset 6 is 2.0"},
               {7, 1, "1.1"},
               {8, 0x75, "multiple of 16"},
               {9, 1, "header length at offset 8 is 374"}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint8_t before = bytes[bad[i].at];
        bytes[bad[i].at] = bad[i].value;
        assert_int_equal(stk_npy_parse(bytes, sizeof bytes, 132, &header, &err), STOKER_ERR_CORRUPT);
        assert_non_null(strstr(err.message, bad[i].names));
        bytes[bad[i].at] = before;
    }
    assert_int_equal(stk_npy_parse(bytes, sizeof bytes, 132, &header, &err), STOKER_OK);
}

static void write_array(const char *path, uint64_t rows, size_t bytes)
{
    uint8_t header[STK_NPY_HEADER_BYTES];
    stk_npy_encode(STOKER_INDEX_INT32, rows, 1, header);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(header, 1, sizeof header, file), sizeof header);
    for (uint32_t i = 0; i < bytes / 4; i++) assert_int_equal(fwrite(&i, 4, 1, file), 1);
    assert_int_equal(fclose(file), 0);
}

static void test_small_files_are_read_and_large_ones_mapped(void **state)
{
    (void)state;
    char path[] = "/tmp/stoker-npy-XXXXXX";
    struct stk_npy npy;
    stoker_error err;
    int before = open("/dev/null", O_RDONLY);
    assert_true(before >= 0);
    assert_int_equal(close(mkstemp(path)), 0);
    for (int i = 0; i < 3; i++) {
        const uint64_t rows = i == 0 ? 0 : STK_NPY_READ_BYTES_MAX / 4 + (i == 2);
        write_array(path, rows, (size_t)rows * 4);
        assert_int_equal(stk_npy_open(path, &npy, &err), STOKER_OK);
        assert_int_equal(npy.array.rows, rows);
        assert_int_equal(npy.base_size != 0, i == 2);
        if (rows > 0) assert_int_equal(((const int32_t *)npy.array.data)[rows - 1], rows - 1);
        stk_npy_close(&npy);
        stk_npy_close(&npy);
    }
    /* no mapping left to take: it is read */
    stk_maps_set_limit(1);
    assert_true(stk_maps_take());
    assert_int_equal(stk_npy_open(path, &npy, &err), STOKER_OK);
    assert_int_equal(npy.base_size, 0);
    assert_int_equal(((const int32_t *)npy.array.data)[STK_NPY_READ_BYTES_MAX / 4], STK_NPY_READ_BYTES_MAX / 4);
    stk_npy_close(&npy);
    stk_maps_give();
    stk_maps_set_limit(0);
    int after = open("/dev/null", O_RDONLY); /* no descriptor stays open */
    assert_int_equal(after, before + 1);
    assert_int_equal(close(after), 0);
    assert_int_equal(close(before), 0);
    assert_int_equal(unlink(path), 0);
}

static void test_failures_name_the_file(void **state)
{
    (void)state;
    char path[] = "/tmp/stoker-npy-XXXXXX";
    struct stk_npy npy = {0};
    stoker_error err;
    assert_int_equal(close(mkstemp(path)), 0);
    assert_int_equal(stk_npy_open(path, &npy, &err), STOKER_ERR_CORRUPT);
    assert_string_equal(err.context, path);
    write_array(path, 100, 99 * 4);
    assert_int_equal(stk_npy_open(path, &npy, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "396 bytes follow"));
    write_array(path, 10, 10 * 4);
    allocations_fail(1);
    assert_int_equal(stk_npy_open(path, &npy, &err), STOKER_ERR_NO_MEMORY);
    allocations_fail(0);
    assert_null(npy.base);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(stk_npy_open(path, &npy, &err), STOKER_ERR_NOT_FOUND);
    assert_int_equal(stk_npy_open("/tmp", &npy, &err), STOKER_ERR_UNSUPPORTED);
}

/* NumPy may pad a header to any length that two bytes can say. */
static void test_long_header(void **state)
{
    (void)state;
    char path[] = "/tmp/stoker-npy-XXXXXX";
    static uint8_t bytes[10 + 1014 + 8];
    struct stk_npy npy = {0};
    stoker_error err;
    int fd = mkstemp(path);
    stk_npy_encode(STOKER_INDEX_INT64, 1, 1, bytes);
    bytes[8] = (uint8_t)(1014 & 255), bytes[9] = 1014 >> 8;
    memset(bytes + 127, ' ', 1024 - 127);
    bytes[1024] = 42;
    assert_int_equal(write(fd, bytes, sizeof bytes), sizeof bytes);
    assert_int_equal(stk_npy_open(path, &npy, &err), STOKER_OK);
    assert_int_equal(*(const int64_t *)npy.array.data, 42);
    stk_npy_close(&npy);
    assert_int_equal(ftruncate(fd, 900), 0); /* the header alone is longer */
    assert_int_equal(stk_npy_open(path, &npy, &err), STOKER_ERR_CORRUPT);
    assert_int_equal(close(fd), 0);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_header_is_that_of_numpy),
        cmocka_unit_test(test_own_headers_are_read),
        cmocka_unit_test(test_what_else_numpy_may_write_is_read),
        cmocka_unit_test(test_bad_headers_are_refused_by_name),
        cmocka_unit_test(test_bad_beginnings_are_refused),
        cmocka_unit_test(test_small_files_are_read_and_large_ones_mapped),
        cmocka_unit_test(test_failures_name_the_file),
        cmocka_unit_test(test_long_header),
    };
    return stk_run_tests(tests);
}
