/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for the snapshot of a quarantine list that a rank sends. What is accepted is opened, and each of its
 * entries is found.
 */
#include <string.h>

#include "plane/badlist.h"
#include "sys/shmem.h"
#include "tests/fuzz/fuzz.h"
#include "wire/message.h"

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    stoker_error err;
    uint64_t count = 0;
    struct stk_badlist list = {0};
    int fd = -1;
    if (stk_badlist_check(data, size, NULL, &count, &err) != STOKER_OK) return 0;
    STK_FUZZ_CHECK(stk_shmem_blob_create(data, size, &fd, &err) == STOKER_OK);
    STK_FUZZ_CHECK(stk_badlist_open(fd, &list, &err) == STOKER_OK);
    STK_FUZZ_CHECK(list.count == count && strlen(list.digest) == 64);
    for (uint64_t i = 0; i < count; i++) {
        const uint8_t *entry = list.blob + list.offsets[i];
        const char *path = (const char *)entry;
        const uint8_t *version = entry + strlen(path) + 1;
        STK_FUZZ_CHECK(stk_badlist_holds(&list, path, stk_load_u64(version), (int64_t)stk_load_u64(version + 8)));
    }
    stk_badlist_close(&list);
    return 1;
}
