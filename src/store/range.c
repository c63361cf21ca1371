/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of bytes: see range.h. What all backends share: the head of the struct, exact reads, names of addresses, and
 * delays between tries.
 */
#include "store/range.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "store/range_internal.h"
#include "sys/clock.h"
#include "sys/thread.h"

static const char *const schemes[] = {"s3://", "msc://", "http://", "https://"};

/* The part after the scheme; NULL if the text is no address of an object. */
static const char *after_scheme(const char *url)
{
    for (size_t i = 0; i < sizeof schemes / sizeof schemes[0]; i++) {
        size_t length = strlen(schemes[i]);
        if (strncmp(url, schemes[i], length) == 0) return url + length;
    }
    return NULL;
}

bool stk_url_is_object(const char *url) { return after_scheme(url) != NULL; }

static bool has_parent_step(const char *path)
{
    for (const char *part = path; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == 0)) return true;
    }
    return false;
}

stoker_status stk_url_local_path(const char *folder, const char *url, char **out_path, stoker_error *err)
{
    const char *rest = after_scheme(url);
    if (!rest)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "'%s' is no address of an object (s3://, msc://, http(s)://)",
                        url);
    if (rest[0] == '/' || has_parent_step(rest))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "'%s' has no place inside the folder '%s'", url, folder);
    size_t folder_size = strlen(folder), rest_size = strlen(rest);
    bool slash = folder_size > 0 && folder[folder_size - 1] != '/';
    char *path = malloc(folder_size + slash + rest_size + 1);
    if (!path) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a path");
    memcpy(path, folder, folder_size);
    if (slash) path[folder_size] = '/';
    memcpy(path + folder_size + slash, rest, rest_size + 1);
    *out_path = path;
    return STOKER_OK;
}

stoker_status stk_range_create(size_t bytes, const struct stk_range_backend *backend, const char *name,
                               struct stk_range **out_range, stoker_error *err)
{
    size_t name_size = strlen(name) + 1;
    if (name_size > STK_URL_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "an address of %zu bytes; at most %u are allowed", name_size - 1,
                        STK_URL_BYTES_MAX - 1);
    struct stk_range *range = calloc(1, bytes);
    char *copy = malloc(name_size);
    if (!range || !copy) {
        free(range);
        free(copy);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to open '%s'", name);
    }
    memcpy(copy, name, name_size);
    range->backend = backend;
    range->name = copy;
    *out_range = range;
    return STOKER_OK;
}

void stk_range_free(struct stk_range *range)
{
    free(range->name);
    free(range);
}

void stk_range_close(struct stk_range *range)
{
    if (range) range->backend->close(range);
}

stoker_status stk_range_size(struct stk_range *range, uint64_t *out_size, stoker_error *err)
{
    return range->backend->size(range, out_size, err);
}

stoker_status stk_range_read_some(struct stk_range *range, uint64_t offset, size_t size, void *out, size_t *out_got,
                                  stoker_error *err)
{
    if (offset > INT64_MAX - size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "'%s': %zu bytes at offset %llu are past any object", range->name,
                        size, (unsigned long long)offset);
    size_t got = 0;
    STK_TRY(range->backend->read(range, offset, size, out, &got, err));
    STK_ASSERT(got <= size);
    *out_got = got;
    return STOKER_OK;
}

stoker_status stk_range_read(struct stk_range *range, uint64_t offset, size_t size, void *out, stoker_error *err)
{
    if (size == 0) return STOKER_OK;
    size_t got = 0;
    STK_TRY(stk_range_read_some(range, offset, size, out, &got, err));
    if (got < size)
        return stk_fail(err, STOKER_ERR_CORRUPT, "'%s' ends before byte %llu: %zu bytes at offset %llu were wanted",
                        range->name, (unsigned long long)(offset + size), size, (unsigned long long)offset);
    return STOKER_OK;
}

uint64_t stk_range_delay(uint64_t delay_ns, uint32_t retry, uint64_t most_ns)
{
    uint64_t delay = delay_ns < most_ns ? delay_ns : most_ns;
    for (uint32_t i = 0; i < retry && delay > 0 && delay < most_ns; i++)
        delay = delay > most_ns / 2 ? most_ns : delay * 2;
    return delay;
}

/* Nothing signals the condition: it is the one wait of sys/ with a deadline, and a pause is just that. */
static void really_wait(uint64_t delay_ns)
{
    struct stk_mutex *mutex = NULL;
    struct stk_condition *condition = NULL;
    uint64_t now = stk_clock_now_ns();
    uint64_t deadline = delay_ns < UINT64_MAX - 1 - now ? now + delay_ns : UINT64_MAX - 1;
    if (stk_mutex_create(UINT32_MAX, &mutex, NULL) == STOKER_OK &&
        stk_condition_create(&condition, NULL) == STOKER_OK) {
        stk_mutex_lock(mutex);
        while (stk_clock_now_ns() < deadline) (void)stk_condition_wait(condition, mutex, deadline); /* until then */
        stk_mutex_unlock(mutex);
    }
    if (condition) stk_condition_destroy(condition);
    stk_mutex_destroy(mutex);
}

void stk_range_pause(const struct stk_range *range, uint64_t delay_ns)
{
    if (range->wait.wait)
        range->wait.wait(range->wait.user, delay_ns);
    else if (delay_ns > 0)
        really_wait(delay_ns);
}
