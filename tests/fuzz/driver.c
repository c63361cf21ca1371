/* SPDX-License-Identifier: Apache-2.0
 *
 * Feeds each file of a corpus to a fuzz target and prints TAP: `fuzz_x FOLDER`. Names tell what is expected: valid_*
 * must be accepted, bad_* refused, anything else (what a fuzzer found) only survived. From each file the driver also
 * makes every truncation and every one with a single byte turned over: a small corpus goes a long way so.
 *
 * Inputs are handed over in blocks of their exact size, so that the address sanitizer sees the first byte read past
 * one.
 */
#include <dirent.h>
#include <stdbool.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"

#define INPUT_BYTES_MAX (1u << 20)
#define VARIED_BYTES_MAX 4096u /* larger files are run as they are only: variations cost the square of the size */

static int run_exact(const uint8_t *data, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    STK_FUZZ_CHECK(exact);
    memcpy(exact, data, size);
    int accepted = stk_fuzz_one(exact, size);
    free(exact);
    return accepted;
}

static void run_variations(uint8_t *data, size_t size)
{
    static const uint8_t flips[] = {0x01, 0x80, 0xff};
    if (size > VARIED_BYTES_MAX) return;
    for (size_t cut = 0; cut < size; cut++) (void)run_exact(data, cut);
    for (size_t at = 0; at < size; at++)
        for (size_t i = 0; i < sizeof flips; i++) {
            data[at] ^= flips[i];
            (void)run_exact(data, size);
            data[at] ^= flips[i];
        }
}

static bool run_file(const char *folder, const char *name)
{
    static uint8_t data[INPUT_BYTES_MAX];
    char path[4096];
    if (snprintf(path, sizeof path, "%s/%s", folder, name) >= (int)sizeof path) return false;
    FILE *file = fopen(path, "rb");
    if (!file) return false;
    size_t size = fread(data, 1, sizeof data, file);
    bool whole = feof(file) && !ferror(file);
    (void)fclose(file); /* it was only read */
    if (!whole) return false;

    int accepted = run_exact(data, size);
    run_variations(data, size);
    if (strncmp(name, "valid_", 6) == 0) return accepted != 0;
    if (strncmp(name, "bad_", 4) == 0) return accepted == 0;
    return true;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: %s CORPUS_FOLDER\n", argv[0]);
        return 2;
    }
    struct dirent **entries;
    int count = scandir(argv[1], &entries, NULL, by_name);
    int ran = 0, failed = 0;
    for (int i = 0; i < count; i++) {
        const char *name = entries[i]->d_name;
        if (name[0] != '.') {
            bool good = run_file(argv[1], name);
            failed += !good;
            printf("%s %d - %s\n", good ? "ok" : "not ok", ++ran, name);
        }
        free(entries[i]);
    }
    if (count >= 0) free(entries);
    if (ran == 0) {
        printf("not ok 1 - no inputs in %s\n", argv[1]);
        ran = failed = 1;
    }
    printf("1..%d\n", ran);
    return failed != 0;
}
