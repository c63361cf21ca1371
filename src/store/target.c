/* SPDX-License-Identifier: Apache-2.0
 *
 * Addresses of objects: see target.h. Keys of S3 are bytes, not paths: nothing of them is normalised ("//" and "../"
 * are names like any other), and everything but letters, digits and "-._~/" is percent-encoded, which is also how they
 * are signed.
 */
#include "store/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"

static const char s3_scheme[] = "s3://";

static bool is_plain(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
           c == '_' || c == '~';
}

static void encode_byte(char c, char **at)
{
    static const char digits[] = "0123456789ABCDEF";
    *(*at)++ = '%';
    *(*at)++ = digits[(unsigned char)c >> 4];
    *(*at)++ = digits[(unsigned char)c & 15];
}

/* One past the end of what was written. */
static char *encode_key(const char *key, size_t size, char *at)
{
    for (size_t i = 0; i < size; i++) {
        if (is_plain(key[i]) || key[i] == '/')
            *at++ = key[i];
        else
            encode_byte(key[i], &at);
    }
    return at;
}

void stk_s3_split(const char *url, const char **out_bucket, size_t *out_bucket_size, const char **out_key)
{
    const char *bucket = url + sizeof s3_scheme - 1;
    const char *slash = strchr(bucket, '/');
    *out_bucket = bucket;
    *out_bucket_size = slash ? (size_t)(slash - bucket) : strlen(bucket);
    *out_key = slash ? slash + 1 : bucket + *out_bucket_size;
}

/* A bucket that can be the first part of a host name under a wildcard certificate. */
static bool is_host_label(const char *bucket, size_t size)
{
    if (size < 3 || size > 63 || bucket[0] == '-' || bucket[size - 1] == '-') return false;
    for (size_t i = 0; i < size; i++)
        if (!((bucket[i] >= 'a' && bucket[i] <= 'z') || (bucket[i] >= '0' && bucket[i] <= '9') || bucket[i] == '-'))
            return false;
    return true;
}

static bool is_visible(const char *text)
{
    for (; *text; text++)
        if (*text <= 0x20 || *text > 0x7e) return false;
    return true;
}

/* Scheme, host with port, and base path of an endpoint. */
struct endpoint {
    bool https;
    const char *host;
    size_t host_size;
    const char *base; /* "" or "/..." */
    size_t base_size; /* without a slash at the end */
};

static stoker_status split_endpoint(const char *text, struct endpoint *out, stoker_error *err)
{
    out->https = strncmp(text, "https://", 8) == 0;
    bool known = out->https || strncmp(text, "http://", 7) == 0;
    if (!known) goto bad;
    out->host = text + (out->https ? 8 : 7);
    out->host_size = strcspn(out->host, "/");
    out->base = out->host + out->host_size;
    out->base_size = strlen(out->base);
    while (out->base_size > 0 && out->base[out->base_size - 1] == '/') out->base_size--;
    if (out->host_size == 0 || !is_visible(text) || strpbrk(text, "@?#")) goto bad;
    /* The header "Host" has no port if it is the usual one, on both sides of the signature. */
    const char *usual = out->https ? ":443" : ":80";
    size_t size = strlen(usual);
    if (out->host_size > size && strncmp(out->host + out->host_size - size, usual, size) == 0) out->host_size -= size;
    return STOKER_OK;
bad: /* not quoted: it may hold a user and a password */
    return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                    "the endpoint of S3 is not of the form https://HOST[:PORT][/PATH] (or http://)");
}

static char *copy(const char *text, size_t size)
{
    char *made = malloc(size + 1);
    if (!made) return NULL;
    memcpy(made, text, size);
    made[size] = 0;
    return made;
}

static char *joined(const char *a, const char *b, const char *c)
{
    size_t size = strlen(a) + strlen(b) + strlen(c) + 1;
    char *made = malloc(size);
    if (made) (void)snprintf(made, size, "%s%s%s", a, b, c); /* it fits */
    return made;
}

static stoker_status init_s3(const char *url, const stoker_object_options *options, struct stk_target *target,
                             stoker_error *err)
{
    const char *bucket, *key, *region = options->region ? options->region : "us-east-1";
    size_t bucket_size;
    char amazon[256];
    struct endpoint endpoint = {0};
    stk_s3_split(url, &bucket, &bucket_size, &key);
    if (bucket_size == 0 || !*key)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "'%s' names no object; expected s3://BUCKET/KEY", url);
    const char *domain = strncmp(region, "cn-", 3) == 0 ? "amazonaws.com.cn" : "amazonaws.com";
    if (!options->endpoint &&
        (!is_visible(region) || strpbrk(region, "/@?#:") ||
         snprintf(amazon, sizeof amazon, "https://s3.%s.%s", region, domain) >= (int)sizeof amazon))
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "'%.64s' is no region of S3", region);
    STK_TRY(split_endpoint(options->endpoint ? options->endpoint : amazon, &endpoint, err));

    bool label = is_host_label(bucket, bucket_size);
    bool in_host = options->path_style < 0 || (options->path_style == 0 && !options->endpoint && label);
    if (in_host && !label)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "the bucket of '%s' cannot be part of a host name: ask for path style", url);

    size_t key_size = strlen(key);
    char *host = malloc(bucket_size + endpoint.host_size + 2);
    char *path = malloc(endpoint.base_size + (bucket_size + key_size) * 3 + 3);
    if (host && path) {
        (void)snprintf(host, bucket_size + endpoint.host_size + 2, "%.*s%s%.*s", in_host ? (int)bucket_size : 0, bucket,
                       in_host ? "." : "", (int)endpoint.host_size, endpoint.host);
        char *at = path;
        memcpy(at, endpoint.base, endpoint.base_size);
        at += endpoint.base_size;
        if (!in_host) {
            *at++ = '/';
            at = encode_key(bucket, bucket_size, at);
        }
        *at++ = '/';
        *encode_key(key, key_size, at) = 0;
        target->url = joined(endpoint.https ? "https://" : "http://", host, path);
    }
    target->s3 = true;
    target->host = host;
    target->path = path;
    target->name = copy(url, strlen(url));
    return STOKER_OK;
}

static void init_http(const char *url, struct stk_target *target)
{
    size_t size = strlen(url), scheme = strstr(url, "://") + 3 - url;
    char *sent = malloc(size * 3 + 1);
    if (sent) { /* what cannot stand in a request line is encoded; the rest is the caller's spelling */
        char *at = sent;
        for (const char *from = url; *from; from++) {
            if (*from <= 0x20 || *from > 0x7e || strchr("\"<>\\^`{|}", *from))
                encode_byte(*from, &at);
            else
                *at++ = *from;
        }
        *at = 0;
    }
    target->url = sent;
    char *name = copy(url, size);
    if (name) {
        name[strcspn(name, "?#")] = 0; /* a query may be a signature */
        size_t authority = strcspn(name + scheme, "/");
        for (size_t i = authority; i-- > 0;)
            if (name[scheme + i] == '@') { /* user and password */
                memmove(name + scheme, name + scheme + i + 1, strlen(name + scheme + i + 1) + 1);
                break;
            }
    }
    target->name = name;
}

stoker_status stk_target_init(const char *url, const stoker_object_options *options, struct stk_target *out_target,
                              stoker_error *err)
{
    struct stk_target target = {0};
    if (strlen(url) >= STK_URL_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "an address of %zu bytes; at most %u are allowed", strlen(url),
                        STK_URL_BYTES_MAX - 1);
    if (strncmp(url, s3_scheme, sizeof s3_scheme - 1) == 0)
        STK_TRY(init_s3(url, options, &target, err));
    else if (strncmp(url, "http://", 7) == 0 || strncmp(url, "https://", 8) == 0)
        init_http(url, &target);
    else
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT,
                        "'%s' is no address that stoker reads itself: expected "
                        "s3://, http:// or https://",
                        url);
    if (!target.url || !target.name || (target.s3 && (!target.host || !target.path))) {
        stk_target_fini(&target);
        return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for an address");
    }
    *out_target = target;
    return STOKER_OK;
}

void stk_target_fini(struct stk_target *target)
{
    free(target->url);
    free(target->host);
    free(target->path);
    free(target->name);
    *target = (struct stk_target){0};
}
