/* SPDX-License-Identifier: Apache-2.0
 *
 * Error objects: see error.h. Formatting goes through vsnprintf, which this one file of base may use: the pure core
 * never formats text, it returns numbers.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void clean_text(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
}

const char *stoker_status_name(stoker_status status)
{
    switch (status) {
    case STOKER_OK: return "OK";
    case STOKER_END: return "END";
    case STOKER_AGAIN: return "AGAIN";
    case STOKER_ERR_INVALID_ARGUMENT: return "INVALID_ARGUMENT";
    case STOKER_ERR_WRONG_STATE: return "WRONG_STATE";
    case STOKER_ERR_UNSUPPORTED: return "UNSUPPORTED";
    case STOKER_ERR_NOT_FOUND: return "NOT_FOUND";
    case STOKER_ERR_CORRUPT: return "CORRUPT";
    case STOKER_ERR_MISMATCH: return "MISMATCH";
    case STOKER_ERR_IO: return "IO";
    case STOKER_ERR_NO_MEMORY: return "NO_MEMORY";
    case STOKER_ERR_NO_SPACE: return "NO_SPACE";
    case STOKER_ERR_LIMIT: return "LIMIT";
    case STOKER_ERR_UNAVAILABLE: return "UNAVAILABLE";
    case STOKER_ERR_TIMEOUT: return "TIMEOUT";
    case STOKER_ERR_CANCELED: return "CANCELED";
    case STOKER_ERR_PROTOCOL: return "PROTOCOL";
    case STOKER_ERR_LOST: return "LOST";
    case STOKER_ERR_INTERNAL: return "INTERNAL";
    }
    return "UNKNOWN";
}

static void fill(stoker_error *err, stoker_status status, int os_error, const char *format, va_list arguments)
{
    err->status = status;
    err->os_error = os_error;
    err->context[0] = 0;
    (void)vsnprintf(err->message, sizeof err->message, format, arguments); /* cut text is still the best text */
    if (os_error != 0) {
        size_t used = strlen(err->message);
        (void)snprintf(err->message + used, sizeof err->message - used, ": %s", strerror(os_error));
    }
    clean_text(err->message);
}

stoker_status stk_fail(stoker_error *err, stoker_status status, const char *format, ...)
{
    if (err) {
        va_list arguments;
        va_start(arguments, format);
        fill(err, status, 0, format, arguments);
        va_end(arguments);
    }
    return status;
}

stoker_status stk_fail_os(stoker_error *err, stoker_status status, int os_error, const char *format, ...)
{
    if (err) {
        va_list arguments;
        va_start(arguments, format);
        fill(err, status, os_error, format, arguments);
        va_end(arguments);
    }
    return status;
}

void stk_error_context(stoker_error *err, const char *format, ...)
{
    if (!err) return;
    char older[STOKER_ERROR_CONTEXT_BYTES];
    memcpy(older, err->context, sizeof older);
    older[sizeof older - 1] = 0;

    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(err->context, sizeof err->context, format, arguments);
    va_end(arguments);
    size_t used = strlen(err->context);
    if (older[0]) (void)snprintf(err->context + used, sizeof err->context - used, ": %s", older);
    clean_text(err->context);
}

void stk_error_text(const stoker_error *err, char *out, unsigned long size)
{
    if (err->context[0])
        (void)snprintf(out, size, "%s: %s", err->context, err->message);
    else
        (void)snprintf(out, size, "%s", err->message);
}
