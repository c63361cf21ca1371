/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of object storage: copies that own their text, and the rules by which an environment gives them. Messages
 * name variables, files and lines; what a variable says is quoted only where it cannot be secret.
 */
#include "store/settings.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/limits.h"
#include "store/file.h"
#include "store/profile.h"
#include "store/sigv4.h"

struct stoker_object_settings {
    stoker_object_options options; /* its text is the heap's */
};

struct environment {
    stoker_environment_fn get;
    void *user;
};

/* The members that are text, in one list. */
#define TEXTS(options)                                                                                                 \
    {                                                                                                                  \
        &(options)->access_key_id, &(options)->secret_access_key, &(options)->session_token, &(options)->region,       \
            &(options)->endpoint, &(options)->ca_bundle, &(options)->http_proxy, &(options)->https_proxy,              \
            &(options)->no_proxy                                                                                       \
    }

static bool is_token(const char *text)
{
    for (; *text; text++)
        if (*text <= 0x20 || *text > 0x7e) return false;
    return true;
}

static stoker_status check(const stoker_object_options *options, stoker_error *err)
{
    const struct {
        const char *name, *text;
    } tokens[] = {{"access key id", options->access_key_id},
                  {"session token", options->session_token},
                  {"region", options->region},
                  {"endpoint", options->endpoint}};
    if (!options->access_key_id != !options->secret_access_key)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "S3 has a%s access key%s and no %s",
                        options->access_key_id ? "n" : " secret", options->access_key_id ? " id" : "",
                        options->access_key_id ? "secret access key" : "access key id");
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++)
        if (tokens[i].text && !is_token(tokens[i].text))
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "the %s of S3 holds a character that no request can have",
                            tokens[i].name);
    return STOKER_OK;
}

static stoker_status take_copy(const char *text, const char **out, stoker_error *err)
{
    *out = NULL;
    if (!text || !*text) return STOKER_OK; /* an empty variable is one that is not set */
    *out = strdup(text);
    return *out ? STOKER_OK : stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for options");
}

stoker_status stk_object_settings_copy(const stoker_object_options *options, stoker_object_settings **out_settings,
                                       stoker_error *err)
{
    stoker_object_options given = STOKER_OBJECT_OPTIONS_INIT;
    if (options) {
        const unsigned char *bytes = (const unsigned char *)options;
        size_t size = options->struct_size < sizeof given ? options->struct_size : sizeof given;
        if (size < sizeof given.struct_size)
            return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "options of object storage of %u bytes",
                            options->struct_size);
        for (size_t i = sizeof given; i < options->struct_size; i++)
            if (bytes[i])
                return stk_fail(err, STOKER_ERR_UNSUPPORTED, "options of object storage of %u bytes; %zu are known",
                                options->struct_size, sizeof given);
        memcpy(&given, options, size);
    }
    stoker_object_settings *settings = calloc(1, sizeof *settings);
    if (!settings) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for options");
    stoker_object_options *own = &settings->options;
    *own = given;
    const char **texts[] = TEXTS(own);
    const char **from[] = TEXTS(&given);
    const size_t count = sizeof texts / sizeof texts[0];
    stoker_status status = STOKER_OK;
    for (size_t i = 0; i < count; i++) *texts[i] = NULL;
    for (size_t i = 0; i < count && status >= 0; i++) status = take_copy(*from[i], texts[i], err);
    if (status >= 0) status = check(own, err);
    if (status < 0) {
        stoker_object_settings_destroy(settings);
        return status;
    }
    own->struct_size = sizeof *own;
    if (own->connect_timeout_ns == 0) own->connect_timeout_ns = STK_CONNECT_TIMEOUT_NS;
    if (own->stall_timeout_ns == 0) own->stall_timeout_ns = STK_OBJECT_STALL_NS;
    if (own->retry_delay_ns == 0) own->retry_delay_ns = STK_OBJECT_DELAY_NS;
    own->retries = own->retries == 0 ? STK_OBJECT_RETRIES : own->retries;
    *out_settings = settings;
    return STOKER_OK;
}

const stoker_object_options *stoker_object_settings_options(const stoker_object_settings *settings)
{
    return &settings->options;
}

void stoker_object_settings_destroy(stoker_object_settings *settings)
{
    if (!settings) return;
    const char **texts[] = TEXTS(&settings->options);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) stk_secret_free((char *)(uintptr_t)*texts[i]);
    free(settings);
}

/* --------------------------------------------------------------------------------------------- from an environment */

static const char *lookup(const struct environment *environment, const char *name)
{
    const char *value = environment->get(environment->user, name);
    return value && *value ? value : NULL;
}

/* The first of the names that is set. */
static stoker_status take_first(const struct environment *environment, const char *const *names, const char **out,
                                stoker_error *err)
{
    const char *value = NULL;
    for (; *names && !value; names++) value = lookup(environment, *names);
    return take_copy(value, out, err);
}

static stoker_status take_ms(const struct environment *environment, const char *name, uint64_t *out_ns,
                             stoker_error *err)
{
    const char *text = lookup(environment, name);
    if (!text) return STOKER_OK;
    char *end;
    unsigned long long value = strtoull(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || value == 0 || value > 1000u * 86400u)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "%s is '%.32s'; expected milliseconds, 1 to 86400000", name,
                        text);
    *out_ns = value * 1000000u;
    return STOKER_OK;
}

static stoker_status read_profile(const char *path, const char *name, bool config, struct stk_profile *profile,
                                  stoker_error *err)
{
    struct stk_file file;
    stoker_error fault = {0};
    stoker_status status = stk_file_open(path, &file, &fault);
    /* No file, or /dev/null where containers want none: nothing is said there. */
    if (status == STOKER_ERR_NOT_FOUND || status == STOKER_ERR_UNSUPPORTED) return STOKER_OK;
    if (status < 0) {
        if (err) *err = fault;
        return status;
    }
    char *text = NULL;
    size_t got = 0;
    if (file.size > STK_PROFILE_BYTES_MAX)
        status = stk_fail(err, STOKER_ERR_LIMIT, "'%s' has %llu bytes; at most %u are read", path,
                          (unsigned long long)file.size, STK_PROFILE_BYTES_MAX);
    else if (!(text = malloc((size_t)file.size + 1)))
        status = stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for '%s'", path);
    if (status >= 0) status = stk_file_read(&file, 0, text, (size_t)file.size, &got, err);
    if (status >= 0) status = stk_profile_parse(profile, text, got, name, config, err);
    if (status < 0) stk_error_context(err, "%s", path);
    if (text) stk_wipe(text, got);
    free(text);
    stk_file_close(&file);
    return status;
}

static stoker_status read_profiles(const struct environment *environment, struct stk_profile *profile,
                                   stoker_error *err)
{
    static const char *const variables[] = {"AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE"};
    static const char *const names[] = {"credentials", "config"};
    char path[STK_TEXT_BYTES_MAX], chosen[256] = "default";
    const char *value = lookup(environment, "AWS_PROFILE");
    bool explicit_name = value != NULL;
    if (value && snprintf(chosen, sizeof chosen, "%s", value) >= (int)sizeof chosen)
        return stk_fail(err, STOKER_ERR_LIMIT, "AWS_PROFILE is too long");
    for (int i = 0; i < 2; i++) {
        int size = 0;
        path[0] = 0;
        if ((value = lookup(environment, variables[i])))
            size = snprintf(path, sizeof path, "%s", value);
        else if ((value = lookup(environment, "HOME")))
            size = snprintf(path, sizeof path, "%s/.aws/%s", value, names[i]);
        if (size >= (int)sizeof path) return stk_fail(err, STOKER_ERR_LIMIT, "%s is too long", variables[i]);
        if (path[0]) STK_TRY(read_profile(path, chosen, i == 1, profile, err));
    }
    if (!explicit_name) return STOKER_OK;
    if (!profile->found)
        return stk_fail(err, STOKER_ERR_NOT_FOUND, "AWS_PROFILE is '%s', which no file of profiles has", chosen);
    if (profile->elsewhere && !profile->access_key_id)
        return stk_fail(err, STOKER_ERR_UNSUPPORTED,
                        "the keys of profile '%s' come from a service, which stoker does not ask: export them, for "
                        "example by 'aws configure export-credentials --format env'",
                        chosen);
    return STOKER_OK;
}

static stoker_status fill(const struct environment *environment, stoker_object_options *out, stoker_error *err)
{
    static const char *const id[] = {"AWS_ACCESS_KEY_ID", NULL}, *const secret[] = {"AWS_SECRET_ACCESS_KEY", NULL};
    static const char *const token[] = {"AWS_SESSION_TOKEN", NULL};
    static const char *const region[] = {"AWS_REGION", "AWS_DEFAULT_REGION", NULL};
    static const char *const endpoint[] = {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", NULL};
    static const char *const bundle[] = {"AWS_CA_BUNDLE", "SSL_CERT_FILE", NULL};
    /* HTTP_PROXY in capitals is left out, as curl does: a web server's child gets it from any client's header. */
    static const char *const http_proxy[] = {"http_proxy", "all_proxy", "ALL_PROXY", NULL};
    static const char *const https_proxy[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY", NULL};
    static const char *const no_proxy[] = {"no_proxy", "NO_PROXY", NULL};
    STK_TRY(take_first(environment, id, &out->access_key_id, err));
    STK_TRY(take_first(environment, secret, &out->secret_access_key, err));
    if (out->access_key_id || out->secret_access_key) STK_TRY(take_first(environment, token, &out->session_token, err));
    STK_TRY(take_first(environment, region, &out->region, err));
    STK_TRY(take_first(environment, endpoint, &out->endpoint, err));
    STK_TRY(take_first(environment, bundle, &out->ca_bundle, err));
    STK_TRY(take_first(environment, http_proxy, &out->http_proxy, err));
    STK_TRY(take_first(environment, https_proxy, &out->https_proxy, err));
    STK_TRY(take_first(environment, no_proxy, &out->no_proxy, err));
    STK_TRY(take_ms(environment, "STOKER_OBJECT_CONNECT_TIMEOUT_MS", &out->connect_timeout_ns, err));
    return take_ms(environment, "STOKER_OBJECT_STALL_TIMEOUT_MS", &out->stall_timeout_ns, err);
}

/* What the environment lacks; keys come from one place, never half from each. */
static void fill_from_profile(struct stk_profile *profile, stoker_object_options *out)
{
    struct {
        char **from;
        const char **to;
    } moves[6];
    size_t count = 0;
    if (!out->access_key_id && !out->secret_access_key) {
        moves[count].from = &profile->access_key_id, moves[count++].to = &out->access_key_id;
        moves[count].from = &profile->secret_access_key, moves[count++].to = &out->secret_access_key;
        moves[count].from = &profile->session_token, moves[count++].to = &out->session_token;
    }
    moves[count].from = &profile->region, moves[count++].to = &out->region;
    moves[count].from = &profile->endpoint, moves[count++].to = &out->endpoint;
    moves[count].from = &profile->ca_bundle, moves[count++].to = &out->ca_bundle;
    for (size_t i = 0; i < count; i++) {
        if (*moves[i].to) continue;
        *moves[i].to = *moves[i].from;
        *moves[i].from = NULL;
    }
    if (profile->addressing)
        out->path_style = strcmp(profile->addressing, "path") == 0      ? 1
                          : strcmp(profile->addressing, "virtual") == 0 ? -1
                                                                        : 0;
}

stoker_status stoker_object_settings_create(stoker_environment_fn get, void *user,
                                            stoker_object_settings **out_settings, stoker_error *err)
{
    struct environment environment = {get, user};
    struct stk_profile profile = {0};
    stoker_object_settings *made = calloc(1, sizeof *made);
    if (!made) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for options");
    made->options.struct_size = sizeof made->options;
    stoker_status status = fill(&environment, &made->options, err);
    if (status >= 0) status = read_profiles(&environment, &profile, err);
    if (status >= 0) {
        fill_from_profile(&profile, &made->options);
        status = stk_object_settings_copy(&made->options, out_settings, err);
    }
    stk_profile_fini(&profile);
    stoker_object_settings_destroy(made);
    return status;
}
