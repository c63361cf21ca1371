/* SPDX-License-Identifier: Apache-2.0
 *
 * Giving up rights: see sandbox.h. The filter is a list of what is refused, not of what is allowed: a new version of
 * the C library or of a decoder must not fail because it reads the time by another call.
 */
#include "sys/sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/error.h"

#if STK_HAVE_SECCOMP && !defined(STK_SANITIZED)
#include <seccomp.h>
#endif

stoker_status stk_sandbox_limit_memory(uint64_t bytes, stoker_error *err)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_DATA, &limit) != 0)
        return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot read the limit of private memory");
    if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < bytes) return STOKER_OK; /* it is tighter already */
    limit.rlim_cur = limit.rlim_max = (rlim_t)bytes;
    if (setrlimit(RLIMIT_DATA, &limit) != 0)
        return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot limit private memory to %llu bytes",
                           (unsigned long long)bytes);
    return STOKER_OK;
}

#ifdef STK_SANITIZED

stoker_status stk_sandbox_lock(enum stk_sandbox_network network, stoker_error *err)
{
    (void)network;
    return stk_fail(err, STOKER_ERR_UNSUPPORTED, "this build is checked by a sanitizer, which needs all system calls");
}

#elif !STK_HAVE_SECCOMP

stoker_status stk_sandbox_lock(enum stk_sandbox_network network, stoker_error *err)
{
    (void)network;
    return stk_fail(err, STOKER_ERR_UNSUPPORTED, "this build has no libseccomp");
}

#else

/* By name: what this version of the library does not know, on this architecture, is passed over. */
static const char *const refused[] = {
    /* network; the socket that is open already goes on working */
    "bind", "listen", "accept", "accept4", "socketcall",
    /* programs and processes; threads are judged below */
    "execve", "execveat", "fork", "vfork", "unshare", "setns", "chroot", "pivot_root",
    /* other processes */
    "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp", "pidfd_open",
    "pidfd_getfd", "pidfd_send_signal", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "perf_event_open", "bpf",
    "userfaultfd", "keyctl", "add_key", "request_key",
    /* ways around the rules for opening, and files changed by name or descriptor */
    "creat", "name_to_handle_at", "open_by_handle_at", "io_uring_setup", "io_uring_enter", "io_uring_register",
    "truncate", "ftruncate", "fallocate", "unlink", "unlinkat", "rename", "renameat", "renameat2", "link", "linkat",
    "symlink", "symlinkat", "mkdir", "mkdirat", "rmdir", "mknod", "mknodat", "chmod", "fchmod", "fchmodat", "fchmodat2",
    "chown", "fchown", "lchown", "fchownat", "utime", "utimes", "utimensat", "futimesat", "setxattr", "lsetxattr",
    "fsetxattr", "removexattr", "lremovexattr", "fremovexattr", "mount", "umount2", "move_mount", "fsopen", "fsmount",
    "open_tree", "mount_setattr", "swapon", "swapoff", "acct", "quotactl",
    /* the machine */
    "init_module", "finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "sethostname",
    "setdomainname", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex", "syslog", "iopl", "ioperm"};

static bool refuse_connecting(scmp_filter_ctx filter)
{
    static const char *const calls[] = {"socket", "socketpair", "connect"};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        int call = seccomp_syscall_resolve_name(calls[i]);
        if (call >= 0 && seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0) != 0) return false;
    }
    return true;
}

static bool refuse_calls(scmp_filter_ctx filter)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        int call = seccomp_syscall_resolve_name(refused[i]);
        if (call >= 0 && seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), call, 0) != 0) return false;
    }
    /* Their flags lie in memory that a filter cannot read; without them the C library takes the older calls. */
    static const char *const unreadable[] = {"openat2", "clone3"};
    for (size_t i = 0; i < sizeof unreadable / sizeof *unreadable; i++) {
        int call = seccomp_syscall_resolve_name(unreadable[i]);
        if (call >= 0 && seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), call, 0) != 0) return false;
    }
    return true;
}

/* `flags`: number of the argument. */
static bool refuse_writing(scmp_filter_ctx filter, const char *name, unsigned flags)
{
    const scmp_datum_t never[][2] = {
        {O_ACCMODE, O_WRONLY}, {O_ACCMODE, O_RDWR}, {O_ACCMODE, O_ACCMODE}, {O_CREAT, O_CREAT}, {O_TRUNC, O_TRUNC}};
    int call = seccomp_syscall_resolve_name(name);
    if (call < 0) return true;
    for (size_t i = 0; i < sizeof never / sizeof *never; i++) {
        struct scmp_arg_cmp compare = {flags, SCMP_CMP_MASKED_EQ, never[i][0], never[i][1]};
        if (seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), call, 1, &compare) != 0) return false;
    }
    return true;
}

static bool refuse_unless(scmp_filter_ctx filter, const char *name, unsigned argument, scmp_datum_t value)
{
    struct scmp_arg_cmp compare = {argument, SCMP_CMP_NE, value, 0};
    int call = seccomp_syscall_resolve_name(name);
    return call < 0 || seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), call, 1, &compare) == 0;
}

static bool fill(scmp_filter_ctx filter)
{
    const scmp_datum_t self = (scmp_datum_t)getpid();
    const struct scmp_arg_cmp new_process = {0, SCMP_CMP_MASKED_EQ, CLONE_THREAD, 0};
    const struct scmp_arg_cmp typed_for_others = {1, SCMP_CMP_EQ, TIOCSTI, 0};
    return refuse_calls(filter) && refuse_writing(filter, "open", 1) && refuse_writing(filter, "openat", 2) &&
           refuse_unless(filter, "kill", 0, self) && refuse_unless(filter, "tgkill", 0, self) &&
           refuse_unless(filter, "prlimit64", 0, 0) &&
           seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, &new_process) == 0 &&
           seccomp_rule_add_array(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1, &typed_for_others) == 0;
}

stoker_status stk_sandbox_lock(enum stk_sandbox_network network, stoker_error *err)
{
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    if (!filter) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a filter of system calls");
    stoker_status status = STOKER_OK;
    /* Calls of another architecture of this kernel would pass by the list; the default would kill. */
    bool made = seccomp_attr_set(filter, SCMP_FLTATR_ACT_BADARCH, SCMP_ACT_ERRNO(EPERM)) == 0 &&
                seccomp_attr_set(filter, SCMP_FLTATR_CTL_TSYNC, 1) == 0 && fill(filter) &&
                (network == STK_SANDBOX_CONNECTS || refuse_connecting(filter));
    if (!made) {
        status = stk_fail(err, STOKER_ERR_UNSUPPORTED, "the filter of system calls cannot be made here");
    } else {
        int failed = seccomp_load(filter);
        if (failed != 0)
            status = stk_fail_os(err, STOKER_ERR_UNSUPPORTED, -failed, "the kernel takes no filter of system calls");
    }
    seccomp_release(filter);
    return status;
}

#endif
