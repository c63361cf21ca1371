/* SPDX-License-Identifier: Apache-2.0
 *
 * The list of bad files: see stoker/quarantine.h. The only file that includes SQLite. Write-ahead logging lets readers
 * go on while somebody writes; where the file system cannot share memory (network mounts) SQLite takes another journal
 * by itself, which is slower and as safe.
 */
#include <stoker/quarantine.h>

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sqlite3.h>

#include "base/error.h"
#include "base/limits.h"
#include "sys/clock.h"
#include "sys/digest.h"

#define APPLICATION_ID 0x53544b51 /* "STKQ" */
#define FORMAT_VERSION 1
enum { BUSY_MS = 10000, AGAIN_MS = 5, VERSION_FIELDS = 16 /* bytes of size and time in the digest */ };

struct stoker_quarantine {
    sqlite3 *database;
    sqlite3_stmt *add;
    char *path;
};

/* Write-ahead logging needs a file beside the list also for reading. */
static bool folder_is_closed(const struct stoker_quarantine *list)
{
    const char *end = strrchr(list->path, '/');
    size_t size = end ? (size_t)(end - list->path) + 1 : 0;
    char folder[STK_TEXT_BYTES_MAX + 2] = ".";
    if (size > 0) {
        memcpy(folder, list->path, size);
        folder[size] = 0;
    }
    return access(list->path, R_OK) == 0 && access(folder, W_OK) != 0;
}

static stoker_status fail_sql(const struct stoker_quarantine *list, const char *what, stoker_error *err)
{
    int code = list->database ? sqlite3_errcode(list->database) : SQLITE_NOMEM;
    int os_error = list->database ? sqlite3_system_errno(list->database) : 0;
    const char *text = list->database ? sqlite3_errmsg(list->database) : "out of memory";
    switch (code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return stk_fail(err, STOKER_ERR_TIMEOUT, "quarantine list '%s': %s: another process holds it for %d s",
                        list->path, what, BUSY_MS / 1000);
    case SQLITE_NOTADB:
        return stk_fail(err, STOKER_ERR_CORRUPT, "'%s' is no quarantine list: it is no SQLite file", list->path);
    case SQLITE_CORRUPT:
        return stk_fail(err, STOKER_ERR_CORRUPT, "quarantine list '%s' is damaged: %s", list->path, text);
    case SQLITE_READONLY:
        return stk_fail(err, STOKER_ERR_IO,
                        "nothing can be added to or removed from the quarantine list '%s': it may only be read",
                        list->path);
    case SQLITE_CANTOPEN:
        if (folder_is_closed(list))
            return stk_fail(err, STOKER_ERR_IO,
                            "nothing can be added to or removed from the quarantine list '%s': its folder may only be "
                            "read",
                            list->path);
        return stk_fail_os(err, os_error == ENOENT || os_error == ENOTDIR ? STOKER_ERR_NOT_FOUND : STOKER_ERR_IO,
                           os_error, "cannot open the quarantine list '%s'", list->path);
    case SQLITE_FULL: return stk_fail(err, STOKER_ERR_NO_SPACE, "quarantine list '%s': %s: no space", list->path, what);
    case SQLITE_NOMEM: return stk_fail(err, STOKER_ERR_NO_MEMORY, "quarantine list '%s': out of memory", list->path);
    default: return stk_fail(err, STOKER_ERR_IO, "quarantine list '%s': %s: %s", list->path, what, text);
    }
}

static stoker_status run(struct stoker_quarantine *list, const char *sql, const char *what, stoker_error *err)
{
    if (sqlite3_exec(list->database, sql, NULL, NULL, NULL) == SQLITE_OK) return STOKER_OK;
    return fail_sql(list, what, err);
}

static stoker_status read_number(struct stoker_quarantine *list, const char *sql, sqlite3_int64 *out, stoker_error *err)
{
    sqlite3_stmt *query = NULL;
    int code = sqlite3_prepare_v2(list->database, sql, -1, &query, NULL);
    if (code == SQLITE_OK) code = sqlite3_step(query);
    if (code == SQLITE_ROW) *out = sqlite3_column_int64(query, 0);
    stoker_status status = code == SQLITE_ROW ? STOKER_OK : fail_sql(list, "cannot be read", err);
    (void)sqlite3_finalize(query); /* repeats the error of the step */
    return status;
}

/* ---- open */

static stoker_status create_table(struct stoker_quarantine *list, stoker_error *err)
{
    static const char table[] = "CREATE TABLE IF NOT EXISTS bad_file ("
                                "path TEXT NOT NULL, size INTEGER NOT NULL, mtime_ns INTEGER NOT NULL, "
                                "status TEXT NOT NULL, error TEXT NOT NULL, count INTEGER NOT NULL, "
                                "first_seen INTEGER NOT NULL, last_seen INTEGER NOT NULL, "
                                "PRIMARY KEY (path, size, mtime_ns)) WITHOUT ROWID;"
                                "PRAGMA application_id = 1398033233; PRAGMA user_version = 1;";
    _Static_assert(APPLICATION_ID == 1398033233, "the number in the text");
    return run(list, table, "cannot be made", err);
}

static stoker_status check_kind(struct stoker_quarantine *list, bool *out_empty, stoker_error *err)
{
    sqlite3_int64 id = 0, version = 0, tables = 0;
    /* In this order: who sees the table sees what was written with it. */
    STK_TRY(read_number(list, "SELECT count(*) FROM sqlite_master", &tables, err));
    STK_TRY(read_number(list, "PRAGMA application_id", &id, err));
    STK_TRY(read_number(list, "PRAGMA user_version", &version, err));
    *out_empty = id == 0 && tables == 0;
    if (*out_empty) return STOKER_OK;
    if (id != APPLICATION_ID)
        return stk_fail(err, STOKER_ERR_CORRUPT, "'%s' is no quarantine list: its application id is %lld, expected %d",
                        list->path, (long long)id, APPLICATION_ID);
    if (version != FORMAT_VERSION)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED, "quarantine list '%s' has version %lld, expected %d", list->path,
                        (long long)version, FORMAT_VERSION);
    return STOKER_OK;
}

static stoker_status prepare(struct stoker_quarantine *list, stoker_quarantine_mode mode, stoker_error *err)
{
    bool empty;
    (void)sqlite3_extended_result_codes(list->database, 1);
    (void)sqlite3_busy_timeout(list->database, BUSY_MS); /* neither can fail on an open connection */
    STK_TRY(check_kind(list, &empty, err));
    if (mode == STOKER_QUARANTINE_READ) {
        if (!empty) return STOKER_OK;
        return stk_fail(err, STOKER_ERR_CORRUPT, "'%s' is no quarantine list: it is empty", list->path);
    }
    /* What a crash of the machine may lose is a failure that the next run meets again. */
    STK_TRY(run(list, "PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL", "cannot be prepared", err));
    if (empty) { /* a process that came at the same moment may have made it meanwhile */
        STK_TRY(run(list, "BEGIN IMMEDIATE", "cannot be locked", err));
        stoker_status status = check_kind(list, &empty, err);
        if (status == STOKER_OK && empty) status = create_table(list, err);
        if (status == STOKER_OK) status = run(list, "COMMIT", "cannot be made", err);
        if (status != STOKER_OK) {
            (void)sqlite3_exec(list->database, "ROLLBACK", NULL, NULL, NULL); /* the first error counts */
            return status;
        }
    }
    static const char add[] =
        "INSERT INTO bad_file VALUES (?1, ?2, ?3, ?4, ?5, 1, CAST(strftime('%s', 'now') AS INTEGER), "
        "CAST(strftime('%s', 'now') AS INTEGER)) ON CONFLICT (path, size, mtime_ns) DO UPDATE SET "
        "status = excluded.status, error = excluded.error, count = count + 1, last_seen = excluded.last_seen";
    if (sqlite3_prepare_v2(list->database, add, -1, &list->add, NULL) == SQLITE_OK) return STOKER_OK;
    return fail_sql(list, "cannot be written", err);
}

/* SQLite waits for others by itself, but not where it changes the journal or clears it away at the end of the last one
 * that had the file open: there it says busy at once. */
static stoker_status prepare_in_time(struct stoker_quarantine *list, stoker_quarantine_mode mode, stoker_error *err)
{
    uint64_t until_ns = stk_clock_now_ns() + BUSY_MS * UINT64_C(1000000);
    for (;;) {
        stoker_status status = prepare(list, mode, err);
        if (status != STOKER_ERR_TIMEOUT || stk_clock_now_ns() >= until_ns) return status;
        (void)sqlite3_sleep(AGAIN_MS); /* says how long it slept */
    }
}

static stoker_status open_for(struct stoker_quarantine *list, stoker_quarantine_mode mode, stoker_error *err)
{
    int flags = mode == STOKER_QUARANTINE_WRITE ? SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE : SQLITE_OPEN_READWRITE;
    int code = sqlite3_open_v2(list->path, &list->database, flags, NULL);
    /* A list that may only be read: reading it needs no right to write where nobody writes it. */
    if (code != SQLITE_OK && mode == STOKER_QUARANTINE_READ) {
        (void)sqlite3_close(list->database);
        list->database = NULL;
        code = sqlite3_open_v2(list->path, &list->database, SQLITE_OPEN_READONLY, NULL);
    }
    return code == SQLITE_OK ? prepare_in_time(list, mode, err) : fail_sql(list, "cannot be opened", err);
}

/* "file:PATH?immutable=1" */
static char *immutable_uri(const char *path)
{
    static const char digits[] = "0123456789ABCDEF", end[] = "?immutable=1";
    char *uri = malloc(sizeof "file:" + 3 * strlen(path) + sizeof end), *at = uri;
    if (!uri) return NULL;
    memcpy(at, "file:", 5);
    at += 5;
    for (; *path; path++) {
        unsigned char byte = (unsigned char)*path;
        if (byte != '%' && byte != '?' && byte != '#') {
            *at++ = *path;
            continue;
        }
        *at++ = '%';
        *at++ = digits[byte >> 4];
        *at++ = digits[byte & 15];
    }
    memcpy(at, end, sizeof end);
    return uri;
}

/* A list whose folder may only be read: nobody of this machine can write it, so it is read without a lock and without
 * the files beside it. Not if its last writer left a log: what is in that would be missed. */
static stoker_status open_immutable(struct stoker_quarantine *list, stoker_error *err)
{
    struct stat log;
    char *beside = malloc(strlen(list->path) + sizeof "-wal"), *uri = immutable_uri(list->path);
    stoker_status status = STOKER_OK;
    if (!beside || !uri) {
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a quarantine list");
    } else {
        memcpy(beside, list->path, strlen(list->path));
        memcpy(beside + strlen(list->path), "-wal", sizeof "-wal");
        if (stat(beside, &log) == 0 && log.st_size > 0)
            status = stk_fail(err, STOKER_ERR_IO,
                              "quarantine list '%s': its folder may only be read, and '%s' is not merged into it",
                              list->path, beside);
    }
    if (status == STOKER_OK) {
        (void)sqlite3_close(list->database); /* nothing was prepared */
        list->database = NULL;
        int code = sqlite3_open_v2(uri, &list->database, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, NULL);
        status = code == SQLITE_OK ? prepare_in_time(list, STOKER_QUARANTINE_READ, err)
                                   : fail_sql(list, "cannot be opened", err);
    }
    free(beside);
    free(uri);
    return status;
}

STOKER_API stoker_status stoker_quarantine_open(const char *path, stoker_quarantine_mode mode,
                                                stoker_quarantine **out_list, stoker_error *err)
{
    if (!path || !path[0] || !out_list || strlen(path) > STK_TEXT_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the path of a quarantine list has 1 to %u bytes",
                        STK_TEXT_BYTES_MAX);
    struct stoker_quarantine *list = calloc(1, sizeof *list);
    if (list) list->path = malloc(strlen(path) + 1);
    if (!list || !list->path) {
        free(list);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a quarantine list");
    }
    memcpy(list->path, path, strlen(path) + 1);
    stoker_error seen = {0};
    stoker_status status = open_for(list, mode, &seen);
    int code = status != STOKER_OK && list->database ? sqlite3_errcode(list->database) & 0xff : SQLITE_OK;
    if (mode == STOKER_QUARANTINE_READ && (code == SQLITE_CANTOPEN || code == SQLITE_READONLY) &&
        folder_is_closed(list))
        status = open_immutable(list, &seen);
    if (status != STOKER_OK && err) *err = seen;
    if (status != STOKER_OK) {
        stoker_quarantine_close(list);
        return status;
    }
    *out_list = list;
    return STOKER_OK;
}

STOKER_API void stoker_quarantine_close(stoker_quarantine *list)
{
    if (!list) return;
    (void)sqlite3_finalize(list->add);   /* repeats the error of its last step */
    (void)sqlite3_close(list->database); /* all statements are finalised: it cannot be busy */
    free(list->path);
    free(list);
}

/* ---- write */

static stoker_status add_one(struct stoker_quarantine *list, const stoker_quarantine_entry *entry, stoker_error *err)
{
    sqlite3_stmt *add = list->add;
    const char *error = entry->error ? entry->error : "";
    (void)sqlite3_reset(add); /* repeats the error of the last step */
    if (sqlite3_bind_text(add, 1, entry->path, -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_int64(add, 2, (sqlite3_int64)entry->bytes) != SQLITE_OK ||
        sqlite3_bind_int64(add, 3, entry->mtime_ns) != SQLITE_OK ||
        sqlite3_bind_text(add, 4, stoker_status_name(entry->status), -1, SQLITE_STATIC) != SQLITE_OK ||
        sqlite3_bind_text(add, 5, error, -1, SQLITE_STATIC) != SQLITE_OK || sqlite3_step(add) != SQLITE_DONE)
        return fail_sql(list, "cannot be written", err);
    (void)sqlite3_reset(add); /* it has succeeded */
    return STOKER_OK;
}

STOKER_API stoker_status stoker_quarantine_add(stoker_quarantine *list, const stoker_quarantine_entry *entries,
                                               size_t count, stoker_error *err)
{
    if (!list || !list->add || (count && !entries))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "entries are added to a list that is open for writing");
    for (size_t i = 0; i < count; i++)
        if (!entries[i].path || !entries[i].path[0] || entries[i].bytes > INT64_MAX || entries[i].status >= 0)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                            "entry %zu: a path, a size below 2^63 and a failure are expected", i);
    if (count == 0) return STOKER_OK;
    STK_TRY(run(list, "BEGIN IMMEDIATE", "cannot be locked", err));
    stoker_status status = STOKER_OK;
    for (size_t i = 0; i < count && status == STOKER_OK; i++) status = add_one(list, &entries[i], err);
    if (status == STOKER_OK) status = run(list, "COMMIT", "cannot be written", err);
    if (status != STOKER_OK) {
        (void)sqlite3_reset(list->add);
        (void)sqlite3_exec(list->database, "ROLLBACK", NULL, NULL, NULL); /* the first error counts */
    }
    return status;
}

STOKER_API stoker_status stoker_quarantine_clear(stoker_quarantine *list, const char *path, uint64_t *out_removed,
                                                 stoker_error *err)
{
    if (!list || !list->add || !out_removed)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "entries are removed from a list that is open for writing");
    sqlite3_stmt *remove = NULL;
    static const char sql[] = "DELETE FROM bad_file WHERE ?1 IS NULL OR path = ?1";
    int code = sqlite3_prepare_v2(list->database, sql, -1, &remove, NULL);
    if (code == SQLITE_OK && path) code = sqlite3_bind_text(remove, 1, path, -1, SQLITE_STATIC);
    if (code == SQLITE_OK) code = sqlite3_step(remove);
    stoker_status status = code == SQLITE_DONE ? STOKER_OK : fail_sql(list, "cannot be cleared", err);
    (void)sqlite3_finalize(remove); /* repeats the error of the step */
    if (status == STOKER_OK) *out_removed = (uint64_t)sqlite3_changes(list->database);
    return status;
}

/* ---- read */

static stoker_status status_of(const char *name)
{
    for (int code = -1; code > -50; code--)
        if (strcmp(stoker_status_name((stoker_status)code), name) == 0) return (stoker_status)code;
    return STOKER_ERR_CORRUPT; /* of a later version */
}

static const char *text_column(sqlite3_stmt *query, int column)
{
    const char *text = (const char *)sqlite3_column_text(query, column);
    return text ? text : "";
}

STOKER_API stoker_status stoker_quarantine_walk(stoker_quarantine *list, stoker_quarantine_fn entry_fn, void *user,
                                                stoker_error *err)
{
    if (!list || !entry_fn) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "list and entry_fn must be given");
    sqlite3_stmt *query = NULL;
    static const char sql[] = "SELECT path, size, mtime_ns, status, error, count, first_seen, last_seen FROM bad_file "
                              "ORDER BY path, size, mtime_ns";
    int code = sqlite3_prepare_v2(list->database, sql, -1, &query, NULL);
    stoker_status status = STOKER_OK;
    while (code == SQLITE_OK || code == SQLITE_ROW) {
        code = sqlite3_step(query);
        if (code != SQLITE_ROW) break;
        const stoker_quarantine_entry entry = {text_column(query, 0),          (uint64_t)sqlite3_column_int64(query, 1),
                                               sqlite3_column_int64(query, 2), status_of(text_column(query, 3)),
                                               text_column(query, 4),          (uint64_t)sqlite3_column_int64(query, 5),
                                               sqlite3_column_int64(query, 6), sqlite3_column_int64(query, 7)};
        status = entry_fn(user, &entry, err);
        if (status < 0) break;
    }
    if (status >= 0 && code != SQLITE_DONE) status = fail_sql(list, "cannot be read", err);
    (void)sqlite3_finalize(query); /* repeats the error of the step */
    return status < 0 ? status : STOKER_OK;
}

struct gathered {
    uint8_t *bytes;
    size_t size, cap;
    uint64_t count;
};

static void put_number(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++) at[i] = (uint8_t)(value >> (8 * i));
}

static stoker_status gather(void *user, const stoker_quarantine_entry *entry, stoker_error *err)
{
    struct gathered *all = user;
    size_t path_size = strlen(entry->path) + 1, size = path_size + VERSION_FIELDS;
    if (++all->count > STK_QUARANTINE_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "a quarantine list of more than %u entries", STK_QUARANTINE_MAX);
    if (all->size + size > all->cap) {
        size_t cap = 2 * (all->size + size);
        uint8_t *grown = realloc(all->bytes, cap);
        if (!grown) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a list of %zu bytes", cap);
        all->bytes = grown;
        all->cap = cap;
    }
    memcpy(all->bytes + all->size, entry->path, path_size);
    put_number(all->bytes + all->size + path_size, entry->bytes);
    put_number(all->bytes + all->size + path_size + 8, (uint64_t)entry->mtime_ns);
    all->size += size;
    return STOKER_OK;
}

STOKER_API stoker_status stoker_quarantine_digest(stoker_quarantine *list, char out_digest[STOKER_DIGEST_HEX_BYTES],
                                                  uint64_t *out_count, stoker_error *err)
{
    struct gathered all = {0};
    stoker_status status = stoker_quarantine_walk(list, gather, &all, err);
    if (status == STOKER_OK) {
        stk_sha256_hex(all.bytes ? (const void *)all.bytes : "", all.size, out_digest);
        *out_count = all.count;
    }
    free(all.bytes);
    return status;
}
