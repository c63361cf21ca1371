/* SPDX-License-Identifier: Apache-2.0
 *
 * Options of object storage: copies, and what an environment and its files say.
 */
#include "store/settings.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/limits.h"
#include "tests/support/allocations.h"
#include "tests/support/unit.h"

static char folder[64];

static void write_file(const char *name, const char *text)
{
    char path[128];
    (void)snprintf(path, sizeof path, "%s/.aws/%s", folder, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    assert_true(fputs(text, out) >= 0);
    assert_int_equal(fclose(out), 0);
}

static int make_folder(void **state)
{
    (void)state;
    char path[128];
    (void)snprintf(folder, sizeof folder, "/tmp/stoker-settings-XXXXXX");
    if (!mkdtemp(folder)) return -1;
    (void)snprintf(path, sizeof path, "%s/.aws", folder);
    if (mkdir(path, 0700) != 0) return -1;
    write_file("credentials", "[default]\naws_access_key_id=FILE\naws_secret_access_key=filesecret\n"
                              "aws_session_token=filetoken\n[half]\naws_access_key_id=HALF\n");
    write_file("config", "[default]\nregion=eu-west-1\n[profile other]\nendpoint_url=http://h\ns3=\n"
                         "  addressing_style=virtual\n[profile sso]\nsso_session=corp\n");
    write_file("broken", "[default]\nfilesecret\n");
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"credentials", "config", "broken", ""};
    char path[128];
    for (size_t i = 0; i < 4; i++) {
        (void)snprintf(path, sizeof path, "%s/.aws/%s", folder, names[i]);
        if ((*names[i] ? unlink(path) : rmdir(path)) != 0) return -1;
    }
    return rmdir(folder);
}

/* "NAME=value" entries, ended by NULL, as an environment. */
static const char *from_list(void *user, const char *name)
{
    const char *const *list = user;
    size_t size = strlen(name);
    for (; *list; list++)
        if (strncmp(*list, name, size) == 0 && (*list)[size] == '=') return *list + size + 1;
    return NULL;
}

static stoker_object_settings *create(const char *const *list)
{
    stoker_object_settings *settings = NULL;
    stoker_error err = {0};
    assert_int_equal(stoker_object_settings_create(from_list, (void *)(uintptr_t)list, &settings, &err), STOKER_OK);
    return settings;
}

static void test_settings_of_variables(void **state)
{
    (void)state;
    const char *const list[] = {"AWS_ACCESS_KEY_ID=ID",
                                "AWS_SECRET_ACCESS_KEY=s",
                                "AWS_SESSION_TOKEN=t",
                                "AWS_DEFAULT_REGION=b",
                                "AWS_REGION=a",
                                "AWS_ENDPOINT_URL=http://e",
                                "AWS_ENDPOINT_URL_S3=http://s3",
                                "AWS_CA_BUNDLE=/ca",
                                "SSL_CERT_FILE=/other",
                                "HTTP_PROXY=http://evil",
                                "HTTPS_PROXY=http://p",
                                "NO_PROXY=localhost",
                                "STOKER_OBJECT_CONNECT_TIMEOUT_MS=1500",
                                "STOKER_OBJECT_STALL_TIMEOUT_MS=2000",
                                NULL};
    stoker_object_settings *settings = create(list);
    const stoker_object_options *options = stoker_object_settings_options(settings);
    assert_string_equal(options->access_key_id, "ID");
    assert_string_equal(options->secret_access_key, "s");
    assert_string_equal(options->session_token, "t");
    assert_string_equal(options->region, "a");
    assert_string_equal(options->endpoint, "http://s3");
    assert_string_equal(options->ca_bundle, "/ca");
    assert_null(options->http_proxy);
    assert_string_equal(options->https_proxy, "http://p");
    assert_string_equal(options->no_proxy, "localhost");
    assert_true(options->connect_timeout_ns == UINT64_C(1500000000));
    assert_true(options->stall_timeout_ns == UINT64_C(2000000000));
    stoker_object_settings_destroy(settings);

    const char *const none[] = {"AWS_ACCESS_KEY_ID=", NULL};
    settings = create(none);
    options = stoker_object_settings_options(settings);
    assert_null(options->access_key_id);
    assert_null(options->region);
    assert_true(options->connect_timeout_ns == STK_CONNECT_TIMEOUT_NS);
    assert_int_equal(options->retries, STK_OBJECT_RETRIES);
    stoker_object_settings_destroy(settings);
    stoker_object_settings_destroy(NULL);
}

static void test_settings_of_files(void **state)
{
    (void)state;
    char home[96];
    (void)snprintf(home, sizeof home, "HOME=%s", folder);
    const char *const files[] = {home, NULL};
    stoker_object_settings *settings = create(files);
    const stoker_object_options *options = stoker_object_settings_options(settings);
    assert_string_equal(options->access_key_id, "FILE");
    assert_string_equal(options->session_token, "filetoken");
    assert_string_equal(options->region, "eu-west-1");
    assert_int_equal(options->path_style, 0);
    stoker_object_settings_destroy(settings);

    const char *const keys[] = {home, "AWS_ACCESS_KEY_ID=ID", "AWS_SECRET_ACCESS_KEY=s", NULL};
    settings = create(keys); /* the token of the file does not belong to these keys */
    options = stoker_object_settings_options(settings);
    assert_string_equal(options->access_key_id, "ID");
    assert_null(options->session_token);
    assert_string_equal(options->region, "eu-west-1");
    stoker_object_settings_destroy(settings);

    const char *const other[] = {home, "AWS_PROFILE=other", NULL};
    settings = create(other);
    options = stoker_object_settings_options(settings);
    assert_null(options->access_key_id);
    assert_string_equal(options->endpoint, "http://h");
    assert_int_equal(options->path_style, -1);
    stoker_object_settings_destroy(settings);

    const char *const null[] = {home, "AWS_SHARED_CREDENTIALS_FILE=/dev/null", NULL};
    settings = create(null);
    assert_null(stoker_object_settings_options(settings)->access_key_id);
    stoker_object_settings_destroy(settings);
}

static void expect_refused(const char *first, const char *second, stoker_status status, const char *says)
{
    char home[96];
    (void)snprintf(home, sizeof home, "HOME=%s", folder);
    const char *const list[] = {home, first, second, NULL};
    stoker_object_settings *settings = NULL;
    stoker_error err = {0};
    assert_int_equal(stoker_object_settings_create(from_list, (void *)(uintptr_t)list, &settings, &err), status);
    assert_non_null(strstr(err.message, says));
    assert_null(strstr(err.message, "filesecret"));
    assert_null(strstr(err.context, "filesecret"));
    assert_null(settings);
}

static void test_settings_refuse_clearly(void **state)
{
    (void)state;
    char broken[128];
    (void)snprintf(broken, sizeof broken, "AWS_SHARED_CREDENTIALS_FILE=%s/.aws/broken", folder);
    expect_refused("AWS_ACCESS_KEY_ID=ID", NULL, STOKER_ERR_INVALID_ARGUMENT, "no secret access key");
    expect_refused("AWS_SECRET_ACCESS_KEY=filesecret", NULL, STOKER_ERR_INVALID_ARGUMENT, "no access key id");
    expect_refused("AWS_PROFILE=half", NULL, STOKER_ERR_INVALID_ARGUMENT, "no secret access key");
    expect_refused("AWS_PROFILE=absent", NULL, STOKER_ERR_NOT_FOUND, "'absent'");
    expect_refused("AWS_PROFILE=sso", NULL, STOKER_ERR_UNSUPPORTED, "export-credentials");
    expect_refused(broken, NULL, STOKER_ERR_CORRUPT, "line 2 is neither");
    expect_refused("STOKER_OBJECT_STALL_TIMEOUT_MS=1s", NULL, STOKER_ERR_INVALID_ARGUMENT, "milliseconds");
    expect_refused("STOKER_OBJECT_STALL_TIMEOUT_MS=0", NULL, STOKER_ERR_INVALID_ARGUMENT, "milliseconds");
    expect_refused("STOKER_OBJECT_STALL_TIMEOUT_MS=-1", NULL, STOKER_ERR_INVALID_ARGUMENT, "milliseconds");
    expect_refused("AWS_REGION=a\nb", NULL, STOKER_ERR_INVALID_ARGUMENT, "region");
    expect_refused("AWS_ENDPOINT_URL=http://h\r\nX: y", NULL, STOKER_ERR_INVALID_ARGUMENT, "endpoint");
}

static void test_settings_copy_checks_the_version(void **state)
{
    (void)state;
    struct {
        stoker_object_options options;
        uint64_t newer;
    } given = {STOKER_OBJECT_OPTIONS_INIT, 0};
    stoker_object_settings *settings = NULL;
    stoker_error err = {0};
    given.options.struct_size = sizeof given;
    given.options.region = "r";
    assert_int_equal(stk_object_settings_copy(&given.options, &settings, &err), STOKER_OK);
    assert_string_equal(stoker_object_settings_options(settings)->region, "r");
    assert_ptr_not_equal(stoker_object_settings_options(settings)->region, given.options.region);
    stoker_object_settings_destroy(settings);
    settings = NULL;
    given.newer = 1;
    assert_int_equal(stk_object_settings_copy(&given.options, &settings, &err), STOKER_ERR_UNSUPPORTED);
    given.options.struct_size = 0;
    assert_int_equal(stk_object_settings_copy(&given.options, &settings, &err), STOKER_ERR_INVALID_ARGUMENT);
    assert_null(settings);
    given.options.struct_size = sizeof(uint32_t); /* an older caller knows of nothing else */
    assert_int_equal(stk_object_settings_copy(&given.options, &settings, &err), STOKER_OK);
    assert_null(stoker_object_settings_options(settings)->region);
    stoker_object_settings_destroy(settings);
}

static void test_fault_settings_without_memory(void **state)
{
    (void)state;
    char home[96];
    (void)snprintf(home, sizeof home, "HOME=%s", folder);
    const char *const list[] = {home, NULL};
    uint64_t n = 0;
    for (bool failed = true; failed;) {
        stoker_object_settings *settings = NULL;
        stoker_error err = {0};
        allocations_fail(++n);
        stoker_status status = stoker_object_settings_create(from_list, (void *)(uintptr_t)list, &settings, &err);
        failed = allocations_failed();
        allocations_fail(0);
        assert_int_equal(status, failed ? STOKER_ERR_NO_MEMORY : STOKER_OK);
        assert_true(failed == !settings);
        stoker_object_settings_destroy(settings);
    }
    assert_true(n > 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_of_variables),         cmocka_unit_test(test_settings_of_files),
        cmocka_unit_test(test_settings_refuse_clearly),       cmocka_unit_test(test_settings_copy_checks_the_version),
        cmocka_unit_test(test_fault_settings_without_memory),
    };
    cmocka_set_message_output(CM_OUTPUT_TAP);
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
