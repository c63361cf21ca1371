/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing a client, its status call and its log, against a DataServer played by the test.
 */
#include "tests/support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/limits.h"
#include "sys/clock.h"
#include "sys/thread.h"
#include "tests/support/fake_dataserver.h"

#define LONG_NS (20 * STK_SECOND_NS)

static void test_registers_as_a_rank(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_error error;
    int bye;
    fake_start(&fake);
    stoker_client_options options = fake_options(&fake);
    options.rank = 3;
    options.world_size = 8;
    options.local_rank = 1;
    options.local_world_size = 2;
    assert_int_equal(fake_greet(&fake, &options, &fake.client, &error), STOKER_OK);
    assert_int_equal(fake.rank, 3);
    assert_int_equal(fake.world_size, 8);
    assert_int_equal(fake.pid, getpid());
    assert_int_equal(stoker_client_server_pid(fake.client), FAKE_SERVER_PID);
    stoker_client_close(fake.client);
    fake_expect_end(&fake, &bye);
    assert_true(bye);
    stoker_client_close(NULL);
    fake_stop(&fake);
}

static void test_refusal_and_version_are_mismatch(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_error error;
    stoker_client *client = NULL;
    fake_start(&fake);
    stoker_client_options options = fake_options(&fake);
    fake.verdict = STOKER_ERR_MISMATCH;
    fake.verdict_text = "key ab of the rank is not key cd of the server";
    assert_int_equal(fake_greet(&fake, &options, &client, &error), STOKER_ERR_MISMATCH);
    assert_string_equal(error.message, fake.verdict_text);
    stk_channel_destroy(fake.channel);
    fake.channel = NULL;
    fake.verdict = STOKER_OK;
    fake.version = "9.9.9";
    assert_int_equal(fake_greet(&fake, &options, &client, &error), STOKER_ERR_MISMATCH);
    assert_non_null(strstr(error.message, "9.9.9"));
    assert_non_null(strstr(error.message, "0."));
    assert_null(client);
    fake_stop(&fake);
}

static void test_open_has_a_limit(void **state)
{
    (void)state;
    struct fake_server fake;
    stoker_error error;
    stoker_client *client = NULL;
    char name[STK_NAME_BYTES];
    fake_start(&fake);
    stoker_client_options options = fake_options(&fake);
    options.connect_timeout_ns = 20000000;
    /* Somebody listens and never answers. */
    assert_int_equal(stoker_client_open(&options, &client, &error), STOKER_ERR_TIMEOUT);
    stk_discover_name(fake.key, name);
    assert_non_null(strstr(error.message, name));
    fake_stop(&fake);
    /* Nobody listens, and nothing is to be started. */
    assert_int_equal(stoker_client_open(&options, &client, &error), STOKER_ERR_TIMEOUT);
    assert_non_null(strstr(error.message, name));
    assert_null(client);
}

static void test_open_checks_its_options(void **state)
{
    (void)state;
    stoker_error error;
    stoker_client *client = NULL;
    stoker_client_options options = STOKER_CLIENT_OPTIONS_INIT;
    options.rank = 2;
    options.world_size = 2;
    assert_int_equal(stoker_client_open(&options, &client, &error), STOKER_ERR_INVALID_ARGUMENT);
    options.rank = 0;
    options.local_rank = 1;
    assert_int_equal(stoker_client_open(&options, &client, &error), STOKER_ERR_INVALID_ARGUMENT);
    options.local_world_size = STK_RANKS_MAX + 1;
    assert_int_equal(stoker_client_open(&options, &client, &error), STOKER_ERR_INVALID_ARGUMENT);
    options.struct_size = 0;
    assert_int_equal(stoker_client_open(&options, &client, &error), STOKER_ERR_INVALID_ARGUMENT);
    assert_int_equal(stoker_client_open(NULL, &client, &error), STOKER_ERR_INVALID_ARGUMENT);
    assert_null(client);
}

static void test_open_names_a_program_that_cannot_start(void **state)
{
    (void)state;
    stoker_error error;
    stoker_client *client = NULL;
    stoker_client_options options = STOKER_CLIENT_OPTIONS_INIT;
    options.program = "/nonexistent/stoker";
    options.connect_timeout_ns = 2 * STK_SECOND_NS;
    assert_true(stoker_client_open(&options, &client, &error) < 0);
    assert_non_null(strstr(error.message, "/nonexistent/stoker"));
    options.program = "/bin/false"; /* starts, and ends before it answers */
    assert_true(stoker_client_open(&options, &client, &error) < 0);
    assert_non_null(strstr(error.message, "/bin/false"));
    assert_null(client);
}

struct answerer {
    struct fake_server *fake;
    uint64_t wrong_token;
};

static void answer_status(void *argument)
{
    struct answerer *answerer = argument;
    struct stk_incoming incoming;
    struct stk_message_status query;
    struct stk_channel *channel = answerer->fake->channel;
    if (stk_channel_receive_wait(channel, stk_clock_now_ns() + LONG_NS, &incoming, NULL) != STOKER_OK) abort();
    if (incoming.frame.type != STK_MESSAGE_STATUS_QUERY) abort();
    if (stk_status_decode(incoming.body, &query, NULL) != STOKER_OK) abort();
    static const char json[] = "{\"loaders\": []}";
    stoker_status status;
    struct stk_message_status stale = {.token = query.token + 17, .text = {"{}", 2}};
    STK_CHANNEL_SEND(status, channel, STK_MESSAGE_STATUS, status, &stale, NULL, 0, NULL);
    struct stk_message_status answer = {.token = query.token, .text = {json, sizeof json - 1}};
    STK_CHANNEL_SEND(status, channel, STK_MESSAGE_STATUS, status, &answer, NULL, 0, NULL);
    if (status < 0) abort();
}

static void test_status_is_the_servers_text(void **state)
{
    (void)state;
    struct fake_server fake;
    struct stk_thread *thread;
    stoker_error error;
    char *json = NULL;
    fake_start(&fake);
    fake_open_client(&fake);
    struct answerer answerer = {&fake, 0};
    assert_int_equal(stk_thread_start("answerer", answer_status, &answerer, &thread, NULL), STOKER_OK);
    assert_int_equal(stoker_client_status(fake.client, LONG_NS, &json, &error), STOKER_OK);
    stk_thread_join(thread);
    assert_string_equal(json, "{\"loaders\": []}");
    stoker_text_free(json);
    json = NULL;
    assert_int_equal(stoker_client_status(fake.client, 1000000, &json, &error), STOKER_ERR_TIMEOUT);
    assert_non_null(strstr(error.message, "pid 4242"));
    assert_null(json);
    stoker_text_free(NULL);
    stoker_client_close(fake.client);
    fake_stop(&fake);
}

struct seen {
    int count;
    stoker_log_level level;
    char text[256];
};

static void log_seen(void *user, stoker_log_level level, const char *id, const char *text)
{
    struct seen *seen = user;
    seen->count++;
    seen->level = level;
    (void)snprintf(seen->text, sizeof seen->text, "%s: %s", id, text);
}

static void test_notices_reach_the_log(void **state)
{
    (void)state;
    struct fake_server fake;
    struct seen seen = {0};
    stoker_error error;
    fake_start(&fake);
    stoker_client_options options = fake_options(&fake);
    options.log_fn = log_seen;
    options.log_user = &seen;
    options.log_level = STOKER_LOG_WARN;
    assert_int_equal(fake_greet(&fake, &options, &fake.client, &error), STOKER_OK);
    fake_notice(&fake, STOKER_LOG_WARN, "worker_replaced", "worker 3 (pid 77) was killed by signal 9");
    fake_notice(&fake, STOKER_LOG_INFO, "quiet", "not wanted");
    fake_flush(&fake);
    /* An answered question behind the notices says that they were read. */
    struct stk_thread *thread;
    struct answerer answerer = {&fake, 0};
    char *json = NULL;
    assert_int_equal(stk_thread_start("answerer", answer_status, &answerer, &thread, NULL), STOKER_OK);
    assert_int_equal(stoker_client_status(fake.client, LONG_NS, &json, &error), STOKER_OK);
    stk_thread_join(thread);
    stoker_text_free(json);
    stoker_client_close(fake.client);
    assert_int_equal(seen.count, 1);
    assert_int_equal(seen.level, STOKER_LOG_WARN);
    assert_string_equal(seen.text, "worker_replaced: worker 3 (pid 77) was killed by signal 9");
    fake_stop(&fake);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_registers_as_a_rank),
        cmocka_unit_test(test_refusal_and_version_are_mismatch),
        cmocka_unit_test(test_open_has_a_limit),
        cmocka_unit_test(test_open_checks_its_options),
        cmocka_unit_test(test_open_names_a_program_that_cannot_start),
        cmocka_unit_test(test_status_is_the_servers_text),
        cmocka_unit_test(test_notices_reach_the_log),
    };
    return stk_run_tests(tests);
}
