/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for media manifests. The checksum of the header is put right, so that damage gets past it, and those of
 * packets are tried both ways. Of what is accepted every text, path and packet is used.
 */
#include <string.h>

#include "media/manifest.h"
#include "tests/fuzz/fuzz.h"

static void use_packets(const stoker_manifest *manifest, uint64_t index)
{
    struct stk_manifest_record record;
    struct stk_scan scan;
    stk_manifest_record_at(manifest, index, &record);
    const uint8_t *table = stk_manifest_table(manifest, &record);
    struct stk_packet *packets = calloc((size_t)record.packets + 1, sizeof *packets);
    STK_FUZZ_CHECK(packets);
    if (stk_manifest_get_table(table, record.table_size, packets, record.packets)) {
        uint8_t *again = malloc((size_t)record.packets * STK_MANIFEST_PACKET_BYTES_MAX + 1);
        STK_FUZZ_CHECK(again);
        STK_FUZZ_CHECK(stk_manifest_put_table(again, packets, record.packets) == record.table_size);
        STK_FUZZ_CHECK(memcmp(again, table, record.table_size) == 0);
        free(again);
    }
    free(packets);
    if (stk_manifest_scan(manifest, index, &scan, NULL) == STOKER_OK) {
        STK_FUZZ_CHECK(scan.count == record.packets);
        stk_scan_fini(&scan);
    }
}

static void use(const stoker_manifest *manifest)
{
    uint64_t bad = 0;
    char path[STK_MANIFEST_PATH_BYTES_MAX + 1];
    for (uint64_t i = 0; i < manifest->header.entry_count; i++) {
        stoker_manifest_entry entry;
        STK_FUZZ_CHECK(stoker_manifest_get_entry(manifest, i, &entry, NULL) == STOKER_OK);
        STK_FUZZ_CHECK(entry.path[0] && strlen(entry.path) <= STK_MANIFEST_PATH_BYTES_MAX);
        STK_FUZZ_CHECK((entry.error == NULL) == (entry.status == STOKER_OK));
        STK_FUZZ_CHECK(entry.error || (entry.codec && entry.width && entry.height));
        STK_FUZZ_CHECK(!entry.member || strlen(entry.member) < manifest->bytes);
        STK_FUZZ_CHECK(entry.frames <= entry.packets && entry.duration_s >= 0);
        (void)stoker_manifest_get_path(manifest, i, path, sizeof path, NULL); /* it may be too long with its folder */
        bad += entry.error != NULL;
        use_packets(manifest, i);
    }
    STK_FUZZ_CHECK(bad == manifest->header.bad_count);
}

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    stoker_error err = {0};
    char folder[] = "/folder/";
    stoker_manifest manifest = {.folder = folder, .bytes = size};
    uint8_t *copy = malloc(size ? size : 1);
    STK_FUZZ_CHECK(copy);
    memcpy(copy, data, size);
    if (size >= STK_MANIFEST_HEADER_BYTES) stk_manifest_put64(copy + 16, stk_manifest_header_id(copy));
    stoker_status status = stk_manifest_check(copy, size, &manifest.header, &err);
    if (status == STOKER_OK) {
        manifest.data = copy;
        use(&manifest);
    } else {
        STK_FUZZ_CHECK(status == STOKER_ERR_CORRUPT || status == STOKER_ERR_UNSUPPORTED);
        STK_FUZZ_CHECK(err.message[0] != 0);
    }
    free(copy);
    return status == STOKER_OK;
}
