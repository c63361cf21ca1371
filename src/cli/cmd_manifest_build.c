/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker manifest build`: scan files into a manifest. What a killed build has done stays in its journal, so Ctrl-C
 * needs no care.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/cmd_manifest.h"
#include "cli/command.h"
#include "cli/lists.h"
#include "cli/output.h"
#include "cli/prefixes.h"

/* Progress goes to stderr, at most once a second, and not before the first is over. */
struct display {
    bool shown, on_terminal;
    time_t last;
};

static time_t seconds(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now); /* this clock is always there */
    return now.tv_sec;
}

static stoker_status show_progress(void *user, const stoker_manifest_progress *progress, stoker_error *err)
{
    struct display *display = user;
    time_t now = seconds();
    (void)err;
    if (!display->shown || now <= display->last) return STOKER_OK;
    display->last = now;
    fprintf(stderr, "%sstoker manifest build: %llu of %llu files, %llu kept, %llu cannot be used%s",
            display->on_terminal ? "\r" : "", (unsigned long long)progress->done, (unsigned long long)progress->total,
            (unsigned long long)(progress->kept + progress->resumed), (unsigned long long)progress->bad,
            display->on_terminal ? "" : "\n");
    return STOKER_OK;
}

static void print_result(const char *path, const stoker_manifest_progress *progress, bool as_json)
{
    if (!as_json) {
        printf("%s: %llu files, %llu cannot be used, %llu kept, %llu resumed\n", path,
               (unsigned long long)progress->total, (unsigned long long)progress->bad,
               (unsigned long long)progress->kept, (unsigned long long)progress->resumed);
        return;
    }
    struct cli_json *json = cli_json_begin();
    cli_json_text(json, "schema", "stoker.manifest.build/1");
    cli_json_text(json, "path", path);
    cli_json_integer(json, "entries", (int64_t)progress->total);
    cli_json_integer(json, "bad", (int64_t)progress->bad);
    cli_json_integer(json, "kept", (int64_t)progress->kept);
    cli_json_integer(json, "resumed", (int64_t)progress->resumed);
    cli_json_end(json);
}

/* Sources that are named are meant: a name that is mistyped is no file that went bad. */
static stoker_status expect_source(const char *path, stoker_error *err)
{
    struct stat facts;
    if (strstr(path, "://") || stat(path, &facts) == 0 || (errno != ENOENT && errno != ENOTDIR)) return STOKER_OK;
    return stk_fail(err, STOKER_ERR_NOT_FOUND, "the source '%s' does not exist", path);
}

static stoker_status list_sources(char **arguments, int count, struct cli_texts *out, stoker_error *err)
{
    for (int i = 0; i < count; i++) {
        STK_TRY(expect_source(arguments[i], err));
        if (cli_is_list(arguments[i]))
            STK_TRY(cli_list_read(arguments[i], out, err));
        else
            STK_TRY(cli_texts_add(out, arguments[i], strlen(arguments[i]), err));
    }
    return STOKER_OK;
}

static stoker_status build(const char *path, const struct cli_texts *texts, stoker_manifest_build_options *options,
                           stoker_manifest_progress *out_progress, stoker_error *err)
{
    stoker_object_settings *settings = NULL;
    STK_TRY(manifest_settings(&settings, err));
    const stoker_manifest_sources sources = {(const char *const *)texts->texts, texts->count};
    options->object = stoker_object_settings_options(settings);
    stoker_status status = stoker_manifest_build(path, &sources, options, out_progress, err);
    stoker_object_settings_destroy(settings);
    return status;
}

int cmd_manifest_build(int argc, char **argv)
{
    bool json = false, exact = false, fresh = false, progress = false, no_progress = false;
    const char *jobs = NULL;
    int count = 0;
    const struct cli_option options[] = {
        {'j', "jobs", "N", "files that are scanned at once (the processors, at most 16)", NULL, &jobs},
        {0, "exact", NULL, "decode each file once and count the frames that come out", &exact, NULL},
        {0, "fresh", NULL, "take nothing over from an older manifest or an interrupted build", &fresh, NULL},
        {0, "progress", NULL, "say how far it is although stderr is no terminal", &progress, NULL},
        {0, "no-progress", NULL, "do not", &no_progress, NULL},
        {0, "json", NULL, "print the result as one JSON object", &json, NULL},
    };
    const struct cli_usage usage = {
        "manifest build", "[--jobs N] [--exact] [--fresh] [--json] OUT SOURCE...",
        "Scan the packets of videos into the manifest OUT. A SOURCE is a folder, a tar shard, a file, a list (.txt,\n"
        ".lst, .list or .jsonl) or the address of an object. The same command goes on after an interruption, and "
        "brings\n"
        "an older manifest up to date. Files that cannot be used are entries with their error.",
        options, sizeof options / sizeof options[0]};
    enum cli_parsed parsed = cli_options_parse(&usage, argc, argv, &count);
    if (parsed != CLI_PARSED_RUN) return parsed == CLI_PARSED_HELP ? CLI_EXIT_DONE : CLI_EXIT_USAGE;
    if (count < 2) return cli_usage_error(&usage, "OUT and at least one SOURCE are needed");
    stoker_manifest_build_options how = STOKER_MANIFEST_BUILD_OPTIONS_INIT;
    if (!manifest_jobs(&usage, jobs, &how.jobs)) return CLI_EXIT_USAGE;
    cli_interrupt_removes(NULL);

    struct display display = {.on_terminal = isatty(STDERR_FILENO) == 1, .last = seconds() + 1};
    display.shown = !no_progress && (progress || display.on_terminal);
    how.exact = exact;
    how.fresh = fresh;
    how.progress_fn = show_progress;
    how.progress_user = &display;
    struct cli_texts sources = {NULL, 0, 0};
    stoker_manifest_progress done;
    stoker_error err = {0};
    stoker_status status = list_sources(argv + 2, count - 1, &sources, &err);
    if (status >= 0) status = build(argv[1], &sources, &how, &done, &err);
    cli_texts_free(&sources);
    if (display.shown && display.on_terminal) fprintf(stderr, "\r\033[K");
    if (status < 0) return cli_fail("manifest build", &err);
    print_result(argv[1], &done, json);
    return CLI_EXIT_DONE;
}
