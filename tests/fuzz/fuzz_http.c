/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for answers of HTTP servers: a head, an empty line, and the body of an error. Accepted is a head that a
 * read could use.
 */
#include <string.h>

#include "store/http.h"
#include "tests/fuzz/fuzz.h"

/* A text that may be sent back: ended, and without a character that would begin another line. */
static void check_text(const char text[STK_HTTP_TEXT_BYTES_MAX])
{
    size_t size = 0;
    while (size < STK_HTTP_TEXT_BYTES_MAX && text[size]) {
        STK_FUZZ_CHECK((unsigned char)text[size] >= 0x20 && text[size] != 0x7f);
        size++;
    }
    STK_FUZZ_CHECK(size < STK_HTTP_TEXT_BYTES_MAX);
}

/* What was read of a range, written again, reads as the same. */
static void check_range(const struct stk_http_answer *answer)
{
    char line[128], total[32] = "*";
    struct stk_http_answer again;
    if (answer->range_total != STK_HTTP_UNKNOWN)
        (void)snprintf(total, sizeof total, "%llu", (unsigned long long)answer->range_total);
    int size = snprintf(line, sizeof line, "Content-Range: bytes %llu-%llu/%s\r\n",
                        (unsigned long long)answer->range_first, (unsigned long long)answer->range_last, total);
    stk_http_answer_init(&again);
    stk_http_answer_line(&again, line, (size_t)size);
    STK_FUZZ_CHECK(again.has_range);
    STK_FUZZ_CHECK(again.range_first == answer->range_first && again.range_last == answer->range_last);
    STK_FUZZ_CHECK(again.range_total == answer->range_total);
    STK_FUZZ_CHECK(answer->range_last >= answer->range_first && answer->range_last < INT64_MAX);
    STK_FUZZ_CHECK(answer->range_total == STK_HTTP_UNKNOWN || answer->range_last < answer->range_total);
}

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    struct stk_http_answer answer;
    const char *at = (const char *)data, *end = at + size;
    stk_http_answer_init(&answer);
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        size_t line = stop ? (size_t)(stop - at) + 1 : (size_t)(end - at);
        stk_http_answer_line(&answer, at, line);
        at += line;
        if (line <= 2 && stop) break;
    }
    char code[64];
    stk_http_error_code(at, (size_t)(end - at), code);
    STK_FUZZ_CHECK(memchr(code, 0, sizeof code));
    STK_FUZZ_CHECK(strspn(code, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.") == strlen(code));
    check_text(answer.etag);
    check_text(answer.last_modified);
    check_text(answer.bucket_region);
    STK_FUZZ_CHECK(answer.status == 0 || (answer.status >= 100 && answer.status <= 999));
    STK_FUZZ_CHECK(answer.content_length == STK_HTTP_UNKNOWN || answer.content_length <= INT64_MAX);
    STK_FUZZ_CHECK(!(answer.has_range && answer.range_unmet));
    if (answer.has_range) check_range(&answer);
    return answer.status == 206 ? answer.has_range : answer.status == 200 || (answer.status >= 400 && code[0]);
}
