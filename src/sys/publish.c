/* SPDX-License-Identifier: Apache-2.0
 *
 * Files that appear whole or not at all, and the lock of one worker among many: see publish.h.
 *
 * The temporary file has no name where the file system allows it (O_TMPFILE), so that even SIGKILL leaves nothing; the
 * name is made at the end by a link. Where it does not, the file has a name that begins with ".stoker-".
 *
 * The lock is a POSIX record lock: every network file system has those, and a forked child does not inherit them. Their
 * flaw is that closing any descriptor of the file ends the lock of the whole process, so files that this process has
 * locked are kept in a list and are not opened again.
 */
#include "sys/publish.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/error.h"
#include "base/limits.h"
#include "sys/clock.h"
#include "sys/leftover.h"
#include "sys/thread.h"

/* Linux moves at most 2 GiB a call. */
#define WRITE_BYTES_MAX ((size_t)1 << 30)
enum { NAME_TRIES = 100, POLL_FIRST_NS = 1000000, POLL_LAST_NS = 100000000, FILE_MODE = 0666, FOLDER_MODE = 0777 };

static stoker_status status_of(int os_error)
{
    switch (os_error) {
    case ENOENT:
    case ENOTDIR: return STOKER_ERR_NOT_FOUND;
    case ENOSPC:
    case EDQUOT: return STOKER_ERR_NO_SPACE;
    case ENOMEM: return STOKER_ERR_NO_MEMORY;
    case EMFILE:
    case ENFILE: return STOKER_ERR_LIMIT;
    default: return STOKER_ERR_IO;
    }
}

/* The folder of a path, on the heap; "." for a bare name. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    if (!slash) return strdup(".");
    return strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

/* ------------------------------------------------------------------------------------------------------- publishing */

/* A file without a name, if it can get one later: that goes through /proc. */
static int open_unnamed(const char *folder)
{
    char link[64];
    struct stat by_fd, by_link;
    int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, FILE_MODE);
    if (fd < 0) return -1;
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    if (fstat(fd, &by_fd) == 0 && stat(link, &by_link) == 0 && by_fd.st_ino == by_link.st_ino &&
        by_fd.st_dev == by_link.st_dev)
        return fd;
    (void)close(fd); /* empty */
    return -1;
}

/* Between its creation and its claim, the file looks like one that a killed process left: it may be gone already. */
static bool is_named(int fd)
{
    struct stat facts;
    return fstat(fd, &facts) == 0 && facts.st_nlink > 0;
}

static int open_named(struct stk_publish *publish)
{
    for (int i = 0; i < NAME_TRIES; i++) {
        char *name = stk_leftover_name(publish->path, STK_ENDING_PART);
        if (!name) {
            errno = ENOMEM;
            return -1;
        }
        int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
        int os_error = fd >= 0 ? EEXIST : errno;
        if (fd >= 0) {
            publish->claim = stk_file_claim(fd, false);
            if (is_named(fd)) {
                publish->part_path = name;
                return fd;
            }
            (void)close(fd); /* empty */
            stk_file_lock_release(publish->claim);
            publish->claim = NULL;
        }
        free(name);
        errno = os_error;
        if (os_error != EEXIST) return -1;
    }
    return -1;
}

stoker_status stk_publish_check_name(const char *path, stoker_error *err)
{
    struct stat facts;
    if (stat(path, &facts) != 0 || S_ISREG(facts.st_mode)) return STOKER_OK; /* other faults show up when it is made */
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "cannot create '%s': a %s has this name", path,
                    S_ISDIR(facts.st_mode) ? "folder" : "device, pipe or socket");
}

stoker_status stk_publish_begin(const char *path, struct stk_publish *out, stoker_error *err)
{
    struct stk_publish made = {.fd = -1, .pid = (int)getpid()};
    STK_TRY(stk_publish_check_name(path, err));
    stoker_status status = STOKER_OK;
    char *folder = folder_of(path);
    made.path = strdup(path);
    if (!folder || !made.path) {
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to create '%s'", path);
        goto done;
    }
    made.fd = open_unnamed(folder);
    if (made.fd < 0) made.fd = open_named(&made);
    if (made.fd < 0) status = stk_fail_os(err, status_of(errno), errno, "cannot create '%s'", path);
done:
    free(folder);
    if (status != STOKER_OK)
        free(made.path);
    else
        *out = made;
    return status;
}

stoker_status stk_publish_write(struct stk_publish *publish, uint64_t offset, const void *data, size_t size,
                                stoker_error *err)
{
    const uint8_t *from = data;
    if (offset > INT64_MAX - size)
        return stk_fail(err, STOKER_ERR_LIMIT, "'%s' would be larger than any file", publish->path);
    for (size_t done = 0; done < size;) {
        size_t part = size - done < WRITE_BYTES_MAX ? size - done : WRITE_BYTES_MAX;
        ssize_t wrote = pwrite(publish->fd, from + done, part, (off_t)(offset + done));
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote <= 0) {
            int os_error = wrote < 0 ? errno : ENOSPC;
            return stk_fail_os(err, status_of(os_error), os_error, "cannot write %zu bytes at offset %llu of '%s'",
                               part, (unsigned long long)(offset + done), publish->path);
        }
        done += (size_t)wrote;
    }
    return STOKER_OK;
}

/* Gives the unnamed file the final name at once, or a temporary one if the final name is taken. */
static int name_file(struct stk_publish *publish, bool *out_placed)
{
    char link[64];
    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", publish->fd);
    if (linkat(AT_FDCWD, link, AT_FDCWD, publish->path, AT_SYMLINK_FOLLOW) == 0) {
        *out_placed = true;
        return 0;
    }
    if (errno == EEXIST) {
        publish->claim = stk_file_claim(publish->fd, false);
        errno = EEXIST;
    }
    for (int i = 0; errno == EEXIST && i < NAME_TRIES; i++) {
        char *name = stk_leftover_name(publish->path, STK_ENDING_PART);
        if (!name) {
            errno = ENOMEM;
            return -1;
        }
        if (linkat(AT_FDCWD, link, AT_FDCWD, name, AT_SYMLINK_FOLLOW) == 0) {
            publish->part_path = name;
            return 0;
        }
        int os_error = errno;
        free(name);
        errno = os_error;
    }
    return -1;
}

static int sync_folder(const char *folder)
{
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return errno == EACCES ? 0 : -1; /* a folder that we may write but not read cannot be synced */
    int failed = fsync(fd);
    int os_error = errno;
    (void)close(fd);
    errno = os_error;
    return failed != 0 && os_error != EINVAL && os_error != ENOSYS ? -1 : 0; /* some file systems have no such sync */
}

void stk_publish_push(struct stk_publish *publish, uint64_t offset, uint64_t size)
{
    if (publish->unsynced) return;
    (void)sync_file_range(publish->fd, (off_t)offset, (off_t)size, SYNC_FILE_RANGE_WRITE); /* only a hint */
}

/* Gives a file that is on the disk its name; the folder is not synced yet. */
static int place(struct stk_publish *publish)
{
    bool placed = false;
    if (!publish->part_path && name_file(publish, &placed) != 0) return -1;
    if (placed) return 0;
    if (rename(publish->part_path, publish->path) != 0) return -1;
    free(publish->part_path);
    publish->part_path = NULL;
    return 0;
}

/* Files that get their names together; folders of the same index. */
struct commit {
    struct stk_publish *const *files;
    char *folders[STK_PUBLISH_FILES_MAX];
    size_t count;
    size_t named; /* how many have their name */
    size_t at;    /* the file that a fault belongs to */
};

static int sync_files(struct commit *commit)
{
    for (commit->at = 0; commit->at < commit->count; commit->at++)
        if (!commit->files[commit->at]->unsynced && fsync(commit->files[commit->at]->fd) != 0) return -1;
    return 0;
}

static int place_files(struct commit *commit)
{
    for (commit->at = 0; commit->at < commit->count; commit->at++) {
        if (place(commit->files[commit->at]) != 0) return -1;
        commit->named++;
    }
    return 0;
}

static int sync_folders(struct commit *commit)
{
    for (commit->at = 0; commit->at < commit->count; commit->at++) {
        bool same = commit->at > 0 && strcmp(commit->folders[commit->at], commit->folders[commit->at - 1]) == 0;
        if (!same && !commit->files[commit->at]->unsynced && sync_folder(commit->folders[commit->at]) != 0) return -1;
    }
    return 0;
}

/* The files in their order, all or none. */
static stoker_status commit_files(struct stk_publish *const *files, size_t count, stoker_error *err)
{
    struct commit commit = {.files = files, .count = count};
    stoker_status status = STOKER_OK;
    for (size_t i = 0; i < count && status == STOKER_OK; i++) {
        commit.folders[i] = folder_of(files[i]->path);
        if (!commit.folders[i])
            status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to publish '%s'", files[i]->path);
    }
    if (status == STOKER_OK && (sync_files(&commit) != 0 || place_files(&commit) != 0 || sync_folders(&commit) != 0)) {
        int os_error = errno;
        /* What is not synced with its folder could be undone by a power cut: it has not appeared. */
        for (size_t i = 0; i < commit.named; i++) (void)unlink(files[i]->path);
        status = stk_fail_os(err, status_of(os_error), os_error, "cannot publish '%s'", files[commit.at]->path);
    }
    for (size_t i = 0; i < count; i++) {
        free(commit.folders[i]);
        stk_publish_abort(files[i]);
    }
    return status;
}

stoker_status stk_publish_commit(struct stk_publish *publish, stoker_error *err)
{
    STK_ASSERT(publish->fd >= 0);
    return commit_files(&publish, 1, err);
}

stoker_status stk_publish_commit_all(struct stk_publish *const *files, size_t count, stoker_error *err)
{
    STK_ASSERT(count <= STK_PUBLISH_FILES_MAX);
    for (size_t i = 0; i < count; i++) STK_ASSERT(files[i]->fd >= 0);
    return commit_files(files, count, err);
}

stoker_status stk_publish_commit_pair(struct stk_publish *first, struct stk_publish *second, stoker_error *err)
{
    struct stk_publish *const files[] = {first, second};
    return stk_publish_commit_all(files, 2, err);
}

void stk_publish_abort(struct stk_publish *publish)
{
    if (!publish || publish->fd < 0 || !publish->path) return;
    if (publish->part_path && publish->pid == (int)getpid()) (void)unlink(publish->part_path);
    (void)close(publish->fd); /* synced, or thrown away; the claim ends */
    stk_file_lock_release(publish->claim);
    free(publish->part_path);
    free(publish->path);
    *publish = (struct stk_publish){.fd = -1};
}

stoker_status stk_make_folders(const char *folder, stoker_error *err)
{
    char *path = strdup(folder);
    if (!path) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to create folder '%s'", folder);
    int os_error = 0;
    for (char *at = path; *at && os_error == 0;) {
        at += strspn(at, "/");
        at += strcspn(at, "/");
        char kept = *at;
        *at = 0;
        struct stat facts;
        if (mkdir(path, FOLDER_MODE) != 0) {
            int made = errno; /* whatever it was: a folder that is there is all that is wanted */
            if (stat(path, &facts) != 0)
                os_error = made;
            else if (!S_ISDIR(facts.st_mode))
                os_error = ENOTDIR;
        }
        *at = kept;
    }
    free(path);
    if (os_error == 0) return STOKER_OK;
    return stk_fail_os(err, status_of(os_error), os_error, "cannot create folder '%s'", folder);
}

/* ------------------------------------------------------------------------------------------------------------- lock */

struct stk_file_lock {
    struct stk_file_lock *next;
    int fd;    /* -1 of a claim, whose descriptor is the caller's */
    pid_t pid; /* a forked child holds none of its parent's locks */
    dev_t device;
    ino_t inode;
};

static struct stk_file_lock *held; /* guarded by `owner` */
/* The process that works on the list, or 0. Not a mutex: a child that is forked while another thread has it must be
 * able to go on, and it sees by the number that the owner is not itself. Acquire and release order make the list
 * visible. */
static _Atomic int owner;

static void list_lock(void)
{
    int self = (int)getpid(), seen = 0;
    while (!atomic_compare_exchange_weak_explicit(&owner, &seen, self, memory_order_acquire, memory_order_relaxed)) {
        if (seen == self) {
            (void)sched_yield(); /* held for a few system calls */
            seen = 0;
        }
    }
}

static void list_unlock(void) { atomic_store_explicit(&owner, 0, memory_order_release); }

static bool is_held(const struct stat *facts)
{
    for (const struct stk_file_lock *lock = held; lock; lock = lock->next)
        if (lock->pid == getpid() && lock->device == facts->st_dev && lock->inode == facts->st_ino) return true;
    return false;
}

static int lock_whole(int fd, short type)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET};
    int failed;
    do failed = fcntl(fd, F_SETLK, &range);
    while (failed != 0 && errno == EINTR);
    return failed;
}

/* Who may create files in the folder may lock this one: a lock file that outlives its first user must not shut out
 * others. */
static void share(int fd, const char *path)
{
    struct stat own, around;
    char *folder = folder_of(path);
    if (folder && fstat(fd, &own) == 0 && own.st_uid == geteuid() && stat(folder, &around) == 0) {
        mode_t wanted =
            S_IRUSR | S_IWUSR | (around.st_mode & (S_IWGRP | S_IWOTH)) | (around.st_mode & (S_IRGRP | S_IROTH));
        if ((own.st_mode & 0777) != wanted) (void)fchmod(fd, wanted); /* as well as can be */
    }
    free(folder);
}

/* One try. 0: held; EAGAIN: by another; else an error number. */
static int try_lock(const char *path, struct stk_file_lock *lock)
{
    struct stat facts;
    if (stat(path, &facts) == 0 && is_held(&facts)) return EAGAIN;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, FILE_MODE);
    if (fd < 0) return errno;
    share(fd, path);
    int os_error = 0;
    if (lock_whole(fd, F_WRLCK) != 0 || fstat(fd, &facts) != 0) os_error = errno == EACCES ? EAGAIN : errno;
    if (os_error != 0) {
        (void)close(fd);
        return os_error;
    }
    *lock = (struct stk_file_lock){held, fd, getpid(), facts.st_dev, facts.st_ino};
    held = lock;
    return 0;
}

/* Nothing signals the condition: it is how this folder waits until a time. Early ends of the wait are as good. */
static void let_pass(uint64_t pause_ns)
{
    struct stk_mutex *mutex = NULL;
    struct stk_condition *condition = NULL;
    if (stk_mutex_create(UINT32_MAX, &mutex, NULL) == STOKER_OK &&
        stk_condition_create(&condition, NULL) == STOKER_OK) {
        stk_mutex_lock(mutex);
        (void)stk_condition_wait(condition, mutex, stk_clock_now_ns() + pause_ns);
        stk_mutex_unlock(mutex);
    }
    if (condition) stk_condition_destroy(condition);
    stk_mutex_destroy(mutex);
}

stoker_status stk_file_lock_acquire(const char *path, uint64_t wait_ns, struct stk_file_lock **out_lock,
                                    stoker_error *err)
{
    struct stk_file_lock *lock = malloc(sizeof *lock);
    if (!lock) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory to lock '%s'", path);
    uint64_t start = stk_clock_now_ns(), pause = POLL_FIRST_NS;
    for (;;) {
        list_lock();
        int os_error = try_lock(path, lock);
        list_unlock();
        if (os_error == 0) {
            *out_lock = lock;
            return STOKER_OK;
        }
        if (os_error != EAGAIN) {
            free(lock);
            return stk_fail_os(err, status_of(os_error), os_error, "cannot lock '%s'", path);
        }
        uint64_t waited = stk_clock_now_ns() - start;
        if (waited >= wait_ns) {
            free(lock);
            return STOKER_AGAIN;
        }
        /* Polling, because a blocking request can neither be given a time limit nor wait for a thread of ours. */
        uint64_t rest = wait_ns - waited;
        let_pass(pause < rest ? pause : rest);
        pause = pause * 2 < POLL_LAST_NS ? pause * 2 : POLL_LAST_NS;
    }
}

void stk_file_lock_release(struct stk_file_lock *lock)
{
    if (!lock) return;
    list_lock();
    for (struct stk_file_lock **at = &held; *at; at = &(*at)->next)
        if (*at == lock) {
            *at = lock->next;
            break;
        }
    if (lock->fd >= 0) (void)close(lock->fd); /* ends the lock too; in a forked child it ends nothing of the parent's */
    list_unlock();
    free(lock);
}

struct stk_file_lock *stk_file_claim(int fd, bool shared)
{
    struct stat facts;
    struct stk_file_lock *lock = malloc(sizeof *lock);
    if (!lock) return NULL;
    list_lock();
    bool good = lock_whole(fd, shared ? F_RDLCK : F_WRLCK) == 0 && fstat(fd, &facts) == 0;
    if (good) {
        *lock = (struct stk_file_lock){held, -1, getpid(), facts.st_dev, facts.st_ino};
        held = lock;
    }
    list_unlock();
    if (good) return lock;
    free(lock);
    return NULL;
}

static bool is_unclaimed(int fd, bool shared)
{
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (!shared) return lock_whole(fd, F_WRLCK) == 0;                  /* nobody claims it any more until it is gone */
    return fcntl(fd, F_GETLK, &range) == 0 && range.l_type == F_UNLCK; /* of another process, and shared: none comes */
}

void stk_file_remove_unclaimed(const char *path, bool shared)
{
    struct stat facts;
    list_lock();
    /* Not opened if it is ours: closing it would end our claim. */
    if (lstat(path, &facts) == 0 && S_ISREG(facts.st_mode) && !is_held(&facts)) {
        int fd = open(path, (shared ? O_RDONLY : O_RDWR) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        if (fd >= 0 && is_unclaimed(fd, shared)) (void)unlink(path);
        if (fd >= 0) (void)close(fd);
    }
    list_unlock();
}
