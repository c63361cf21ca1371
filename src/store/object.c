/* SPDX-License-Identifier: Apache-2.0
 *
 * Ranges of objects behind HTTP(S) and S3: what is asked, how answers are judged, what is tried again.
 *
 * The first answer tells which version of the object there is (ETag, else date; size). Later requests ask for that one
 * (If-Match) and later answers are compared with it, so that bytes of two versions are never mixed. The record is set
 * once and never changes, so it needs no lock, and a forked child has it, too.
 *
 * A body that ends early is kept as far as it came, if the version is known, and the next try asks for the rest.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/limits.h"
#include "store/http.h"
#include "store/range_internal.h"
#include "store/settings.h"
#include "store/sigv4.h"
#include "store/target.h"
#include "sys/clock.h"

enum { ERROR_BODY_BYTES = 4096, LINES_MAX = 8 };

struct version {
    char etag[STK_HTTP_TEXT_BYTES_MAX];
    char last_modified[STK_HTTP_TEXT_BYTES_MAX];
};

struct object_range {
    struct stk_range head;
    struct stk_target target;
    stoker_object_settings *settings;
    struct stk_range_retry retry;
    _Atomic(struct version *) version; /* NULL, then set once: release by who sets, acquire by who reads */
    _Atomic uint64_t size;             /* STK_HTTP_UNKNOWN, then set once; relaxed, it stands for itself */
};

/* One request for bytes, and what has become of it. */
struct transfer {
    struct object_range *self;
    uint64_t offset;
    size_t size;
    uint8_t *out;
    bool judged;     /* the head was looked at */
    uint64_t skip;   /* of a body that is the whole object */
    size_t expected; /* bytes that the body brings for us */
    size_t got;
    bool ends; /* the object ends after them */
    stoker_status fault_status;
    stoker_error fault;
    char error_body[ERROR_BODY_BYTES];
    size_t error_used;
};

static const stoker_object_options *options_of(const struct object_range *self)
{
    return stoker_object_settings_options(self->settings);
}

/* -------------------------------------------------------------------------------------------------------- requests */

struct lines {
    char *text[LINES_MAX];
    size_t count;
};

static stoker_status add_line(struct lines *lines, const char *name, const char *value, stoker_error *err)
{
    size_t size = strlen(name) + strlen(value) + 3;
    char *line = malloc(size);
    if (!line) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a request");
    (void)snprintf(line, size, "%s: %s", name, value); /* it fits */
    lines->text[lines->count++] = line;
    return STOKER_OK;
}

static void free_lines(struct lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        stk_wipe(lines->text[i], strlen(lines->text[i]));
        free(lines->text[i]);
    }
}

/* Head lines of a request; of S3, signed over all of them if there are keys. `range` may be NULL. */
static stoker_status make_lines(struct object_range *self, bool head, const char *range, struct lines *lines,
                                stoker_error *err)
{
    const stoker_object_options *options = options_of(self);
    const struct version *version = atomic_load_explicit(&self->version, memory_order_acquire);
    bool sign = self->target.s3 && options->access_key_id;
    char date[STK_SIGV4_DATE_BYTES], authorization[STK_SIGV4_AUTHORIZATION_BYTES];
    struct stk_sigv4_header headers[6]; /* in the order of their names, which the signature needs */
    size_t count = 0;
    if (self->target.s3) headers[count++] = (struct stk_sigv4_header){"host", self->target.host};
    if (version && version->etag[0] == '"') /* a weak tag matches nothing, by the rules of If-Match */
        headers[count++] = (struct stk_sigv4_header){"if-match", version->etag};
    if (range) headers[count++] = (struct stk_sigv4_header){"range", range};
    if (sign) {
        stk_sigv4_date((int64_t)time(NULL), date);
        headers[count++] = (struct stk_sigv4_header){"x-amz-content-sha256", STK_SIGV4_EMPTY_SHA256};
        headers[count++] = (struct stk_sigv4_header){"x-amz-date", date};
        if (options->session_token)
            headers[count++] = (struct stk_sigv4_header){"x-amz-security-token", options->session_token};
    }
    for (size_t i = 0; i < count; i++) STK_TRY(add_line(lines, headers[i].name, headers[i].value, err));
    if (!sign) return STOKER_OK;
    struct stk_sigv4_key key = {options->access_key_id, options->secret_access_key,
                                options->region ? options->region : "us-east-1"};
    struct stk_sigv4_request request = {head ? "HEAD" : "GET", self->target.path, "", headers, count,
                                        STK_SIGV4_EMPTY_SHA256};
    STK_TRY(stk_sigv4_sign(&key, &request, date, authorization, err));
    return add_line(lines, "authorization", authorization, err);
}

static stoker_status perform(struct object_range *self, bool head, const char *range, struct transfer *transfer,
                             bool (*body)(void *, const struct stk_http_answer *, const uint8_t *, size_t),
                             struct stk_http_answer *answer, stoker_error *err)
{
    struct lines lines = {.count = 0};
    stoker_status status = make_lines(self, head, range, &lines, err);
    if (status >= 0) {
        struct stk_http_call call = {
            .url = self->target.url,
            .head = head,
            .follow = !self->target.s3, /* a signature holds for one host */
            .headers = (const char *const *)lines.text,
            .header_count = lines.count,
            .options = options_of(self),
            .body = body,
            .user = transfer,
        };
        status = stk_http_perform(&call, answer, err);
    }
    free_lines(&lines);
    return status;
}

/* --------------------------------------------------------------------------------------------------------- answers */

static stoker_status changed(const struct object_range *self, const char *what, const char *before, const char *now,
                             stoker_error *err)
{
    return stk_fail(err, STOKER_ERR_MISMATCH, "'%s' changed while it was read: its %s was %s and is %s",
                    self->head.name, what, before, now);
}

/* Keeps the version of the first answer; compares those of later ones. */
static stoker_status compare_version(struct object_range *self, const struct stk_http_answer *answer, uint64_t total,
                                     stoker_error *err)
{
    struct version *known = atomic_load_explicit(&self->version, memory_order_acquire);
    if (!known && (answer->etag[0] || answer->last_modified[0])) {
        struct version *made = malloc(sizeof *made);
        if (!made) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a version");
        memcpy(made->etag, answer->etag, sizeof made->etag);
        memcpy(made->last_modified, answer->last_modified, sizeof made->last_modified);
        if (atomic_compare_exchange_strong_explicit(&self->version, &known, made, memory_order_acq_rel,
                                                    memory_order_acquire))
            known = made;
        else
            free(made); /* another thread was first: `known` is its record */
    }
    if (known && !stk_http_same_version(known->etag, known->last_modified, answer->etag, answer->last_modified)) {
        bool tags = known->etag[0] && answer->etag[0];
        return changed(self, tags ? "ETag" : "date", tags ? known->etag : known->last_modified,
                       tags ? answer->etag : answer->last_modified, err);
    }
    uint64_t size = STK_HTTP_UNKNOWN;
    if (total == STK_HTTP_UNKNOWN ||
        atomic_compare_exchange_strong_explicit(&self->size, &size, total, memory_order_relaxed,
                                                memory_order_relaxed) ||
        size == total)
        return STOKER_OK;
    char before[32], now[32];
    (void)snprintf(before, sizeof before, "%llu bytes", (unsigned long long)size);
    (void)snprintf(now, sizeof now, "%llu bytes", (unsigned long long)total);
    return changed(self, "size", before, now, err);
}

/* An answer that is no success: what it says, and who must act. */
static stoker_status refuse(const struct object_range *self, const struct stk_http_answer *answer, const char *body,
                            size_t body_size, stoker_error *err)
{
    const char *name = self->head.name;
    const stoker_object_options *options = options_of(self);
    char code[64], said[96];
    stk_http_error_code(body, body_size, code);
    (void)snprintf(said, sizeof said, "HTTP %u%s%s", answer->status, code[0] ? " " : "", code);
    if (self->target.s3 && answer->bucket_region[0] && (answer->status < 400 || answer->status == 400) &&
        (!options->region || strcmp(options->region, answer->bucket_region) != 0))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "'%s' lies in region %s and was asked for in %s (%s)", name,
                        answer->bucket_region, options->region ? options->region : "us-east-1", said);
    switch (answer->status) {
    case 404:
    case 410: return stk_fail(err, STOKER_ERR_NOT_FOUND, "there is no '%s' (%s)", name, said);
    case 401:
    case 403:
        return stk_fail(err, STOKER_ERR_IO, "'%s' may not be read (%s)%s", name, said,
                        self->target.s3 && !options->access_key_id
                            ? "; the request was not signed, for no credentials were given"
                            : "");
    case 412: return stk_fail(err, STOKER_ERR_MISMATCH, "'%s' changed while it was read (%s)", name, said);
    case 408:
    case 429:
    case 500:
    case 502:
    case 503:
    case 504: return stk_fail(err, STOKER_ERR_UNAVAILABLE, "the server of '%s' says %s", name, said);
    default: return stk_fail(err, STOKER_ERR_IO, "the server of '%s' says %s", name, said);
    }
}

/* The head of an answer with bytes: what of its body is ours. */
static stoker_status judge_partial(struct transfer *transfer, const struct stk_http_answer *answer, stoker_error *err)
{
    struct object_range *self = transfer->self;
    uint64_t last = transfer->offset + transfer->size - 1;
    if (!answer->has_range || answer->range_first != transfer->offset || answer->range_last > last)
        return answer->has_range
                   ? stk_fail(err, STOKER_ERR_PROTOCOL, "'%s': bytes %llu-%llu were asked for, and %llu-%llu came",
                              self->head.name, (unsigned long long)transfer->offset, (unsigned long long)last,
                              (unsigned long long)answer->range_first, (unsigned long long)answer->range_last)
                   : stk_fail(err, STOKER_ERR_PROTOCOL,
                              "'%s': the server sent a part and did not say which (no valid "
                              "Content-Range)",
                              self->head.name);
    STK_TRY(compare_version(self, answer, answer->range_total, err));
    transfer->expected = (size_t)(answer->range_last - answer->range_first + 1);
    transfer->ends = answer->range_total != STK_HTTP_UNKNOWN && answer->range_last + 1 == answer->range_total;
    return STOKER_OK;
}

/* The server sends all of it, whatever was asked. Small objects are taken so; of others that would be paid for each
 * read. */
static stoker_status judge_whole(struct transfer *transfer, const struct stk_http_answer *answer, stoker_error *err)
{
    struct object_range *self = transfer->self;
    uint64_t whole = answer->content_length, end = transfer->offset + transfer->size;
    STK_TRY(compare_version(self, answer, whole, err));
    if (whole != STK_HTTP_UNKNOWN && end > whole) end = whole;
    if (end > STK_WHOLE_BYTES_MAX && transfer->offset > 0)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED,
                        "the server of '%s' does not send ranges: %llu bytes would be read and dropped to get at byte "
                        "%llu",
                        self->head.name, (unsigned long long)transfer->offset, (unsigned long long)transfer->offset);
    transfer->skip = transfer->offset;
    transfer->expected = transfer->offset < end ? (size_t)(end - transfer->offset) : 0;
    transfer->ends = whole == STK_HTTP_UNKNOWN || end == whole;
    return STOKER_OK;
}

static stoker_status judge(struct transfer *transfer, const struct stk_http_answer *answer, stoker_error *err)
{
    return answer->status == 206 ? judge_partial(transfer, answer, err) : judge_whole(transfer, answer, err);
}

static bool take_body(void *user, const struct stk_http_answer *answer, const uint8_t *data, size_t size)
{
    struct transfer *transfer = user;
    if (answer->status != 200 && answer->status != 206) {
        size_t room = ERROR_BODY_BYTES - transfer->error_used;
        size_t part = size < room ? size : room;
        memcpy(transfer->error_body + transfer->error_used, data, part);
        transfer->error_used += part;
        return part == size;
    }
    if (!transfer->judged) {
        transfer->judged = true;
        transfer->fault_status = judge(transfer, answer, &transfer->fault);
    }
    if (transfer->fault_status < 0) return false;
    if (transfer->skip > 0) {
        size_t part = size < transfer->skip ? size : (size_t)transfer->skip;
        transfer->skip -= part;
        data += part;
        size -= part;
    }
    size_t left = transfer->expected - transfer->got;
    size_t part = size < left ? size : left;
    if (part > 0) memcpy(transfer->out + transfer->got, data, part);
    transfer->got += part;
    /* The end of a body that is read to its end leaves the connection for the next request. */
    return part == size && (transfer->got < transfer->expected || answer->status == 206 || transfer->ends);
}

/* What came of one request. UNAVAILABLE and TIMEOUT leave in transfer->got what may be kept. */
static stoker_status fetch(struct transfer *transfer, struct stk_http_answer *answer, stoker_error *err)
{
    struct object_range *self = transfer->self;
    char range[64];
    (void)snprintf(range, sizeof range, "bytes=%llu-%llu", (unsigned long long)transfer->offset,
                   (unsigned long long)(transfer->offset + transfer->size - 1));
    stoker_status status = perform(self, false, range, transfer, take_body, answer, err);
    if (transfer->fault_status < 0) {
        if (err) *err = transfer->fault;
        return transfer->fault_status;
    }
    if (status < 0) {
        stk_error_context(err, "%s", self->head.name);
        return status;
    }
    if (answer->status == 416) { /* nothing there */
        uint64_t total = answer->range_unmet ? answer->range_total : STK_HTTP_UNKNOWN;
        if (total == STK_HTTP_UNKNOWN && transfer->offset == 0) total = 0;
        transfer->ends = true;
        STK_TRY(compare_version(self, answer, total, err));
        return total != STK_HTTP_UNKNOWN && transfer->offset < total
                   ? stk_fail(err, STOKER_ERR_PROTOCOL, "'%s' has %llu bytes, and its server has none at offset %llu",
                              self->head.name, (unsigned long long)total, (unsigned long long)transfer->offset)
                   : STOKER_OK;
    }
    if (answer->status != 200 && answer->status != 206)
        return refuse(self, answer, transfer->error_body, transfer->error_used, err);
    if (!transfer->judged) STK_TRY(judge(transfer, answer, err)); /* a body without a byte */
    if (transfer->got == transfer->expected) return STOKER_OK;
    if (answer->status == 200 && answer->content_length == STK_HTTP_UNKNOWN) return STOKER_OK; /* it ends there */
    return stk_fail(err, STOKER_ERR_UNAVAILABLE, "'%s': the body ended after %zu of %zu bytes", self->head.name,
                    transfer->got, transfer->expected);
}

/* ------------------------------------------------------------------------------------------------------------ tries */

static bool may_pass(stoker_status status) { return status == STOKER_ERR_UNAVAILABLE || status == STOKER_ERR_TIMEOUT; }

/* Before retry number `retry`: between half of the doubled delay and all of it, so that many readers that failed
 * together do not come back together; longer if the server says so. */
static void back_off(const struct object_range *self, uint32_t retry, const struct stk_http_answer *answer)
{
    uint64_t most = stk_range_delay(self->retry.delay_ns, retry, STK_OBJECT_DELAY_NS_MAX);
    uint64_t chance = (stk_clock_now_ns() ^ (uint64_t)(uintptr_t)&most) * UINT64_C(0x9e3779b97f4a7c15);
    uint64_t delay = most - most / 2 + (most / 2 ? (chance >> 20) % (most / 2 + 1) : 0);
    uint64_t asked = answer->retry_after_s < STK_OBJECT_DELAY_NS_MAX / STK_SECOND_NS
                         ? answer->retry_after_s * STK_SECOND_NS
                         : STK_OBJECT_DELAY_NS_MAX;
    stk_range_pause(&self->head, asked > delay ? asked : delay);
}

static stoker_status give_up(stoker_status status, uint32_t retry, stoker_error *fault, stoker_error *err)
{
    if (retry > 0) stk_error_context(fault, "tried %llu times", (unsigned long long)retry + 1);
    if (err) *err = *fault;
    return status;
}

static stoker_status object_read(struct stk_range *range, uint64_t offset, size_t size, void *out, size_t *out_got,
                                 stoker_error *err)
{
    struct object_range *self = (struct object_range *)range;
    size_t done = 0;
    uint32_t retry = 0;
    *out_got = 0;
    if (size == 0) return STOKER_OK;
    struct transfer *transfer = malloc(sizeof *transfer);
    if (!transfer) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a request");
    for (;;) {
        stoker_error fault = {0};
        struct stk_http_answer answer;
        stk_http_answer_init(&answer);
        *transfer =
            (struct transfer){.self = self, .offset = offset + done, .size = size - done, .out = (uint8_t *)out + done};
        stoker_status status = fetch(transfer, &answer, &fault);
        bool good = status >= 0;
        if (good && transfer->got == 0 && !transfer->ends)
            status = stk_fail(&fault, STOKER_ERR_PROTOCOL, "'%s': no byte came at offset %llu", range->name,
                              (unsigned long long)transfer->offset);
        if (good || atomic_load_explicit(&self->version, memory_order_acquire)) done += transfer->got;
        if (status >= 0 && (transfer->ends || done == size)) break;
        if (status >= 0) continue; /* fewer than asked, as a server may: the rest is asked for */
        if (done == size) break;
        if (!may_pass(status) || retry == self->retry.retries) {
            free(transfer);
            return give_up(status, retry, &fault, err);
        }
        back_off(self, retry++, &answer);
    }
    free(transfer);
    *out_got = done;
    return STOKER_OK;
}

/* By HEAD. AGAIN: the server does not answer that, or not with a size. */
static stoker_status ask_size(struct object_range *self, struct stk_http_answer *answer, stoker_error *err)
{
    stoker_status status = perform(self, true, NULL, NULL, NULL, answer, err);
    if (status < 0) {
        stk_error_context(err, "%s", self->head.name);
        return status;
    }
    if (answer->status == 200 && answer->content_length != STK_HTTP_UNKNOWN)
        return compare_version(self, answer, answer->content_length, err);
    status = answer->status >= 400 ? refuse(self, answer, "", 0, err) : STOKER_AGAIN;
    /* Signed addresses hold for GET alone, and only its answer says why it is a refusal. */
    return may_pass(status) ? status : STOKER_AGAIN;
}

static stoker_status object_size(struct stk_range *range, uint64_t *out_size, stoker_error *err)
{
    struct object_range *self = (struct object_range *)range;
    for (uint32_t retry = 0; atomic_load_explicit(&self->size, memory_order_relaxed) == STK_HTTP_UNKNOWN; retry++) {
        stoker_error fault = {0};
        struct stk_http_answer answer;
        stk_http_answer_init(&answer);
        stoker_status status = ask_size(self, &answer, &fault);
        if (status == STOKER_AGAIN) {
            uint8_t byte;
            size_t got;
            STK_TRY(object_read(range, 0, 1, &byte, &got, err));
            if (atomic_load_explicit(&self->size, memory_order_relaxed) == STK_HTTP_UNKNOWN)
                return stk_fail(err, STOKER_ERR_UNSUPPORTED, "the server of '%s' does not say its size", range->name);
            break;
        }
        if (status >= 0) break;
        if (!may_pass(status) || retry == self->retry.retries) return give_up(status, retry, &fault, err);
        back_off(self, retry, &answer);
    }
    *out_size = atomic_load_explicit(&self->size, memory_order_relaxed);
    return STOKER_OK;
}

static stoker_status object_version(struct stk_range *range, char *out, size_t cap, stoker_error *err)
{
    struct object_range *self = (struct object_range *)range;
    uint64_t size;
    STK_TRY(object_size(range, &size, err));
    const struct version *version = atomic_load_explicit(&self->version, memory_order_acquire);
    (void)snprintf(out, cap, "%s", !version ? "" : version->etag[0] ? version->etag : version->last_modified);
    return STOKER_OK;
}

static void object_close(struct stk_range *range)
{
    struct object_range *self = (struct object_range *)range;
    stk_http_stop();
    free(atomic_load_explicit(&self->version, memory_order_acquire));
    stoker_object_settings_destroy(self->settings);
    stk_target_fini(&self->target);
    stk_range_free(range);
}

stoker_status stk_range_open_url(const char *url, const stoker_object_options *options, struct stk_range_retry retry,
                                 struct stk_range **out_range, stoker_error *err)
{
    static const struct stk_range_backend backend = {object_read, object_size, object_version, object_close, 8};
    struct stk_target target = {0};
    stoker_object_settings *settings = NULL;
    struct stk_range *range = NULL;
    STK_TRY(stk_object_settings_copy(options, &settings, err));
    stoker_status status = stk_target_init(url, stoker_object_settings_options(settings), &target, err);
    if (status >= 0) status = stk_range_create(sizeof(struct object_range), &backend, target.name, &range, err);
    if (status >= 0) status = stk_http_start(err);
    if (status < 0) {
        if (range) stk_range_free(range);
        stk_target_fini(&target);
        stoker_object_settings_destroy(settings);
        return status;
    }
    struct object_range *self = (struct object_range *)range;
    self->target = target;
    self->settings = settings;
    self->retry = retry;
    atomic_init(&self->version, NULL);
    atomic_init(&self->size, STK_HTTP_UNKNOWN);
    *out_range = range;
    return STOKER_OK;
}
