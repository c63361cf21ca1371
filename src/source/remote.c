/* SPDX-License-Identifier: Apache-2.0
 *
 * Files in object storage: see remote.h.
 */
#include "source/remote.h"

#include <string.h>

#include "base/error.h"
#include "source/blob.h"

#define MAGIC 0x4f4b5453u /* "STKO" in a dump */
enum { HEAD_BYTES = 40, TEXTS = 9, TEXT_BYTES_MAX = 65536 };

static const char **text_at(stoker_object_options *options, int i)
{
    const char **const places[TEXTS] = {&options->access_key_id, &options->secret_access_key, &options->session_token,
                                        &options->region,        &options->endpoint,          &options->ca_bundle,
                                        &options->http_proxy,    &options->https_proxy,       &options->no_proxy};
    return places[i];
}

size_t stk_remote_size(const stoker_path_list *list)
{
    if (!list->object) return 0;
    stoker_object_options options = *list->object;
    size_t size = HEAD_BYTES;
    for (int i = 0; i < TEXTS; i++) size += 1 + (*text_at(&options, i) ? strlen(*text_at(&options, i)) : 0);
    return size;
}

void stk_remote_put(uint8_t *part, const stoker_path_list *list)
{
    if (!list->object) return;
    stoker_object_options options = *list->object;
    stk_blob_put32(part, MAGIC);
    stk_blob_put32(part + 4, (uint32_t)stk_remote_size(list));
    stk_blob_put32(part + 8, (uint32_t)options.path_style);
    stk_blob_put32(part + 12, (uint32_t)options.retries);
    stk_blob_put64(part + 16, options.connect_timeout_ns);
    stk_blob_put64(part + 24, options.stall_timeout_ns);
    stk_blob_put64(part + 32, options.retry_delay_ns);
    part += HEAD_BYTES;
    for (int i = 0; i < TEXTS; i++) {
        const char *text = *text_at(&options, i) ? *text_at(&options, i) : "";
        size_t size = strlen(text) + 1;
        memcpy(part, text, size);
        part += size;
    }
}

stoker_status stk_remote_check(struct stk_files *files, const uint8_t *part, size_t size, size_t *out_size,
                               stoker_error *err)
{
    *out_size = 0;
    if (size < HEAD_BYTES || stk_blob_get32(part) != MAGIC) return STOKER_OK;
    const size_t whole = stk_blob_get32(part + 4);
    if (whole < HEAD_BYTES + TEXTS || whole > HEAD_BYTES + TEXT_BYTES_MAX || whole > size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: options of object storage of %zu bytes, %zu are left",
                        whole, size);
    files->object.path_style = (int)stk_blob_get32(part + 8);
    files->object.retries = (int)stk_blob_get32(part + 12);
    files->object.connect_timeout_ns = stk_blob_get64(part + 16);
    files->object.stall_timeout_ns = stk_blob_get64(part + 24);
    files->object.retry_delay_ns = stk_blob_get64(part + 32);
    const uint8_t *text = part + HEAD_BYTES, *end = part + whole;
    for (int i = 0; i < TEXTS; i++) {
        const uint8_t *stop = text < end ? memchr(text, 0, (size_t)(end - text)) : NULL;
        if (!stop)
            return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: text %d of the options of object storage has no end",
                            i);
        if (stop > text) *text_at(&files->object, i) = (const char *)text;
        text = stop + 1;
    }
    if (text != end)
        return stk_fail(err, STOKER_ERR_CORRUPT, "source blob: %zu bytes behind the options of object storage",
                        (size_t)(end - text));
    *out_size = whole;
    return STOKER_OK;
}

stoker_status stk_remote_open(const struct stk_files *files, const char *url, struct stk_file *out_file,
                              stoker_error *err)
{
    return stk_file_open_object(url, &files->object, out_file, err);
}
