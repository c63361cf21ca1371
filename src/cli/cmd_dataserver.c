/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker dataserver`: serve the ranks of one job on this host. Ranks start it by themselves and hand over the socket
 * that they listen on; a site that starts it itself names the socket. SIGTERM and SIGINT end it cleanly: no process,
 * socket or segment stays.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <stoker/stoker.h>

#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"

static int stop_write_fd = -1;

static void on_stop(int signal_number)
{
    (void)signal_number;
    int saved = errno;
    (void)!write(stop_write_fd, "", 1); /* a full pipe says the same */
    errno = saved;
}

static void print_record(void *user, stoker_log_level level, const char *id, const char *text)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    (void)user;
    fprintf(stderr, "stoker dataserver: %s: %s: %s\n", names[level], id, text);
}

static bool parse_level(const char *text, stoker_log_level *out)
{
    static const char *const names[] = {"error", "warn", "info", "debug"};
    for (int i = 0; i < 4; i++)
        if (strcmp(text, names[i]) == 0) return *out = (stoker_log_level)i, true;
    return false;
}

/* Abstract: the name vanishes with its owner, so nothing is left behind whatever ends it. */
static int listen_on(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(name);
    if (size == 0 || size > 100) {
        errno = ENAMETOOLONG;
        return -1;
    }
    memcpy(address.sun_path + 1, name, size);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    if (fd < 0) return -1;
    socklen_t length = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + size);
    if (fcntl(fd, F_SETFD, FD_CLOEXEC) == 0 && fcntl(fd, F_SETFL, O_NONBLOCK) == 0 &&
        bind(fd, (struct sockaddr *)&address, length) == 0 && listen(fd, 256) == 0)
        return fd;
    int failed = errno;
    (void)close(fd); /* nothing was sent */
    errno = failed;
    return -1;
}

/* A descriptor that becomes readable at SIGTERM or SIGINT; -1 on failure. */
static int watch_signals(void)
{
    int fds[2];
    if (pipe(fds) != 0) return -1;
    for (int i = 0; i < 2; i++)
        if (fcntl(fds[i], F_SETFD, FD_CLOEXEC) != 0 || fcntl(fds[i], F_SETFL, O_NONBLOCK) != 0) return -1;
    stop_write_fd = fds[1];
    struct sigaction action = {.sa_handler = on_stop, .sa_flags = SA_RESTART};
    (void)sigemptyset(&action.sa_mask);
    if (sigaction(SIGTERM, &action, NULL) != 0 || sigaction(SIGINT, &action, NULL) != 0) return -1;
    (void)signal(SIGHUP, SIG_IGN);  /* it belongs to no terminal */
    (void)signal(SIGPIPE, SIG_IGN); /* a rank that died is found when it is read */
    return fds[0];
}

/* Each segment and each process costs a descriptor: what the site allows at most is used. */
static void raise_descriptor_limit(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == limit.rlim_max) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit); /* the old limit does for small jobs */
}

static const char *own_path(char *out, size_t size)
{
    ssize_t used = readlink("/proc/self/exe", out, size - 1);
    if (used <= 0) return NULL;
    out[used] = 0;
    return out;
}

static int serve(const stoker_dataserver_options *given, const char *listen_name)
{
    stoker_dataserver_options options = *given; /* a copy: it points to this frame */
    char program[4096];
    stoker_error err = {0};
    options.program = own_path(program, sizeof program);
    options.stop_fd = watch_signals();
    if (!options.program || options.stop_fd < 0) {
        fprintf(stderr, "stoker dataserver: cannot prepare the process: %s\n", strerror(errno));
        return CLI_EXIT_MACHINE;
    }
    raise_descriptor_limit();
    if (listen_name) options.listen_fd = listen_on(listen_name);
    if (options.listen_fd < 0) {
        fprintf(stderr, "stoker dataserver: cannot listen on '%s': %s\n", listen_name ? listen_name : "",
                strerror(errno));
        return CLI_EXIT_MACHINE;
    }
    stoker_status status = stoker_dataserver_run(&options, &err);
    if (status >= 0) return CLI_EXIT_DONE;
    fprintf(stderr, "stoker dataserver: %s\n", err.message);
    return cli_exit_of(status);
}

int cmd_dataserver(int argc, char **argv)
{
    const char *listen_fd = NULL, *listen_name = NULL, *key = NULL, *shm_dir = NULL, *level = NULL;
    const char *policy = getenv("STOKER_POLICY"), *journal = getenv("STOKER_JOURNAL"); /* of ranks that start us */
    const struct cli_option table[] = {
        {0, "listen-fd", "N", "descriptor of the listening Unix socket", NULL, &listen_fd},
        {0, "listen", "NAME", "abstract Unix socket to listen on, instead of --listen-fd", NULL, &listen_name},
        {0, "key", "HEX", "64 hexadecimal digits that every rank of the job presents", NULL, &key},
        {0, "shm-dir", "DIR", "directory of shared segments (default: anonymous memory)", NULL, &shm_dir},
        {0, "log-level", "LEVEL", "error, warn, info or debug (default: error)", NULL, &level},
        {0, "policy", "NAME", "deadline, cost, least-request or round-robin (default: deadline)", NULL, &policy},
        {0, "journal", "FILE", "record what the scheduling engine is told, for stoker-sim replay", NULL, &journal},
    };
    const struct cli_usage usage = {"dataserver",
                                    "(--listen-fd N | --listen NAME) --key HEX [--shm-dir DIR] [--log-level LEVEL] "
                                    "[--policy NAME] [--journal FILE]",
                                    "Serve the ranks of one job on this host: owns the shared memory and the worker\n"
                                    "processes. Ranks start it by themselves; it ends when they have left.",
                                    table, sizeof table / sizeof table[0]};
    int count;
    switch (cli_options_parse(&usage, argc, argv, &count)) {
    case CLI_PARSED_HELP: return CLI_EXIT_DONE;
    case CLI_PARSED_WRONG: return CLI_EXIT_USAGE;
    case CLI_PARSED_RUN: break;
    }
    stoker_dataserver_options options = STOKER_DATASERVER_OPTIONS_INIT;
    options.key = key;
    options.shm_dir = shm_dir;
    options.policy = policy && *policy ? policy : NULL;
    options.journal = journal && *journal ? journal : NULL;
    options.log_fn = print_record;
    options.log_level = STOKER_LOG_ERROR; /* warnings reach the ranks, which print them once */
    char *end = NULL;
    if (count > 0) return cli_usage_error(&usage, "unexpected argument '%s'", argv[1]);
    if (!listen_fd == !listen_name) return cli_usage_error(&usage, "one of --listen-fd and --listen is required");
    if (!key || strlen(key) != 64 || strspn(key, "0123456789abcdefABCDEF") != 64)
        return cli_usage_error(&usage, "--key needs 64 hexadecimal digits");
    if (level && !parse_level(level, &options.log_level))
        return cli_usage_error(&usage, "--log-level '%s' is not known", level);
    if (listen_fd) {
        options.listen_fd = (int)strtol(listen_fd, &end, 10);
        if (!*listen_fd || *end || fcntl(options.listen_fd, F_GETFD) < 0)
            return cli_usage_error(&usage, "--listen-fd '%s' is not an open descriptor", listen_fd);
        options.owns_output = 1; /* a rank's, which started us */
    }
    return serve(&options, listen_name);
}
