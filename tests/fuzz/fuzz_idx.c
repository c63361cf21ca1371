/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for the index of token files. The input is PREFIX.idx; PREFIX.bin is as long as its lengths say (up to a
 * bound, beyond which sequences pass its end). What is accepted is read to its last element, in each way to reach the
 * data; what is not checked at the opening must be survived at the reads.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stoker/dataset.h>

#include "tests/fuzz/fuzz.h"
#include "tokens/format.h"

#define BIN_BYTES_MAX (UINT64_C(64) << 10)
#define READ_ELEMENTS_MAX (BIN_BYTES_MAX + 8)

static char folder[64], prefix[80], idx_path[96], bin_path[96];

static void remove_folder(void)
{
    (void)unlink(idx_path);
    (void)unlink(bin_path);
    (void)rmdir(folder);
}

static void make_folder(void)
{
    if (folder[0]) return;
    (void)snprintf(folder, sizeof folder, "%s/stk-fuzz-idx-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    STK_FUZZ_CHECK(mkdtemp(folder));
    (void)snprintf(prefix, sizeof prefix, "%s/x", folder);
    (void)snprintf(idx_path, sizeof idx_path, "%s.idx", prefix);
    (void)snprintf(bin_path, sizeof bin_path, "%s.bin", prefix);
    STK_FUZZ_CHECK(atexit(remove_folder) == 0);
}

static void write_file(const char *path, const void *data, size_t size)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    STK_FUZZ_CHECK(fd >= 0);
    STK_FUZZ_CHECK(write(fd, data, size) == (ssize_t)size);
    (void)close(fd);
}

/* How long the data are according to the index, bounded; 0 if it says nothing sensible. */
static size_t bin_size(const uint8_t *data, size_t size)
{
    struct stk_index_layout layout = {0};
    uint64_t sum = 0;
    if (stk_index_header_decode(data, size, idx_path, &layout, NULL) != STOKER_OK ||
        stk_index_place(&layout, size, idx_path, NULL) != STOKER_OK)
        return 0;
    struct stk_index_view view = stk_index_view_of(&layout, data);
    for (uint64_t i = 0; i < view.sequences; i++) {
        int32_t length = stk_index_length(&view, i);
        if (length < 0 || (sum += (uint64_t)length * view.element_bytes) > BIN_BYTES_MAX) return BIN_BYTES_MAX;
    }
    return (size_t)sum;
}

static void read_all(const stoker_dataset *dataset, bool checked)
{
    static int64_t whole[READ_ELEMENTS_MAX];
    static uint8_t own[8 * READ_ELEMENTS_MAX];
    stoker_dataset_facts facts;
    stoker_dataset_get_facts(dataset, &facts);
    int64_t before = 0;
    for (uint64_t i = 0; i < facts.document_entries; i++) {
        int64_t entry;
        memcpy(&entry, (const uint8_t *)facts.documents + i * 8, 8);
        STK_FUZZ_CHECK(!checked || (entry >= before && (uint64_t)entry <= facts.sequences));
        before = entry;
    }
    int sum = 0;
    for (uint64_t i = 0; i < facts.sequences; i++) {
        int32_t length;
        memcpy(&length, (const uint8_t *)facts.lengths + i * 4, 4);
        if (facts.modes) sum += ((const int8_t *)facts.modes)[i];
        if (!checked && (length < 0 || (uint64_t)length > READ_ELEMENTS_MAX)) continue;
        stoker_error err = {0};
        stoker_dataset_run run = {i, 0, (uint64_t)length};
        stoker_status one = stoker_dataset_read(dataset, run, own, &err);
        stoker_status two = stoker_dataset_read_int64(dataset, run, whole, &err);
        STK_FUZZ_CHECK(one == two);
        STK_FUZZ_CHECK(one == STOKER_OK || (!checked && one == STOKER_ERR_CORRUPT && err.message[0]));
        run.first = UINT64_MAX / 2; /* far outside */
        STK_FUZZ_CHECK(stoker_dataset_read(dataset, run, own, NULL) != STOKER_OK || length == 0);
    }
    STK_FUZZ_CHECK(sum <= 127 * (int64_t)facts.sequences);
    uint64_t sequence = 0;
    stoker_error err = {0};
    stoker_status verified = stoker_dataset_verify(dataset, &sequence, &err);
    STK_FUZZ_CHECK(verified == STOKER_OK || verified == STOKER_ERR_CORRUPT);
    STK_FUZZ_CHECK(verified == STOKER_OK || sequence == UINT64_MAX || sequence < facts.sequences);
}

static stoker_status use(int multimodal, stoker_dataset_access access_way, int unchecked)
{
    stoker_dataset_options options = STOKER_DATASET_OPTIONS_INIT;
    stoker_dataset *dataset = NULL;
    stoker_error err = {0};
    options.multimodal = multimodal;
    options.access = access_way;
    options.unchecked = unchecked;
    options.open_retries = -1;
    stoker_status status = stoker_dataset_open(prefix, &options, &dataset, &err);
    if (status != STOKER_OK) {
        STK_FUZZ_CHECK(status == STOKER_ERR_CORRUPT || status == STOKER_ERR_UNSUPPORTED);
        STK_FUZZ_CHECK(strstr(err.message, prefix));
        return status;
    }
    read_all(dataset, !unchecked);
    stoker_dataset_close(dataset);
    return STOKER_OK;
}

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    static const uint8_t zeros[BIN_BYTES_MAX];
    make_folder();
    write_file(idx_path, data, size);
    write_file(bin_path, zeros, bin_size(data, size));
    stoker_status plain = use(0, STOKER_DATASET_MMAP, 0);
    STK_FUZZ_CHECK(use(0, STOKER_DATASET_FILE, 0) == plain);
    (void)use(0, STOKER_DATASET_MMAP, 1); /* survived is enough */
    (void)use(0, STOKER_DATASET_FILE, 1);
    stoker_status modes = use(1, STOKER_DATASET_MMAP, 0);
    STK_FUZZ_CHECK(modes != STOKER_OK || plain == STOKER_OK); /* modes only ask for more */
    return plain == STOKER_OK;
}
