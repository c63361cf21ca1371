/* SPDX-License-Identifier: Apache-2.0
 *
 * HTTP by libcurl; the only file that includes it.
 *
 * A handle holds its connections, so handles are kept for the next request of any range: at most as many as one read
 * uses, however many ranges are open. A forked child makes a pool of its own and leaves the parent's alone: closing an
 * inherited connection would end it for the parent, too.
 */
#include <curl/curl.h>

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <threads.h>
#include <unistd.h>

#include "base/error.h"
#include "base/limits.h"
#include "store/http.h"
#include "sys/thread.h"

enum { LOCK_RANK = 50, REDIRECTS_MAX = 5, CONNECTIONS_OF_HANDLE = 2, SLOW_BYTES_PER_S = 1000 };

struct pool {
    /* fixed */
    pid_t owner;
    struct pool *inherited; /* the parent's, left as it was at the fork */
    struct stk_mutex *lock;
    /* guarded by lock */
    size_t users;
    CURL *idle[STK_RANGE_WAYS_MAX];
    size_t idle_count;
};

/* Replaced once in each child; acquire and release, since it is filled before. */
static _Atomic(struct pool *) shared_pool;
static once_flag global_once = ONCE_FLAG_INIT;
static CURLcode global_result;

static void init_global(void) { global_result = curl_global_init(CURL_GLOBAL_DEFAULT); }

/* This process's pool. */
static stoker_status own_pool(struct pool **out_pool, stoker_error *err)
{
    struct pool *pool = atomic_load_explicit(&shared_pool, memory_order_acquire);
    if (pool && pool->owner == getpid()) {
        *out_pool = pool;
        return STOKER_OK;
    }
    struct pool *made = calloc(1, sizeof *made);
    if (!made) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for connections");
    made->owner = getpid();
    made->inherited = pool;
    made->users = pool ? pool->users : 0; /* the ranges that were open at the fork are the child's as well */
    stoker_status status = stk_mutex_create(LOCK_RANK, &made->lock, err);
    if (status < 0) {
        free(made);
        return status;
    }
    if (atomic_compare_exchange_strong_explicit(&shared_pool, &pool, made, memory_order_acq_rel,
                                                memory_order_acquire)) {
        pool = made;
    } else { /* another thread was first */
        stk_mutex_destroy(made->lock);
        free(made);
    }
    *out_pool = pool;
    return STOKER_OK;
}

stoker_status stk_http_start(stoker_error *err)
{
    struct pool *pool = NULL;
    call_once(&global_once, init_global);
    if (global_result != CURLE_OK)
        return stk_fail(err, STOKER_ERR_INTERNAL, "libcurl does not start: %s", curl_easy_strerror(global_result));
    STK_TRY(own_pool(&pool, err));
    stk_mutex_lock(pool->lock);
    pool->users++;
    stk_mutex_unlock(pool->lock);
    return STOKER_OK;
}

void stk_http_stop(void)
{
    struct pool *pool = NULL;
    CURL *ended[STK_RANGE_WAYS_MAX];
    size_t count = 0;
    if (own_pool(&pool, NULL) != STOKER_OK) return; /* then this child has no connection of its own either */
    stk_mutex_lock(pool->lock);
    if (pool->users > 0) pool->users--;
    if (pool->users == 0) {
        count = pool->idle_count;
        memcpy(ended, pool->idle, count * sizeof ended[0]);
        pool->idle_count = 0;
    }
    stk_mutex_unlock(pool->lock);
    while (count > 0) curl_easy_cleanup(ended[--count]);
}

static CURL *take_handle(struct pool *pool)
{
    CURL *handle = NULL;
    stk_mutex_lock(pool->lock);
    if (pool->idle_count > 0) handle = pool->idle[--pool->idle_count]; /* the last used: its connection is fresh */
    stk_mutex_unlock(pool->lock);
    if (!handle) return curl_easy_init();
    curl_easy_reset(handle); /* options; connections stay */
    return handle;
}

static void give_handle(struct pool *pool, CURL *handle)
{
    stk_mutex_lock(pool->lock);
    bool keep = pool->idle_count < STK_RANGE_WAYS_MAX && pool->users > 0;
    if (keep) pool->idle[pool->idle_count++] = handle;
    stk_mutex_unlock(pool->lock);
    if (!keep) curl_easy_cleanup(handle);
}

/* ------------------------------------------------------------------------------------------------------ one request */

struct exchange {
    const struct stk_http_call *call;
    struct stk_http_answer *answer;
    bool stopped; /* by the caller's body function */
};

static size_t on_header(char *data, size_t unit, size_t count, void *user)
{
    struct exchange *exchange = user;
    stk_http_answer_line(exchange->answer, data, unit * count);
    return unit * count;
}

static size_t on_body(char *data, size_t unit, size_t count, void *user)
{
    struct exchange *exchange = user;
    size_t size = unit * count;
    if (!exchange->call->body || size == 0) return size;
    if (exchange->call->body(exchange->call->user, exchange->answer, (const uint8_t *)data, size)) return size;
    exchange->stopped = true;
    return 0;
}

/* Status of a failure that is not the server's answer; may it pass? See http.h. */
static stoker_status status_of(CURLcode code)
{
    switch (code) {
    case CURLE_COULDNT_RESOLVE_PROXY:
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR: return STOKER_ERR_UNAVAILABLE;
    case CURLE_OPERATION_TIMEDOUT: return STOKER_ERR_TIMEOUT;
    case CURLE_OUT_OF_MEMORY: return STOKER_ERR_NO_MEMORY;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL: return STOKER_ERR_INVALID_ARGUMENT;
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_SSL_CERTPROBLEM: return STOKER_ERR_IO;
    default: return STOKER_ERR_PROTOCOL;
    }
}

static void set_protocols(CURL *handle, bool https)
{
#if LIBCURL_VERSION_NUM >= 0x075500
    (void)curl_easy_setopt(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    (void)curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS_STR, https ? "https" : "http,https");
#else
    (void)curl_easy_setopt(handle, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    (void)curl_easy_setopt(handle, CURLOPT_REDIR_PROTOCOLS,
                           https ? (long)CURLPROTO_HTTPS : (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
}

static long milliseconds(uint64_t ns) { return (long)((ns + 999999) / 1000000); }

static long seconds(uint64_t ns) { return (long)((ns + STK_SECOND_NS - 1) / STK_SECOND_NS); }

/* Options are checked by one call for all: each fails for want of memory only, or is unknown to an old libcurl. */
static CURLcode set_options(CURL *handle, const struct stk_http_call *call, struct curl_slist *lines,
                            struct exchange *exchange, char *text)
{
    const stoker_object_options *options = call->options;
    bool https = strncmp(call->url, "https://", 8) == 0;
    const char *proxy = https ? options->https_proxy : options->http_proxy;
    CURLcode code = curl_easy_setopt(handle, CURLOPT_URL, call->url);
    (void)curl_easy_setopt(handle, CURLOPT_PATH_AS_IS, 1L); /* keys are not paths */
    set_protocols(handle, https);
    (void)curl_easy_setopt(handle, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1); /* a connection each is faster */
    (void)curl_easy_setopt(handle, CURLOPT_NOSIGNAL, 1L);
    (void)curl_easy_setopt(handle, CURLOPT_FOLLOWLOCATION, call->follow ? 1L : 0L);
    (void)curl_easy_setopt(handle, CURLOPT_MAXREDIRS, (long)REDIRECTS_MAX);
    (void)curl_easy_setopt(handle, CURLOPT_MAXCONNECTS, (long)CONNECTIONS_OF_HANDLE);
    (void)curl_easy_setopt(handle, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(options->connect_timeout_ns));
    (void)curl_easy_setopt(handle, CURLOPT_LOW_SPEED_LIMIT, (long)SLOW_BYTES_PER_S);
    (void)curl_easy_setopt(handle, CURLOPT_LOW_SPEED_TIME, seconds(options->stall_timeout_ns));
    (void)curl_easy_setopt(handle, CURLOPT_NOBODY, call->head ? 1L : 0L);
    (void)curl_easy_setopt(handle, CURLOPT_BUFFERSIZE, 512L * 1024L);
    (void)curl_easy_setopt(handle, CURLOPT_HEADERFUNCTION, on_header);
    (void)curl_easy_setopt(handle, CURLOPT_HEADERDATA, exchange);
    (void)curl_easy_setopt(handle, CURLOPT_WRITEFUNCTION, on_body);
    (void)curl_easy_setopt(handle, CURLOPT_WRITEDATA, exchange);
    (void)curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, text);
    if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_HTTPHEADER, lines);
    if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_USERAGENT, "stoker");
    /* Text, also an empty one, keeps libcurl from asking the environment. */
    if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_PROXY, proxy ? proxy : "");
    if (code == CURLE_OK) code = curl_easy_setopt(handle, CURLOPT_NOPROXY, options->no_proxy ? options->no_proxy : "");
    if (code == CURLE_OK && options->ca_bundle) code = curl_easy_setopt(handle, CURLOPT_CAINFO, options->ca_bundle);
    return code;
}

static struct curl_slist *make_list(const struct stk_http_call *call)
{
    struct curl_slist *list = NULL;
    for (size_t i = 0; i < call->header_count; i++) {
        struct curl_slist *longer = curl_slist_append(list, call->headers[i]);
        if (!longer) {
            curl_slist_free_all(list);
            return NULL;
        }
        list = longer;
    }
    return list;
}

stoker_status stk_http_perform(const struct stk_http_call *call, struct stk_http_answer *out_answer, stoker_error *err)
{
    struct pool *pool = NULL;
    char text[CURL_ERROR_SIZE] = "";
    struct exchange exchange = {.call = call, .answer = out_answer};
    stk_http_answer_init(out_answer);
    STK_TRY(own_pool(&pool, err));
    struct curl_slist *lines = make_list(call);
    CURL *handle = take_handle(pool);
    if (!handle || (!lines && call->header_count > 0)) {
        curl_slist_free_all(lines);
        if (handle) curl_easy_cleanup(handle);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a request");
    }
    CURLcode code = set_options(handle, call, lines, &exchange, text);
    if (code == CURLE_OK) code = curl_easy_perform(handle);
    (void)curl_easy_setopt(handle, CURLOPT_HTTPHEADER, NULL); /* these point to what ends here */
    (void)curl_easy_setopt(handle, CURLOPT_ERRORBUFFER, NULL);
    curl_slist_free_all(lines);
    give_handle(pool, handle);
    if (code == CURLE_OK || exchange.stopped) return STOKER_OK;
    return stk_fail(err, status_of(code), "%s", text[0] ? text : curl_easy_strerror(code));
}
