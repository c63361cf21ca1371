/* SPDX-License-Identifier: Apache-2.0
 *
 * What the head of an HTTP answer says, and the transport that gets one. Parsing is apart from the transport: it sees
 * bytes of a stranger, and is fuzzed.
 */
#ifndef STK_STORE_HTTP_H
#define STK_STORE_HTTP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <stoker/dataset.h>
#include <stoker/error.h>

#include "base/limits.h"

#define STK_HTTP_UNKNOWN UINT64_MAX

struct stk_http_answer {
    unsigned status;         /* 0: no status line yet */
    uint64_t content_length; /* STK_HTTP_UNKNOWN: not said */
    bool has_range;          /* Content-Range is there and can be read */
    bool range_unmet;        /* it is "bytes * / total" */
    uint64_t range_first, range_last;
    uint64_t range_total;   /* STK_HTTP_UNKNOWN: "*" */
    uint64_t retry_after_s; /* 0: not said */
    char etag[STK_HTTP_TEXT_BYTES_MAX];
    char last_modified[STK_HTTP_TEXT_BYTES_MAX];
    char bucket_region[STK_HTTP_TEXT_BYTES_MAX];
};

void stk_http_answer_init(struct stk_http_answer *answer);
/* One line of a head, with or without its end. A status line begins anew: redirections and "100 Continue" come before
 * the answer that counts. Lines that make no sense are passed over. */
void stk_http_answer_line(struct stk_http_answer *answer, const char *line, size_t size);
/* Text of <Code> in the body of an S3 error ("AccessDenied"); "" if there is none that looks like one. */
void stk_http_error_code(const char *body, size_t size, char out[64]);
/* Same version? Tags count without their mark of weakness; without tags the dates do; without either it may be. */
bool stk_http_same_version(const char *etag_a, const char *modified_a, const char *etag_b, const char *modified_b);

/* ------------------------------------------------------------------------------------------------------- transport */

struct stk_http_call {
    const char *url;
    bool head;
    bool follow;                /* redirections; never from https to http */
    const char *const *headers; /* whole lines, "Name: value" */
    size_t header_count;
    const stoker_object_options *options;
    /* A part of the body of an answer; false stops the transfer, which is no failure. */
    bool (*body)(void *user, const struct stk_http_answer *answer, const uint8_t *data, size_t size);
    void *user;
};

/* Ranges that use the transport are counted: with the last one, idle connections end. UNSUPPORTED without libcurl. */
stoker_status stk_http_start(stoker_error *err);
void stk_http_stop(void);

/* Any thread; also in a forked child, which makes its own connections. Whatever the server answers is OK. UNAVAILABLE
 * (connections, names, bodies that end early) and TIMEOUT may pass; IO, INVALID_ARGUMENT and NO_MEMORY will not. */
stoker_status stk_http_perform(const struct stk_http_call *call, struct stk_http_answer *out_answer, stoker_error *err);

#endif
