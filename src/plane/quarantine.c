/* SPDX-License-Identifier: Apache-2.0
 *
 * The lists of a DataServer, and the thread that writes them: see quarantine.h. The thread starts with the first list.
 * It opens a list for as long as it has something to write to it, so that nothing is held while nobody fails.
 */
#include "plane/quarantine.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "sys/thread.h"

#define LOCK_RANK 60u
enum { WAITING_MAX = 4096, TOGETHER_MAX = 64 };

struct note { /* one failure on its way to the disk; without a path: can the list be written? */
    struct note *next;
    stoker_quarantine_entry entry;
    const char *list;
    char text[]; /* path, error and list, each ended by a zero byte */
};

struct stk_quarantine {
    /* the loop */
    struct stk_named_list *lists;
    struct stk_thread *thread;
    /* fixed */
    struct stk_mutex *lock;
    struct stk_condition *changed;
    /* guarded by lock */
    struct note *first, *last;
    uint32_t waiting;
    uint64_t refused; /* for which there was no room */
    bool stopping, failed;
    stoker_error failure; /* the last that was told, or (failed) is to be told */
};

stoker_status stk_quarantine_create(struct stk_quarantine **out_quarantine, stoker_error *err)
{
    struct stk_quarantine *quarantine = calloc(1, sizeof *quarantine);
    if (!quarantine) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for quarantine lists");
    stoker_status status = stk_mutex_create(LOCK_RANK, &quarantine->lock, err);
    if (status == STOKER_OK) status = stk_condition_create(&quarantine->changed, err);
    if (status != STOKER_OK) {
        stk_quarantine_destroy(quarantine);
        return status;
    }
    *out_quarantine = quarantine;
    return STOKER_OK;
}

void stk_quarantine_destroy(struct stk_quarantine *quarantine)
{
    if (!quarantine) return;
    if (quarantine->thread) {
        stk_mutex_lock(quarantine->lock);
        quarantine->stopping = true;
        stk_condition_signal(quarantine->changed);
        stk_mutex_unlock(quarantine->lock);
        stk_thread_join(quarantine->thread);
    }
    while (quarantine->lists) {
        quarantine->lists->users = 1;
        stk_quarantine_list_close(quarantine, quarantine->lists);
    }
    stk_condition_destroy(quarantine->changed);
    stk_mutex_destroy(quarantine->lock);
    free(quarantine);
}

/* ---- the thread */

/* Once, not for each file that cannot be noted. */
static void tell_failure(struct stk_quarantine *quarantine, const stoker_error *err)
{
    stk_mutex_lock(quarantine->lock);
    if (strcmp(quarantine->failure.message, err->message) != 0) {
        quarantine->failed = true;
        quarantine->failure = *err;
    }
    stk_mutex_unlock(quarantine->lock);
}

/* With the lock: what waits for one list, at most TOGETHER_MAX of it, in order. */
static struct note *take_locked(struct stk_quarantine *quarantine)
{
    struct note *first = quarantine->first, *last = first;
    for (int taken = 1; last; last = last->next, taken++) {
        quarantine->waiting--;
        if (taken == TOGETHER_MAX || !last->next || strcmp(last->next->list, first->list) != 0) break;
    }
    if (!last) return NULL;
    quarantine->first = last->next;
    if (!quarantine->first) quarantine->last = NULL;
    last->next = NULL;
    return first;
}

/* There, and not to be written: SQLite adds to a list only where it can make files beside it. */
static bool may_only_be_read(const char *path)
{
    char folder[STK_TEXT_BYTES_MAX + 1] = ".";
    const char *end = strrchr(path, '/');
    size_t size = end ? (size_t)(end - path) + 1 : 0;
    if (size >= sizeof folder) return false;
    if (size > 0) {
        memcpy(folder, path, size);
        folder[size] = 0;
    }
    return access(path, R_OK) == 0 && (access(path, W_OK) != 0 || access(folder, W_OK) != 0);
}

static void write_notes(struct stk_quarantine *quarantine, struct note *notes)
{
    stoker_quarantine_entry entries[TOGETHER_MAX];
    size_t count = 0;
    for (struct note *note = notes; note; note = note->next)
        if (note->entry.path) entries[count++] = note->entry;
    stoker_quarantine *list = NULL;
    stoker_error err = {0};
    stoker_status status = STOKER_OK;
    if (count > 0 || may_only_be_read(notes->list))
        status = stoker_quarantine_open(notes->list, STOKER_QUARANTINE_WRITE, &list, &err);
    if (status == STOKER_OK && list) status = stoker_quarantine_add(list, entries, count, &err);
    stoker_quarantine_close(list);
    if (status != STOKER_OK) tell_failure(quarantine, &err);
    while (notes) {
        struct note *next = notes->next;
        free(notes);
        notes = next;
    }
}

static void run(void *argument)
{
    struct stk_quarantine *quarantine = argument;
    for (;;) {
        stk_mutex_lock(quarantine->lock);
        while (!quarantine->first && !quarantine->stopping)
            (void)stk_condition_wait(quarantine->changed, quarantine->lock, UINT64_MAX); /* no deadline to miss */
        struct note *notes = take_locked(quarantine);
        stk_mutex_unlock(quarantine->lock);
        if (!notes) return;
        write_notes(quarantine, notes);
    }
}

/* ---- the loop */

static void push_locked(struct stk_quarantine *quarantine, struct note *note)
{
    if (quarantine->last)
        quarantine->last->next = note;
    else
        quarantine->first = note;
    quarantine->last = note;
    quarantine->waiting++;
    stk_condition_signal(quarantine->changed);
}

/* What cannot be written is told at the start, not at the first bad file. */
static void try_list(struct stk_quarantine *quarantine, const struct stk_named_list *list)
{
    size_t size = strlen(list->path) + 1;
    struct note *note = calloc(1, sizeof *note + size);
    if (!note) return; /* it is told at the first bad file then */
    memcpy(note->text, list->path, size);
    note->list = note->text;
    stk_mutex_lock(quarantine->lock);
    push_locked(quarantine, note);
    stk_mutex_unlock(quarantine->lock);
}

static stoker_status make_list(struct stk_quarantine *quarantine, struct stk_span path, int blob_fd,
                               struct stk_named_list **out_list, stoker_error *err)
{
    struct stk_named_list *list = calloc(1, sizeof *list);
    if (list) list->path = malloc(path.size + 1);
    stoker_status status;
    if (!list || !list->path) {
        if (blob_fd >= 0) (void)close(blob_fd); /* a blob that nobody reads */
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a quarantine list");
    } else {
        status = stk_badlist_open(blob_fd, &list->bad, err);
    }
    if (status == STOKER_OK && !quarantine->thread)
        status = stk_thread_start("stoker-badlist", run, quarantine, &quarantine->thread, err);
    if (status != STOKER_OK) {
        if (list) {
            stk_badlist_close(&list->bad);
            free(list->path);
        }
        free(list);
        return status;
    }
    memcpy(list->path, path.data, path.size);
    list->path[path.size] = 0;
    list->next = quarantine->lists;
    quarantine->lists = list;
    *out_list = list;
    try_list(quarantine, list);
    return STOKER_OK;
}

stoker_status stk_quarantine_list_open(struct stk_quarantine *quarantine, struct stk_span path, int blob_fd,
                                       struct stk_named_list **out_list, stoker_error *err)
{
    struct stk_named_list *list = quarantine->lists;
    while (list && (strlen(list->path) != path.size || memcmp(list->path, path.data, path.size) != 0))
        list = list->next;
    if (list) {
        if (blob_fd >= 0) (void)close(blob_fd); /* of a later moment: all lanes act on the first */
    } else {
        STK_TRY(make_list(quarantine, path, blob_fd, &list, err));
    }
    STK_ASSERT(list);
    list->users++;
    *out_list = list;
    return STOKER_OK;
}

void stk_quarantine_list_close(struct stk_quarantine *quarantine, struct stk_named_list *list)
{
    if (!list) return;
    STK_ASSERT(list->users > 0);
    if (--list->users > 0) return;
    struct stk_named_list **at = &quarantine->lists;
    while (*at != list) at = &(*at)->next;
    *at = list->next;
    stk_badlist_close(&list->bad);
    free(list->path);
    free(list);
}

void stk_quarantine_note(struct stk_quarantine *quarantine, const struct stk_named_list *list,
                         const stoker_quarantine_entry *entry)
{
    const char *error = entry->error ? entry->error : "";
    size_t path_size = strlen(entry->path) + 1, error_size = strlen(error) + 1, list_size = strlen(list->path) + 1;
    struct note *note = malloc(sizeof *note + path_size + error_size + list_size);
    if (note) {
        memcpy(note->text, entry->path, path_size);
        memcpy(note->text + path_size, error, error_size);
        memcpy(note->text + path_size + error_size, list->path, list_size);
        note->entry = *entry;
        note->entry.path = note->text;
        note->entry.error = note->text + path_size;
        note->list = note->text + path_size + error_size;
        note->next = NULL;
    }
    stk_mutex_lock(quarantine->lock);
    if (!note || quarantine->waiting == WAITING_MAX) {
        quarantine->refused++;
        free(note);
    } else {
        push_locked(quarantine, note);
    }
    stk_mutex_unlock(quarantine->lock);
}

bool stk_quarantine_take_failure(struct stk_quarantine *quarantine, stoker_error *out)
{
    stk_mutex_lock(quarantine->lock);
    bool failed = quarantine->failed;
    uint64_t refused = quarantine->refused;
    if (failed) *out = quarantine->failure;
    quarantine->failed = false;
    quarantine->refused = 0;
    stk_mutex_unlock(quarantine->lock);
    if (!failed && refused > 0)
        (void)stk_fail(out, STOKER_ERR_LIMIT, "%llu failures were not noted: the list is written too slowly",
                       (unsigned long long)refused);
    return failed || refused > 0;
}
