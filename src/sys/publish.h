/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that appear whole or not at all: written under a temporary name in the same folder, synced, renamed; then the
 * folder is synced. And the lock by which one of many processes, on any number of hosts that share the folder, does a
 * piece of work that all want.
 */
#ifndef STK_SYS_PUBLISH_H
#define STK_SYS_PUBLISH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/error.h>

struct stk_file_lock;

struct stk_publish {
    int fd; /* open for reading and writing; -1 after commit or abort */
    char *path, *part_path;
    struct stk_file_lock *claim; /* on the file under its temporary name */
    int pid;                     /* a forked child removes nothing of its parent's */
    bool unsynced; /* set by the caller after begin: names are given without syncing; a power cut may leave holes */
};

/* Whether a file may take this name: it is free, or that of an ordinary file or of a link to one. Folders, devices,
 * pipes and links to them keep theirs: INVALID_ARGUMENT, with a sentence that says what has the name. */
stoker_status stk_publish_check_name(const char *path, stoker_error *err);
/* Creates the temporary file (unique, in path's folder). INVALID_ARGUMENT (see above), NOT_FOUND (no such folder), IO,
 * NO_SPACE, NO_MEMORY. */
stoker_status stk_publish_begin(const char *path, struct stk_publish *out, stoker_error *err);
/* Writes all bytes at an offset; IO or NO_SPACE. */
stoker_status stk_publish_write(struct stk_publish *publish, uint64_t offset, const void *data, size_t size,
                                stoker_error *err);
/* Begins to bring these bytes to the disk and does not wait, so that the commit waits less. Faults show up there. */
void stk_publish_push(struct stk_publish *publish, uint64_t offset, uint64_t size);
/* Syncs, renames, syncs the folder. On failure nothing has appeared and the temporary file is gone. */
stoker_status stk_publish_commit(struct stk_publish *publish, stoker_error *err);
/* Both, the second name after the first, so that who finds the second finds the first. On failure neither has appeared,
 * what stood there before may be gone, and both temporary files are. */
stoker_status stk_publish_commit_pair(struct stk_publish *first, struct stk_publish *second, stoker_error *err);
/* All of them, at most STK_PUBLISH_FILES_MAX, likewise: first all contents are on the disk, then come the names in
 * their order, then each folder is synced once for those that follow one another. */
enum { STK_PUBLISH_FILES_MAX = 8 };
stoker_status stk_publish_commit_all(struct stk_publish *const *files, size_t count, stoker_error *err);
void stk_publish_abort(struct stk_publish *publish); /* begun or not; after commit it does nothing */

/* Folder with its parents. */
stoker_status stk_make_folders(const char *folder, stoker_error *err);

/* An exclusive lock on a file that is created beside what it guards: advisory record locks (they work over NFS and end
 * with their holder), one holder among threads of this process too. */
/* OK: held. AGAIN: another holder, after wait_ns (0: at once; UINT64_MAX: for as long as it takes). */
stoker_status stk_file_lock_acquire(const char *path, uint64_t wait_ns, struct stk_file_lock **out_lock,
                                    stoker_error *err);
void stk_file_lock_release(struct stk_file_lock *lock); /* NULL allowed; the file stays */

/* Says that this process works on an open file, until it is closed or the process ends; `shared` for a descriptor that
 * may only be read. NULL: no locks here, or another has it. The caller closes the descriptor, then releases. */
struct stk_file_lock *stk_file_claim(int fd, bool shared);
/* Removes a file that nobody claims; `shared` as it was claimed. */
void stk_file_remove_unclaimed(const char *path, bool shared);

#endif
