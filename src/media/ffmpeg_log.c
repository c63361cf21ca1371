/* SPDX-License-Identifier: Apache-2.0
 *
 * What FFmpeg says of a file goes to the error of its sample, never to the terminal of a training job: see
 * ffmpeg_internal.h. FFmpeg knows one callback per process and says things on whatever thread calls it, so the log of
 * the file that is being worked on hangs on the thread.
 */
#include "media/ffmpeg_internal.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

/* Nothing of a media file allocates as much as this at once, except pictures beyond any screen. */
#define PROBE_BYTES ((size_t)64 << 20)

static _Thread_local struct stk_av_log *current_log;
static atomic_bool alone; /* no other user of FFmpeg is in this process */

static void on_log(void *object, int level, const char *format, va_list arguments)
{
    struct stk_av_log *log = current_log;
    if (!log) {
        /* relaxed: set once, before the first file */
        if (!atomic_load_explicit(&alone, memory_order_relaxed))
            av_log_default_callback(object, level, format, arguments);
        return;
    }
    if ((level & 0xff) > AV_LOG_ERROR) return;
    log->errors++;
    if (!stk_log_lines_wanted(&log->lines)) return;
    char line[2 * STK_LOG_LINE_BYTES];
    (void)vsnprintf(line, sizeof line, format, arguments); /* cut text is still the best text */
    stk_log_lines_keep(&log->lines, line);
    stk_log_lines_text(&log->lines, log->text);
}

void stk_av_log_alone(void)
{
    atomic_store_explicit(&alone, true, memory_order_relaxed); /* as above */
    av_log_set_callback(on_log);
}

void stk_av_log_enter(struct stk_av_log *log)
{
    av_log_set_callback(on_log); /* each time: another user of FFmpeg may have set its own */
    current_log = log;
}

void stk_av_log_leave(void) { current_log = NULL; }

/* FFmpeg says the same of a machine without memory and of a file that asks for gigabytes. */
static stoker_status fail_memory(const struct stk_av *av, const char *what, stoker_error *err)
{
    void *probe = malloc(PROBE_BYTES);
    free(probe);
    if (!probe) return stk_fail(err, STOKER_ERR_NO_MEMORY, "%s: out of memory", what);
    const char *said = av->log.text;
    return stk_fail(err, STOKER_ERR_LIMIT, "%s: the file needs more memory than this process may have at once%s%s%s",
                    what, said[0] ? " (" : "", said, said[0] ? ")" : "");
}

stoker_status stk_av_fail(struct stk_av *av, int av_error, stoker_status status, const char *what, stoker_error *err)
{
    if (av->io_error.status != STOKER_OK) {
        if (err) *err = av->io_error;
        return av->io_error.status;
    }
    if (av_error == AVERROR(ENOMEM)) return fail_memory(av, what, err);
    char text[128];
    (void)av_strerror(av_error, text, sizeof text); /* fills a number where it knows no text */
    if (av->log.text[0]) return stk_fail(err, status, "%s: %s (%s)", what, text, av->log.text);
    return stk_fail(err, status, "%s: %s", what, text);
}
