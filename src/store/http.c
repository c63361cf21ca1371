/* SPDX-License-Identifier: Apache-2.0
 *
 * Heads of HTTP answers: see http.h. Every number is checked for overflow; every text has a bound.
 */
#include "store/http.h"

#include <string.h>
#include <strings.h>

/* The rest of a line while it is read. */
struct cursor {
    const char *at, *end;
};

static void skip_spaces(struct cursor *cursor)
{
    while (cursor->at < cursor->end && (*cursor->at == ' ' || *cursor->at == '\t')) cursor->at++;
}

static bool take_number(struct cursor *cursor, uint64_t *out)
{
    const char *first = cursor->at;
    uint64_t value = 0;
    for (; cursor->at < cursor->end && *cursor->at >= '0' && *cursor->at <= '9'; cursor->at++) {
        uint64_t digit = (uint64_t)(*cursor->at - '0');
        if (value > (INT64_MAX - digit) / 10) return false; /* sizes and offsets of files are signed 64-bit */
        value = value * 10 + digit;
    }
    *out = value;
    return cursor->at > first;
}

static bool take_char(struct cursor *cursor, char expected)
{
    if (cursor->at == cursor->end || *cursor->at != expected) return false;
    cursor->at++;
    return true;
}

static void take_text(struct cursor cursor, char out[STK_HTTP_TEXT_BYTES_MAX])
{
    size_t size = (size_t)(cursor.end - cursor.at);
    out[0] = 0;
    if (size >= STK_HTTP_TEXT_BYTES_MAX) return;
    for (size_t i = 0; i < size; i++)
        if ((unsigned char)cursor.at[i] < 0x20 || cursor.at[i] == 0x7f) return; /* it will be sent back: no new lines */
    memcpy(out, cursor.at, size);
    out[size] = 0;
}

/* "bytes 0-99/2048"; a star stands for a total that is not known, or for a range past the end. */
static void take_range(struct stk_http_answer *answer, struct cursor cursor)
{
    uint64_t first = 0, last = 0, total = STK_HTTP_UNKNOWN;
    answer->has_range = answer->range_unmet = false;
    if (cursor.end - cursor.at < 6 || strncasecmp(cursor.at, "bytes", 5) != 0) return;
    cursor.at += 5;
    skip_spaces(&cursor);
    bool unmet = take_char(&cursor, '*');
    if (!unmet && !(take_number(&cursor, &first) && take_char(&cursor, '-') && take_number(&cursor, &last))) return;
    if (!take_char(&cursor, '/')) return;
    if (!take_char(&cursor, '*') && !take_number(&cursor, &total)) return;
    skip_spaces(&cursor);
    if (cursor.at != cursor.end) return;
    if (!unmet && (last < first || (total != STK_HTTP_UNKNOWN && last >= total))) return;
    answer->has_range = !unmet;
    answer->range_unmet = unmet;
    answer->range_first = first;
    answer->range_last = last;
    answer->range_total = total;
}

void stk_http_answer_init(struct stk_http_answer *answer)
{
    *answer = (struct stk_http_answer){.content_length = STK_HTTP_UNKNOWN, .range_total = STK_HTTP_UNKNOWN};
}

static void take_status(struct stk_http_answer *answer, struct cursor cursor)
{
    uint64_t status = 0;
    stk_http_answer_init(answer);
    while (cursor.at < cursor.end && *cursor.at != ' ') cursor.at++;
    skip_spaces(&cursor);
    if (take_number(&cursor, &status) && status >= 100 && status <= 999) answer->status = (unsigned)status;
}

static bool is_name(struct cursor name, const char *expected)
{
    return (size_t)(name.end - name.at) == strlen(expected) &&
           strncasecmp(name.at, expected, (size_t)(name.end - name.at)) == 0;
}

void stk_http_answer_line(struct stk_http_answer *answer, const char *line, size_t size)
{
    while (size > 0 && (line[size - 1] == '\r' || line[size - 1] == '\n' || line[size - 1] == ' ')) size--;
    struct cursor name = {line, line + size}, value = {line, line + size};
    if (size >= 5 && strncasecmp(line, "HTTP/", 5) == 0) {
        take_status(answer, value);
        return;
    }
    const char *colon = memchr(line, ':', size);
    if (!colon) return;
    name.end = colon;
    value.at = colon + 1;
    skip_spaces(&value);
    uint64_t number = 0;
    if (is_name(name, "content-length")) {
        answer->content_length = take_number(&value, &number) && value.at == value.end ? number : STK_HTTP_UNKNOWN;
    } else if (is_name(name, "content-range")) {
        take_range(answer, value);
    } else if (is_name(name, "retry-after")) { /* its form with a date is passed over */
        answer->retry_after_s = take_number(&value, &number) && value.at == value.end ? number : 0;
    } else if (is_name(name, "etag")) {
        take_text(value, answer->etag);
    } else if (is_name(name, "last-modified")) {
        take_text(value, answer->last_modified);
    } else if (is_name(name, "x-amz-bucket-region")) {
        take_text(value, answer->bucket_region);
    }
}

void stk_http_error_code(const char *body, size_t size, char out[64])
{
    static const char open[] = "<Code>";
    const size_t tag = sizeof open - 1;
    out[0] = 0;
    for (size_t i = 0; i + tag < size; i++) {
        if (memcmp(body + i, open, tag) != 0) continue;
        size_t used = 0;
        for (i += tag; i < size && used < 63; i++, used++) {
            char c = body[i];
            bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.';
            if (!letter) break;
            out[used] = c;
        }
        out[i < size && body[i] == '<' ? used : 0] = 0;
        return;
    }
}

bool stk_http_same_version(const char *etag_a, const char *modified_a, const char *etag_b, const char *modified_b)
{
    if (etag_a[0] && etag_b[0]) {
        if (strncmp(etag_a, "W/", 2) == 0) etag_a += 2;
        if (strncmp(etag_b, "W/", 2) == 0) etag_b += 2;
        return strcmp(etag_a, etag_b) == 0;
    }
    return !modified_a[0] || !modified_b[0] || strcmp(modified_a, modified_b) == 0;
}
