/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of credentials: sections, indented settings, faults that name the line and not what stands there.
 */
#include "store/profile.h"

#include "tests/support/unit.h"

static const char credentials[] = "# keys\n[default]\naws_access_key_id = AKID\r\nAWS_SECRET_ACCESS_KEY=se=cret\n\n"
                                  "[ other ]\naws_access_key_id=OTHER\naws_secret_access_key = x\n"
                                  "aws_session_token = tok\nregion =\n";
static const char config[] = "[default]\nregion = eu-west-1\nunknown = 1\n; note\n"
                             "[profile other]\nregion = us-west-2\ns3 =\n  max_queue_size = 5\n"
                             "  addressing_style = path\nendpoint_url = http://h\n  addressing_style = virtual\n"
                             "[profile sso]\nsso_session = corp\n[profilex]\nregion = none\n";

static struct stk_profile parse(const char *name)
{
    struct stk_profile profile = {0};
    assert_int_equal(stk_profile_parse(&profile, credentials, sizeof credentials - 1, name, false, NULL), STOKER_OK);
    assert_int_equal(stk_profile_parse(&profile, config, sizeof config - 1, name, true, NULL), STOKER_OK);
    return profile;
}

static void test_profile_reads_both_files(void **state)
{
    (void)state;
    struct stk_profile profile = parse("default");
    assert_true(profile.found);
    assert_string_equal(profile.access_key_id, "AKID");
    assert_string_equal(profile.secret_access_key, "se=cret");
    assert_null(profile.session_token);
    assert_string_equal(profile.region, "eu-west-1");
    assert_null(profile.endpoint);
    assert_false(profile.elsewhere);
    stk_profile_fini(&profile);

    profile = parse("other");
    assert_string_equal(profile.access_key_id, "OTHER");
    assert_string_equal(profile.session_token, "tok");
    assert_string_equal(profile.region, "us-west-2");
    assert_string_equal(profile.endpoint, "http://h");
    assert_string_equal(profile.addressing, "path"); /* the second is not under s3 */
    stk_profile_fini(&profile);

    profile = parse("sso");
    assert_true(profile.found);
    assert_true(profile.elsewhere);
    assert_null(profile.access_key_id);
    stk_profile_fini(&profile);

    profile = parse("x");
    assert_false(profile.found);
    stk_profile_fini(&profile);
}

static void expect_fault(const char *text, size_t size, stoker_status status, const char *says)
{
    struct stk_profile profile = {0};
    stoker_error err = {0};
    assert_int_equal(stk_profile_parse(&profile, text, size, "default", false, &err), status);
    assert_non_null(strstr(err.message, says));
    assert_null(strstr(err.message, "secret"));
    stk_profile_fini(&profile);
}

static void test_profile_names_the_bad_line(void **state)
{
    (void)state;
    expect_fault("[default]\nsecret value\n", 23, STOKER_ERR_CORRUPT, "line 2 is neither");
    expect_fault("\n\n[default\n", 11, STOKER_ERR_CORRUPT, "line 3 begins a section");
    expect_fault("[", 1, STOKER_ERR_CORRUPT, "line 1 begins a section");
    expect_fault("[default]\na=b\0secret\n", 21, STOKER_ERR_CORRUPT, "line 2 holds a zero byte");
    static char much[6000] = "[default]\nregion=";
    memset(much + 17, 'a', sizeof much - 17);
    expect_fault(much, sizeof much, STOKER_ERR_LIMIT, "line 2 has a value of");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_profile_reads_both_files),
        cmocka_unit_test(test_profile_names_the_bad_line),
    };
    return stk_run_tests(tests);
}
