/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of credentials and profiles: see profile.h. Indented lines belong to the setting above them; of those, only
 * "addressing_style" under "s3" matters here.
 */
#include "store/profile.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"
#include "base/limits.h"
#include "store/sigv4.h"

struct span {
    const char *at;
    size_t size;
};

static struct span trimmed(struct span text)
{
    while (text.size > 0 && (text.at[0] == ' ' || text.at[0] == '\t')) text.at++, text.size--;
    while (text.size > 0 && strchr(" \t\r", text.at[text.size - 1])) text.size--;
    return text;
}

static bool is(struct span text, const char *expected)
{
    return text.size == strlen(expected) && strncasecmp(text.at, expected, text.size) == 0;
}

/* "[name]", "[profile name]": is it the section that is looked for? */
static bool is_section(struct span line, const char *name, bool config)
{
    static const char prefix[] = "profile";
    struct span title = trimmed((struct span){line.at + 1, line.size - 2});
    const size_t skip = sizeof prefix - 1;
    if (config && title.size > skip && strncmp(title.at, prefix, skip) == 0 &&
        (title.at[skip] == ' ' || title.at[skip] == '\t'))
        title = trimmed((struct span){title.at + skip, title.size - skip});
    else if (config && strcmp(name, "default") != 0)
        return false;
    return title.size == strlen(name) && memcmp(title.at, name, title.size) == 0;
}

static stoker_status keep(char **slot, struct span value, size_t number, stoker_error *err)
{
    if (*slot || value.size == 0) return STOKER_OK;
    if (value.size > STK_TEXT_BYTES_MAX)
        return stk_fail(err, STOKER_ERR_LIMIT, "line %zu has a value of %zu bytes; at most %u are allowed", number,
                        value.size, STK_TEXT_BYTES_MAX);
    char *copy = malloc(value.size + 1);
    if (!copy) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for a profile");
    memcpy(copy, value.at, value.size);
    copy[value.size] = 0;
    *slot = copy;
    return STOKER_OK;
}

static stoker_status take(struct stk_profile *profile, struct span key, struct span value, size_t number,
                          stoker_error *err)
{
    static const char *const services[] = {"sso_session", "sso_start_url", "role_arn", "credential_process",
                                           "web_identity_token_file"};
    for (size_t i = 0; i < sizeof services / sizeof services[0]; i++)
        if (is(key, services[i])) profile->elsewhere = true;
    if (is(key, "aws_access_key_id")) return keep(&profile->access_key_id, value, number, err);
    if (is(key, "aws_secret_access_key")) return keep(&profile->secret_access_key, value, number, err);
    if (is(key, "aws_session_token")) return keep(&profile->session_token, value, number, err);
    if (is(key, "region")) return keep(&profile->region, value, number, err);
    if (is(key, "endpoint_url")) return keep(&profile->endpoint, value, number, err);
    if (is(key, "ca_bundle")) return keep(&profile->ca_bundle, value, number, err);
    return STOKER_OK;
}

stoker_status stk_profile_parse(struct stk_profile *profile, const char *text, size_t size, const char *name,
                                bool config, stoker_error *err)
{
    const char *end = text + size;
    bool inside = false, under_s3 = false;
    size_t number = 0;
    for (const char *at = text; at < end;) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        struct span line = {at, (size_t)((stop ? stop : end) - at)};
        bool indented = line.size > 0 && (line.at[0] == ' ' || line.at[0] == '\t');
        at = stop ? stop + 1 : end;
        number++;
        if (memchr(line.at, 0, line.size))
            return stk_fail(err, STOKER_ERR_CORRUPT, "line %zu holds a zero byte", number);
        line = trimmed(line);
        if (line.size == 0 || line.at[0] == '#' || line.at[0] == ';') continue;
        if (line.at[0] == '[' && !indented) {
            if (line.size < 2 || line.at[line.size - 1] != ']')
                return stk_fail(err, STOKER_ERR_CORRUPT, "line %zu begins a section and does not end with ']'", number);
            inside = is_section(line, name, config);
            under_s3 = false;
            profile->found = profile->found || inside;
            continue;
        }
        const char *equals = memchr(line.at, '=', line.size);
        if (!equals && !indented)
            return stk_fail(err, STOKER_ERR_CORRUPT, "line %zu is neither a section nor 'name = value'", number);
        if (!inside || !equals) continue;
        struct span key = trimmed((struct span){line.at, (size_t)(equals - line.at)});
        struct span value = trimmed((struct span){equals + 1, (size_t)(line.at + line.size - equals - 1)});
        if (!indented) {
            under_s3 = is(key, "s3");
            STK_TRY(take(profile, key, value, number, err));
        } else if (under_s3 && is(key, "addressing_style")) {
            STK_TRY(keep(&profile->addressing, value, number, err));
        }
    }
    return STOKER_OK;
}

void stk_secret_free(char *secret)
{
    if (!secret) return;
    stk_wipe(secret, strlen(secret));
    free(secret);
}

void stk_profile_fini(struct stk_profile *profile)
{
    stk_secret_free(profile->access_key_id);
    stk_secret_free(profile->secret_access_key);
    stk_secret_free(profile->session_token);
    free(profile->region);
    free(profile->endpoint);
    free(profile->ca_bundle);
    free(profile->addressing);
    *profile = (struct stk_profile){0};
}
