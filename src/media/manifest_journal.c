/* SPDX-License-Identifier: Apache-2.0
 *
 * The journal of a build: see manifest_journal.h.
 *
 * The file: magic (4), version (4), then records: size of what follows the sum (4), its checksum (4), an entry as it
 * stands in a manifest (its offsets of texts and table are not used), path, member, codec and error, each ended by a
 * zero byte, then the packets.
 */
#include "media/manifest_journal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "sys/filemap.h"

#define MAGIC 0x4a4b5453u /* "STKJ" in a dump */
#define VERSION 1u
enum { HEAD_BYTES = 8, TEXTS = 4, OPEN_TRIES = 10, FILE_MODE = 0666 };

/* ---------------------------------------------------------------------------------------------------------- records */

/* The value in a record's payload; false: it is not whole. */
static bool split(const uint8_t *payload, size_t size, struct stk_manifest_value *out)
{
    const char *texts[TEXTS];
    size_t at = STK_MANIFEST_ENTRY_BYTES;
    if (size < at) return false;
    stk_manifest_get_record(payload, &out->record);
    for (int i = 0; i < TEXTS; i++) {
        const uint8_t *end = memchr(payload + at, 0, size - at);
        if (!end) return false;
        texts[i] = (const char *)payload + at;
        at = (size_t)(end - payload) + 1;
    }
    if (size - at != out->record.table_size || !texts[0][0]) return false;
    out->path = texts[0];
    out->member = texts[1][0] ? texts[1] : NULL;
    out->codec = texts[2][0] ? texts[2] : NULL;
    out->error = texts[3][0] ? texts[3] : NULL;
    out->table = payload + at;
    return (out->record.status == 0) == (out->error == NULL);
}

/* Size of the record at `at` with its head, 0 if there is no whole one. */
static size_t record_size(const uint8_t *data, size_t size, uint64_t at)
{
    struct stk_manifest_value value;
    if (size - at < HEAD_BYTES) return 0;
    size_t payload = stk_manifest_get32(data + at);
    if (payload > size - at - HEAD_BYTES) return 0;
    if (stk_manifest_table_sum(data + at + HEAD_BYTES, payload) != stk_manifest_get32(data + at + 4)) return 0;
    return split(data + at + HEAD_BYTES, payload, &value) ? HEAD_BYTES + payload : 0;
}

uint64_t stk_manifest_journal_value(const struct stk_manifest_journal *journal, uint64_t at,
                                    struct stk_manifest_value *out)
{
    STK_ASSERT(at < journal->data_size);
    size_t payload = stk_manifest_get32(journal->data + at);
    bool whole = split(journal->data + at + HEAD_BYTES, payload, out);
    STK_ASSERT(whole); /* it was looked at when the journal was opened, or written by us */
    return at + HEAD_BYTES + payload;
}

/* ------------------------------------------------------------------------------------------------------------- file */

static stoker_status fail(const struct stk_manifest_journal *journal, const char *what, stoker_error *err)
{
    int os_error = errno;
    stoker_status status = os_error == ENOENT || os_error == ENOTDIR  ? STOKER_ERR_NOT_FOUND
                           : os_error == ENOSPC || os_error == EDQUOT ? STOKER_ERR_NO_SPACE
                                                                      : STOKER_ERR_IO;
    return stk_fail_os(err, status, os_error, "cannot %s '%s'", what, journal->path);
}

/* The lock is on a file, not on a name: a build that just ended has taken the name away. */
static stoker_status lock(struct stk_manifest_journal *journal, stoker_error *err)
{
    for (int i = 0; i < OPEN_TRIES; i++) {
        struct stat mine, named;
        journal->fd = open(journal->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOCTTY, FILE_MODE);
        if (journal->fd < 0) return fail(journal, "create", err);
        if (flock(journal->fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK) return fail(journal, "lock", err);
            break;
        }
        if (fstat(journal->fd, &mine) != 0) return fail(journal, "look at", err);
        if (stat(journal->path, &named) == 0 && named.st_ino == mine.st_ino && named.st_dev == mine.st_dev)
            return STOKER_OK;
        (void)close(journal->fd); /* nothing was written */
        journal->fd = -1;
    }
    return stk_fail(err, STOKER_ERR_UNAVAILABLE, "another build of this manifest runs: it has locked '%s'",
                    journal->path);
}

static stoker_status write_all(struct stk_manifest_journal *journal, const uint8_t *data, size_t size,
                               stoker_error *err)
{
    for (size_t done = 0; done < size;) {
        ssize_t wrote = pwrite(journal->fd, data + done, size - done, (off_t)(journal->end + done));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote == 0) errno = ENOSPC;
        if (wrote <= 0) return fail(journal, "write", err);
        done += (size_t)wrote;
    }
    journal->end += size;
    return STOKER_OK;
}

stoker_status stk_manifest_journal_map(struct stk_manifest_journal *journal, stoker_error *err)
{
    const void *data = NULL;
    stk_filemap_close(journal->data, journal->data_size);
    journal->data = NULL;
    journal->data_size = 0;
    if (journal->end == 0) return STOKER_OK;
    STK_TRY(stk_filemap_read(journal->fd, (size_t)journal->end, &data, err));
    journal->data = data;
    journal->data_size = (size_t)journal->end;
    return STOKER_OK;
}

static stoker_status prepare(struct stk_manifest_journal *journal, bool fresh, stoker_error *err)
{
    struct stat facts;
    uint8_t head[STK_MANIFEST_JOURNAL_FIRST];
    if (fstat(journal->fd, &facts) != 0) return fail(journal, "look at", err);
    journal->end = (uint64_t)facts.st_size;
    STK_TRY(stk_manifest_journal_map(journal, err));
    uint64_t whole = 0;
    if (!fresh && journal->end >= sizeof head && stk_manifest_get32(journal->data) == MAGIC &&
        stk_manifest_get32(journal->data + 4) == VERSION) {
        whole = STK_MANIFEST_JOURNAL_FIRST;
        for (size_t size; (size = record_size(journal->data, journal->data_size, whole)) != 0;) whole += size;
    }
    if (ftruncate(journal->fd, (off_t)whole) != 0) return fail(journal, "cut", err);
    journal->end = whole;
    if (whole == 0) {
        stk_manifest_put32(head, MAGIC);
        stk_manifest_put32(head + 4, VERSION);
        STK_TRY(write_all(journal, head, sizeof head, err));
    }
    return stk_manifest_journal_map(journal, err);
}

stoker_status stk_manifest_journal_open(const char *path, bool fresh, struct stk_manifest_journal *out_journal,
                                        stoker_error *err)
{
    struct stk_manifest_journal journal = {.fd = -1, .path = strdup(path)};
    if (!journal.path) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a path");
    stoker_status status = lock(&journal, err);
    if (status >= 0) status = prepare(&journal, fresh, err);
    if (status < 0) {
        stk_manifest_journal_close(&journal, false);
        return status;
    }
    *out_journal = journal;
    return STOKER_OK;
}

stoker_status stk_manifest_journal_append(struct stk_manifest_journal *journal, const struct stk_manifest_value *value,
                                          uint64_t *out_at, stoker_error *err)
{
    const char *texts[TEXTS] = {value->path, value->member, value->codec, value->error};
    size_t sizes[TEXTS], payload = STK_MANIFEST_ENTRY_BYTES + (size_t)value->record.table_size;
    for (int i = 0; i < TEXTS; i++) payload += sizes[i] = texts[i] ? strlen(texts[i]) + 1 : 1;
    uint8_t *bytes = payload <= UINT32_MAX ? malloc(HEAD_BYTES + payload) : NULL;
    if (!bytes) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for an entry of %zu bytes", payload);
    uint8_t *at = bytes + HEAD_BYTES + STK_MANIFEST_ENTRY_BYTES;
    stk_manifest_put_record(bytes + HEAD_BYTES, &value->record);
    for (int i = 0; i < TEXTS; i++) {
        memcpy(at, texts[i] ? texts[i] : "", sizes[i]);
        at += sizes[i];
    }
    if (value->record.table_size > 0) memcpy(at, value->table, value->record.table_size);
    stk_manifest_put32(bytes, (uint32_t)payload);
    stk_manifest_put32(bytes + 4, stk_manifest_table_sum(bytes + HEAD_BYTES, payload));
    uint64_t place = journal->end;
    stoker_status status = write_all(journal, bytes, HEAD_BYTES + payload, err);
    free(bytes);
    STK_TRY(status);
    *out_at = place;
    return STOKER_OK;
}

void stk_manifest_journal_close(struct stk_manifest_journal *journal, bool remove)
{
    if (!journal) return;
    stk_filemap_close(journal->data, journal->data_size);
    journal->data = NULL;
    if (journal->fd >= 0) {
        if (remove) (void)unlink(journal->path); /* one that stays is only read again */
        (void)close(journal->fd);                /* what it holds is written, or of no use */
    }
    journal->fd = -1;
    free(journal->path);
    journal->path = NULL;
}
