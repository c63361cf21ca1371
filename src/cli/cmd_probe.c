/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker probe`: facts of video files, as a table or one JSON object a line. Folders are walked in sorted order; in
 * them, files that are no media at all are reported like any other, so that nothing is skipped silently. Each is read
 * in a process of its own: no file ends the walk.
 */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <stoker/stoker.h>

#include "base/error.h"
#include "cli/command.h"
#include "cli/isolated.h"
#include "cli/options.h"
#include "cli/output.h"

/* Deeper than any tree of clips. */
enum { DEPTH_MAX = 64, PATH_BYTES_MAX = 4096 };

struct probe {
    bool json, exact;
    int status; /* of the first file that failed */
    uint64_t files;
};

static const char *text_or_null(const char *text) { return text[0] ? text : NULL; }

/* What is asked of one file, and told. */
struct facts {
    const char *path;
    uint32_t flags;
    stoker_media_info video;
    stoker_audio_info audio;
};

static stoker_status look_at_video(void *argument, stoker_error *err)
{
    struct facts *facts = argument;
    return stoker_media_probe(facts->path, facts->flags, &facts->video, err);
}

static stoker_status look_at_audio(void *argument, stoker_error *err)
{
    struct facts *facts = argument;
    return stoker_audio_probe(facts->path, facts->flags, &facts->audio, err);
}

static void put_audio(struct cli_json *json, struct facts *facts)
{
    const stoker_audio_info *info = &facts->audio;
    if (cli_isolated(look_at_audio, facts, sizeof *facts, NULL) < 0) {
        cli_json_null(json, "audio");
        return;
    }
    struct cli_json *audio = cli_json_begin();
    cli_json_text(audio, "codec", info->codec);
    cli_json_integer(audio, "rate", info->rate);
    cli_json_integer(audio, "channels", info->channels);
    cli_json_real(audio, "duration_s", info->duration_s);
    cli_json_object(json, "audio", audio);
}

static void print_json(struct facts *facts, const char *error)
{
    const stoker_media_info *info = &facts->video;
    struct cli_json *json = cli_json_begin();
    cli_json_text(json, "schema", "stoker.probe/1");
    cli_json_text(json, "path", facts->path);
    cli_json_text(json, "codec", error ? NULL : info->codec);
    cli_json_integer(json, "width", info->width);
    cli_json_integer(json, "height", info->height);
    cli_json_integer(json, "rotation", info->rotation);
    cli_json_integer(json, "frames", (int64_t)info->frames);
    cli_json_real(json, "duration_s", info->duration_s);
    cli_json_integer(json, "bytes", (int64_t)info->bytes);
    cli_json_text(json, "error", error);
    char shape[24];
    (void)snprintf(shape, sizeof shape, "%u:%u", info->sar_num, info->sar_den);
    cli_json_text(json, "sar", error || !info->sar_num ? NULL : shape);
    cli_json_text(json, "pixel_format", error ? NULL : text_or_null(info->pixel_format));
    cli_json_integer(json, "bit_depth", info->bit_depth);
    cli_json_text(json, "matrix", error ? NULL : text_or_null(info->matrix));
    cli_json_text(json, "range", error ? NULL : text_or_null(info->range));
    cli_json_bool(json, "interlaced", info->interlaced);
    cli_json_bool(json, "alpha", info->alpha);
    put_audio(json, facts);
    cli_json_end(json);
}

static void print_row(const char *path, const stoker_media_info *info, const char *error)
{
    char size[32];
    (void)snprintf(size, sizeof size, "%ux%u", info->width, info->height);
    if (error)
        printf("%-12s %-11s %4s %8s %10s %12llu  %s: %s\n", "-", "-", "-", "-", "-", (unsigned long long)info->bytes,
               path, error);
    else
        printf("%-12s %-11s %4d %8llu %10.3f %12llu  %s\n", info->codec, size, info->rotation,
               (unsigned long long)info->frames, info->duration_s, (unsigned long long)info->bytes, path);
}

static void probe_file(struct probe *probe, const char *path)
{
    struct facts facts = {.path = path, .flags = probe->exact ? STOKER_PROBE_EXACT : 0};
    stoker_error err;
    stoker_status status = cli_isolated(look_at_video, &facts, sizeof facts, &err);
    if (status < 0) {
        struct stat found;
        if (stat(path, &found) == 0) facts.video.bytes = (uint64_t)found.st_size;
        if (probe->status == CLI_EXIT_DONE) probe->status = cli_exit_of(status);
    }
    if (!probe->json && probe->files == 0)
        printf("%-12s %-11s %4s %8s %10s %12s  %s\n", "codec", "size", "turn", "frames", "seconds", "bytes", "path");
    probe->files++;
    if (probe->json)
        print_json(&facts, status < 0 ? err.message : NULL);
    else
        print_row(path, &facts.video, status < 0 ? err.message : NULL);
    (void)fflush(stdout); /* a reader at the other end sees each file as it is done; failures are found at the end */
}

static int by_name(const struct dirent **left, const struct dirent **right)
{
    return strcmp((*left)->d_name, (*right)->d_name);
}

static int is_visible(const struct dirent *entry) { return entry->d_name[0] != '.'; }

/* Not followed in a walk: two links to their own folder would make it endless. */
static bool is_link_to_folder(const char *path)
{
    struct stat link, target;
    return lstat(path, &link) == 0 && S_ISLNK(link.st_mode) && stat(path, &target) == 0 && S_ISDIR(target.st_mode);
}

static void probe_path(struct probe *probe, const char *path, int depth);

static void probe_folder(struct probe *probe, const char *path, int depth)
{
    struct dirent **entries = NULL;
    int count = depth < DEPTH_MAX ? scandir(path, &entries, is_visible, by_name) : -1;
    if (count < 0) {
        fprintf(stderr, "stoker probe: cannot read folder '%s': %s\n", path,
                depth < DEPTH_MAX ? strerror(errno) : "too deep");
        if (probe->status == CLI_EXIT_DONE) probe->status = CLI_EXIT_DATA;
        return;
    }
    for (int i = 0; i < count; i++) {
        char inner[PATH_BYTES_MAX];
        size_t used = strlen(path);
        const char *slash = used > 0 && path[used - 1] == '/' ? "" : "/";
        if (snprintf(inner, sizeof inner, "%s%s%s", path, slash, entries[i]->d_name) < (int)sizeof inner &&
            !is_link_to_folder(inner))
            probe_path(probe, inner, depth + 1);
        free(entries[i]);
    }
    free(entries);
}

static void probe_path(struct probe *probe, const char *path, int depth)
{
    struct stat facts;
    if (stat(path, &facts) == 0 && S_ISDIR(facts.st_mode))
        probe_folder(probe, path, depth);
    else
        probe_file(probe, path);
}

int cmd_probe(int argc, char **argv)
{
    struct probe probe = {.status = CLI_EXIT_DONE};
    int count = 0;
    const struct cli_option options[] = {
        {0, "json", NULL, "print one JSON object a file", &probe.json, NULL},
        {0, "exact", NULL, "decode each file and count the frames that come out", &probe.exact, NULL},
    };
    const struct cli_usage usage = {
        "probe", "[--json] [--exact] PATH...",
        "Print codec, size after rotation, frames, duration and bytes of video files. Folders are walked in\n"
        "sorted order. The exit status is 3 if a file cannot be used.",
        options, sizeof options / sizeof options[0]};
    enum cli_parsed parsed = cli_options_parse(&usage, argc, argv, &count);
    if (parsed != CLI_PARSED_RUN) return parsed == CLI_PARSED_HELP ? CLI_EXIT_DONE : CLI_EXIT_USAGE;
    if (count == 0) return cli_usage_error(&usage, "no path is given");
    cli_interrupt_removes(NULL);
    for (int i = 1; i <= count; i++) probe_path(&probe, argv[i], 0);
    return probe.status;
}
