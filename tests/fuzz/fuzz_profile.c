/* SPDX-License-Identifier: Apache-2.0
 *
 * Fuzz target for files of credentials and profiles, read in both ways.
 */
#include <string.h>

#include "store/profile.h"
#include "tests/fuzz/fuzz.h"

static void check_value(const char *value) { STK_FUZZ_CHECK(!value || (value[0] && !strchr(value, '\n'))); }

static int parse(const uint8_t *data, size_t size, bool config)
{
    struct stk_profile profile = {0};
    stoker_error err = {0};
    stoker_status status = stk_profile_parse(&profile, (const char *)data, size, "default", config, &err);
    const char *values[] = {profile.access_key_id, profile.secret_access_key, profile.session_token, profile.region,
                            profile.endpoint,      profile.ca_bundle,         profile.addressing};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        check_value(values[i]);
        STK_FUZZ_CHECK(!values[i] || profile.found);
    }
    STK_FUZZ_CHECK((status < 0) == (err.message[0] != 0));
    STK_FUZZ_CHECK(status >= 0 || strncmp(err.message, "line ", 5) == 0); /* where, and nothing of what stands there */
    stk_profile_fini(&profile);
    return status >= 0;
}

int stk_fuzz_one(const uint8_t *data, size_t size)
{
    int accepted = parse(data, size, false);
    STK_FUZZ_CHECK(parse(data, size, true) == accepted || size > 4096); /* sections differ, lines do not */
    return accepted;
}
