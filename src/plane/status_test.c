/* SPDX-License-Identifier: Apache-2.0
 *
 * The status of a real DataServer: that it is JSON, whatever a rank called its loader, and that it says what is there.
 */
#include "tests/support/unit.h"

#include <string.h>

#include "tests/support/plane_session.h"

/* Past one JSON value, or NULL: enough of a parser to tell JSON from what is none. */
static const char *past_value(const char *at, int depth);

static const char *past_blank(const char *at)
{
    while (*at == ' ' || *at == '\n') at++;
    return at;
}

static const char *past_string(const char *at)
{
    if (*at++ != '"') return NULL;
    for (; *at != '"'; at++) {
        if ((unsigned char)*at < 0x20 || (unsigned char)*at >= 0x7f) return NULL;
        if (*at == '\\' && (*++at != 'u' || strspn(at + 1, "0123456789abcdef") < 4)) return NULL;
    }
    return at + 1;
}

static const char *past_members(const char *at, char end, int depth)
{
    at = past_blank(at + 1);
    if (*at == end) return at + 1;
    for (;;) {
        if (end == '}') {
            at = past_string(past_blank(at));
            if (!at || *(at = past_blank(at)) != ':') return NULL;
            at++;
        }
        at = past_value(past_blank(at), depth + 1);
        if (!at) return NULL;
        at = past_blank(at);
        if (*at == end) return at + 1;
        if (*at++ != ',') return NULL;
    }
}

static const char *past_value(const char *at, int depth)
{
    if (depth > 16) return NULL;
    if (*at == '{') return past_members(at, '}', depth);
    if (*at == '[') return past_members(at, ']', depth);
    if (*at == '"') return past_string(at);
    if (strncmp(at, "null", 4) == 0 || strncmp(at, "true", 4) == 0) return at + 4;
    if (strncmp(at, "false", 5) == 0) return at + 5;
    size_t digits = strspn(at, "-0123456789.");
    return digits ? at + digits : NULL;
}

static void expect_json(const char *text)
{
    const char *end = past_value(text, 0);
    if (!end || *end) fail_msg("no JSON: %s", text);
}

static void test_status_is_json_in_every_state(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    struct plane_batch batch;
    stoker_source *source = plane_process_source();
    plane_start(&server);
    plane_join(&server, &rank, 0, 1);
    expect_json(plane_status(&rank));
    struct plane_loader options = session_python;
    options.name = "a \"name\" with\n\\ everything \x7f\xff";
    plane_open(&rank, source, &options);
    plane_expect(&rank, STK_MESSAGE_LOADER_OPENED);
    plane_begin(&rank, 1, 1);
    plane_request(&rank, 1, 1, 0, "fill 5000 1");
    plane_take(&rank, 0, &batch);
    plane_request(&rank, 1, 1, 1, "hang");
    (void)plane_wait_worker(&rank, "busy", 0);
    const char *text = plane_status(&rank);
    expect_json(text);
    assert_non_null(strstr(text, "\"schema\": \"stoker.status/1\""));
    assert_non_null(strstr(text, "a \\u0022name\\u0022 with\\u000a"));
    assert_non_null(strstr(text, "\"engine\": {\"policy\": \"deadline\""));
    assert_int_equal(plane_number(text, "placed"), 2);
    assert_int_equal(plane_number(text, "only"), 2);
    assert_non_null(strstr(text, "\"deadline_s\": "));
    assert_non_null(strstr(text, "\"placement\": {\"reason\": \"only\""));
    assert_int_equal(plane_number(text, "slabs_held"), 1);
    assert_int_equal(plane_number(text, "in_flight"), 1);
    assert_int_equal(plane_number(text, "batches"), 1);
    assert_true(plane_number(text, "pinned_bytes") > 0);
    struct stk_message_loader_ref ref = {1, 0};
    PLANE_SEND(&rank, STK_MESSAGE_LOADER_CLOSE, loader_ref, &ref);
    expect_json(plane_status(&rank)); /* closing, with a quarantined slab that this rank views */
    assert_non_null(strstr(plane_status(&rank), "\"holder\": {\"kind\": \"rank\", \"rank\": 0"));
    plane_release(&rank, &batch);
    stoker_source_close(source);
    session_end(&server, &rank);
}

/* Asked in the same breath as the loader is opened and closed: the engine has not heard of it yet. */
static void test_status_knows_a_loader_before_the_engine_does(void **state)
{
    (void)state;
    struct plane_server server;
    struct plane_rank rank;
    stoker_source *source = session_media_source();
    struct stk_message_status query = {.token = 7};
    plane_start(&server);
    plane_join(&server, &rank, 0, 1);
    for (uint32_t id = 1; id <= 20; id++) {
        struct plane_loader options = session_native;
        struct stk_message_loader_ref ref = {id, 0};
        options.loader_id = id;
        plane_open(&rank, source, &options);
        PLANE_SEND(&rank, STK_MESSAGE_STATUS_QUERY, status, &query);
        PLANE_SEND(&rank, STK_MESSAGE_LOADER_CLOSE, loader_ref, &ref);
        PLANE_SEND(&rank, STK_MESSAGE_STATUS_QUERY, status, &query);
        plane_expect(&rank, STK_MESSAGE_LOADER_OPENED);
        plane_expect(&rank, STK_MESSAGE_STATUS);
        plane_expect(&rank, STK_MESSAGE_STATUS);
    }
    stoker_source_close(source);
    session_end(&server, &rank);
}

int main(int argc, char **argv)
{
    plane_play(argc, argv);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_is_json_in_every_state),
        cmocka_unit_test(test_status_knows_a_loader_before_the_engine_does),
    };
    return stk_run_tests(tests);
}
