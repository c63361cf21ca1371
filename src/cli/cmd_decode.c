/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker decode`: chosen frames of one file as a NumPy array, uint8 T,H,W,C, RGB after rotation; or the plan by which
 * they would be decoded.
 *
 * The array grows in a temporary file beside the output, which gets its name only when it is complete and on disk:
 * whatever happens, there is the whole array or none. The header has a fixed size and is written last, because the
 * number of frames of a damaged file is known only then.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <stoker/stoker.h>

#include "base/error.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/output.h"

enum { HEADER_BYTES = 128, PATH_BYTES_MAX = 4096, SIDE_MAX = 65536 };

struct array {
    int fd;
    char temporary[PATH_BYTES_MAX];
    uint64_t frames;
    uint32_t width, height;
};

/* ----------------------------------------------------------------------------------------------------------------
 * arguments */

/* A number that is a whole text up to `end`. */
static bool read_number(const char *text, const char **end, uint64_t max, uint64_t *out)
{
    char *stop = NULL;
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    unsigned long long value = strtoull(text, &stop, 10);
    if (errno != 0 || value > max) return false;
    *end = stop;
    *out = value;
    return true;
}

/* "0,5,9"; NULL after "all". False if it is neither. */
static bool read_frames(const char *text, uint64_t **out_indices, size_t *out_count)
{
    size_t count = 1, used = 0;
    *out_indices = NULL;
    *out_count = 0;
    if (strcmp(text, "all") == 0) return true;
    for (const char *at = text; *at; at++) count += *at == ',';
    uint64_t *indices = calloc(count, sizeof *indices);
    for (const char *at = text; indices; at++) {
        if (!read_number(at, &at, INT64_MAX, &indices[used]) || (*at && *at != ',')) break;
        used++;
        if (!*at) {
            *out_indices = indices;
            *out_count = used;
            return true;
        }
    }
    free(indices);
    return false;
}

/* "0,1.5,2.25" */
static bool read_seconds(const char *text, double **out_seconds, size_t *out_count)
{
    size_t count = 1, used = 0;
    for (const char *at = text; *at; at++) count += *at == ',';
    double *seconds = calloc(count, sizeof *seconds);
    for (const char *at = text; seconds; at++) {
        char *stop = NULL;
        if ((*at < '0' || *at > '9') && *at != '.') break;
        seconds[used++] = strtod(at, &stop);
        at = stop;
        if (*at && *at != ',') break;
        if (!*at) {
            *out_seconds = seconds;
            *out_count = used;
            return true;
        }
    }
    free(seconds);
    return false;
}

static bool read_size(const char *text, uint32_t *out_width, uint32_t *out_height)
{
    uint64_t width, height;
    if (!read_number(text, &text, SIDE_MAX, &width) || *text != 'x') return false;
    if (!read_number(text + 1, &text, SIDE_MAX, &height) || *text || !width || !height) return false;
    *out_width = (uint32_t)width;
    *out_height = (uint32_t)height;
    return true;
}

/* ----------------------------------------------------------------------------------------------------------------
 * array */

static stoker_status write_at(struct array *array, const void *data, size_t size, uint64_t offset, stoker_error *err)
{
    const uint8_t *from = data;
    while (size > 0) {
        ssize_t wrote = pwrite(array->fd, from, size, (off_t)offset);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0)
            return stk_fail_os(err, errno == ENOSPC ? STOKER_ERR_NO_SPACE : STOKER_ERR_IO, errno, "cannot write '%s'",
                               array->temporary);
        from += wrote, offset += (uint64_t)wrote, size -= (size_t)wrote;
    }
    return STOKER_OK;
}

static stoker_status on_frame(void *user, size_t position, const uint8_t *rgb, uint32_t width, uint32_t height,
                              stoker_error *err)
{
    struct array *array = user;
    size_t size = (size_t)width * height * 3;
    array->width = width;
    array->height = height;
    if (position >= array->frames) array->frames = position + 1;
    return write_at(array, rgb, size, HEADER_BYTES + (uint64_t)position * size, err);
}

static stoker_status write_header(struct array *array, stoker_error *err)
{
    char header[HEADER_BYTES + 1];
    memset(header, ' ', sizeof header);
    memcpy(header, "\x93NUMPY\x01\x00", 8);
    header[8] = (char)((HEADER_BYTES - 10) & 0xff);
    header[9] = (char)((HEADER_BYTES - 10) >> 8);
    int used = snprintf(header + 10, HEADER_BYTES - 10,
                        "{'descr': '|u1', 'fortran_order': False, 'shape': (%llu, %u, %u, 3), }",
                        (unsigned long long)array->frames, array->height, array->width);
    header[10 + used] = ' '; /* numbers of 20, 10 and 10 digits fit */
    header[HEADER_BYTES - 1] = '\n';
    return write_at(array, header, HEADER_BYTES, 0, err);
}

static stoker_status begin(struct array *array, const char *path, stoker_error *err)
{
    if (snprintf(array->temporary, sizeof array->temporary, "%s.%ld.partial", path, (long)getpid()) >=
        (int)sizeof array->temporary)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the output path is too long");
    STK_TRY(cli_check_output(path, err));
    cli_interrupt_removes(array->temporary);
    array->fd = open(array->temporary, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (array->fd < 0) return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot create '%s'", array->temporary);
    return STOKER_OK;
}

static stoker_status commit(struct array *array, const char *path, stoker_error *err)
{
    STK_TRY(write_header(array, err));
    if (fsync(array->fd) != 0 && errno != EINVAL)
        return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot write '%s'", array->temporary);
    if (rename(array->temporary, path) != 0) return stk_fail_os(err, STOKER_ERR_IO, errno, "cannot create '%s'", path);
    return STOKER_OK;
}

static stoker_status decode(const char *input, const char *output, const stoker_frame_list *list, stoker_error *err)
{
    struct array array = {.fd = -1};
    stoker_status status = begin(&array, output, err);
    if (status == STOKER_OK) status = stoker_frames_read(input, list, on_frame, &array, err);
    if (status == STOKER_OK) status = commit(&array, output, err);
    if (array.fd >= 0) {
        (void)close(array.fd); /* fsync has told of any error */
        if (status < 0) (void)unlink(array.temporary);
    }
    cli_interrupt_removes(NULL);
    return status;
}

/* ----------------------------------------------------------------------------------------------------------------
 * plan */

static void print_plan_json(const char *path, const stoker_plan_info *info)
{
    size_t most = info->segment_count > info->frame_count ? info->segment_count : info->frame_count;
    int64_t *column = calloc(most + 1, sizeof *column);
    char hash[20];
    if (!column) return;
    struct cli_json *json = cli_json_begin();
    cli_json_text(json, "schema", "stoker.plan/1");
    cli_json_text(json, "path", path);
    (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)info->hash);
    cli_json_text(json, "hash", hash);
    (void)snprintf(hash, sizeof hash, "%016llx", (unsigned long long)info->table_hash);
    cli_json_text(json, "table_hash", hash);
    cli_json_bool(json, "by_time", info->by_time);
    cli_json_bool(json, "skips", info->skips);
    cli_json_integer(json, "packets", info->packets);
    cli_json_integer(json, "frames", info->frames);
    for (size_t i = 0; i < info->segment_count; i++) column[i] = info->segments[i].first;
    cli_json_integers(json, "segment_first", column, info->segment_count);
    for (size_t i = 0; i < info->segment_count; i++) column[i] = info->segments[i].end;
    cli_json_integers(json, "segment_end", column, info->segment_count);
    for (size_t i = 0; i < info->segment_count; i++) column[i] = info->segments[i].dts;
    cli_json_integers(json, "segment_dts", column, info->segment_count);
    for (size_t i = 0; i < info->frame_count; i++) column[i] = info->kept[i].ordinal;
    cli_json_integers(json, "kept", column, info->frame_count);
    for (size_t i = 0; i < info->frame_count; i++) column[i] = info->by_time ? (int64_t)info->kept[i].packet : -1;
    cli_json_integers(json, "kept_packet", column, info->frame_count);
    cli_json_integer(json, "packets_sent", (int64_t)info->packets_sent);
    cli_json_integer(json, "bytes_sent", (int64_t)info->bytes_sent);
    cli_json_real(json, "predicted_s", info->seconds);
    cli_json_end(json);
    free(column);
}

static void print_plan(const stoker_plan_info *info)
{
    printf("plan %016llx of table %016llx: %s%s\n", (unsigned long long)info->hash,
           (unsigned long long)info->table_hash, info->by_time ? "by time" : "in order",
           info->skips ? ", leaving out what nothing refers to" : "");
    printf("sends %llu of %u packets (%llu bytes), keeps %zu of %u frames, predicted %.1f ms\n",
           (unsigned long long)info->packets_sent, info->packets, (unsigned long long)info->bytes_sent,
           info->frame_count ? info->frame_count : (size_t)info->frames, info->frames, info->seconds * 1e3);
    for (size_t i = 0; i < info->segment_count; i++) {
        const stoker_plan_segment *segment = &info->segments[i];
        printf("packets %u to %u:", segment->first, segment->end - 1);
        if (!info->frame_count) printf(" all frames");
        for (size_t frame = 0; frame < info->frame_count; frame++)
            if (!info->by_time ||
                (info->kept[frame].packet >= segment->first && info->kept[frame].packet < segment->end))
                printf(" %u", info->kept[frame].ordinal);
        printf("\n");
    }
}

static int show_plan(const char *path, const stoker_frame_list *list, bool json)
{
    stoker_plan *plan = NULL;
    stoker_plan_info info;
    stoker_error err;
    if (stoker_frames_plan(path, list, &plan, &err) < 0) return cli_fail("decode", &err);
    stoker_plan_read_info(plan, &info);
    if (json)
        print_plan_json(path, &info);
    else
        print_plan(&info);
    stoker_plan_close(plan);
    return cli_finish("decode", CLI_EXIT_DONE);
}

/* What the options ask for. */
struct wish {
    const char *frames, *seconds, *size, *output;
    bool plan, json;
};

static int check_wish(const struct cli_usage *usage, const struct wish *wish)
{
    if (wish->frames && wish->seconds) return cli_usage_error(usage, "--frames and --seconds are given, expected one");
    if (!wish->frames && !wish->seconds) return cli_usage_error(usage, "neither --frames nor --seconds is given");
    if (wish->plan && (wish->output || wish->size))
        return cli_usage_error(usage, "%s is given with --plan, which decodes nothing",
                               wish->output ? "--output" : "--size");
    if (!wish->plan && wish->json) return cli_usage_error(usage, "--json is given without --plan");
    if (!wish->plan && !wish->output) return cli_usage_error(usage, "--output is not given");
    return CLI_EXIT_DONE;
}

int cmd_decode(int argc, char **argv)
{
    struct wish wish = {.plan = false};
    int count = 0;
    const struct cli_option options[] = {
        {0, "frames", "LIST", "frame numbers from 0 in presentation order, such as 0,5,9, or 'all'", NULL,
         &wish.frames},
        {0, "seconds", "LIST", "times from 0, such as 0,1.5,2.25: the frames that are shown then", NULL, &wish.seconds},
        {0, "size", "WxH", "scale to this many pixels; default: the size of the file", NULL, &wish.size},
        {'o', "output", "FILE", "the .npy file to write", NULL, &wish.output},
        {0, "plan", NULL, "decode nothing; print which packets would be decoded for which frames", &wish.plan, NULL},
        {0, "json", NULL, "print the plan as one JSON object", &wish.json, NULL},
    };
    const struct cli_usage usage = {
        "decode", "FILE (--frames LIST | --seconds LIST) ([--size WxH] -o OUT.npy | --plan [--json])",
        "Decode frames of a video file into a NumPy array: uint8, time x height x width x RGB, after rotation.",
        options, sizeof options / sizeof options[0]};
    enum cli_parsed parsed = cli_options_parse(&usage, argc, argv, &count);
    if (parsed != CLI_PARSED_RUN) return parsed == CLI_PARSED_HELP ? CLI_EXIT_DONE : CLI_EXIT_USAGE;
    if (count != 1) return cli_usage_error(&usage, "%d files are given, expected one", count);
    int status = check_wish(&usage, &wish);
    if (status != CLI_EXIT_DONE) return status;

    stoker_frame_list list = {.count = 0};
    uint64_t *indices = NULL;
    double *seconds = NULL;
    stoker_error err;
    if (wish.frames && !read_frames(wish.frames, &indices, &list.count))
        return cli_usage_error(&usage, "--frames is '%s', expected numbers such as 0,5,9, or 'all'", wish.frames);
    if (!wish.frames && !read_seconds(wish.seconds, &seconds, &list.count))
        return cli_usage_error(&usage, "--seconds is '%s', expected times such as 0,1.5,2.25", wish.seconds);
    list.indices = indices;
    list.seconds = seconds;
    if (wish.size && !read_size(wish.size, &list.width, &list.height))
        status = cli_usage_error(&usage, "--size is '%s', expected WxH such as 320x240, at most %d a side", wish.size,
                                 SIDE_MAX);
    else if (wish.plan)
        status = show_plan(argv[1], &list, wish.json);
    else
        status = decode(argv[1], wish.output, &list, &err) < 0 ? cli_fail("decode", &err) : CLI_EXIT_DONE;
    free(indices);
    free(seconds);
    return status;
}
