/* SPDX-License-Identifier: Apache-2.0
 *
 * The files ~/.aws/credentials and ~/.aws/config: sections of "name = value". Messages name lines and settings, never
 * values.
 */
#ifndef STK_STORE_PROFILE_H
#define STK_STORE_PROFILE_H

#include <stdbool.h>
#include <stddef.h>

#include <stoker/error.h>

/* What stoker takes of a profile; NULL where a file does not say it. */
struct stk_profile {
    char *access_key_id, *secret_access_key, *session_token;
    char *region, *endpoint, *ca_bundle, *addressing;
    bool found;     /* the profile has a section */
    bool elsewhere; /* its keys come from a service (single sign-on, a role, a program), which stoker does not ask */
};

/* Fills what *profile lacks from the section of `name`: [name] or, in the config file, [profile name] ([default] in
 * both). CORRUPT: a line that is no setting. NO_MEMORY, LIMIT. On failure *profile holds what was filled so far. */
stoker_status stk_profile_parse(struct stk_profile *profile, const char *text, size_t size, const char *name,
                                bool config, stoker_error *err);
void stk_profile_fini(struct stk_profile *profile);

/* Overwrites a secret and frees it; NULL allowed. */
void stk_secret_free(char *secret);

#endif
