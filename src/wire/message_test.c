/* SPDX-License-Identifier: Apache-2.0
 *
 * Every message: there and back, cut at each byte, one byte too long, with each byte changed, into buffers that are too
 * small. Bodies are decoded from blocks of their exact size, so that the address sanitizer sees the first byte read
 * past one.
 */
#include "wire/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/unit.h"

#define SPAN(text) ((struct stk_span){(text), sizeof(text) - 1})

static const uint8_t IDS[24] = {17, 0, 0, 0, 0,   0,   0,   0,   3,   1,   0,   0,
                                0,  0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255};
#define KEY "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define DIGEST "0123456789ABCDEF0123456789ABCDEF"
#define REGION ((struct stk_message_region){11, 12, 1u << 22, 65536, 4096, 1})

static struct stk_message_hello valid_hello(void)
{
    return (struct stk_message_hello){SPAN(KEY), SPAN("0.1.0"), 3, 4, 1, 2, 4711, SPAN("\x0f\x01")};
}

static struct stk_message_loader_open valid_loader_open(void)
{
    return (struct stk_message_loader_open){
        1, STK_SOURCE_MEDIA, 2, 3, 4, 1, 5, 6, 7, 8, SPAN("train"), SPAN(DIGEST), 1, 9, 10, SPAN("/q.sqlite"), {IDS, 0},
    };
}

static struct stk_message_loader_ref valid_loader_ref(void) { return (struct stk_message_loader_ref){1, 2}; }

static struct stk_message_request valid_request(void)
{
    return (struct stk_message_request){1, 2, 3, {IDS, sizeof IDS}, {NULL, 0}, {IDS, sizeof IDS}, 0, 4};
}

static struct stk_message_release valid_release(void) { return (struct stk_message_release){{IDS, sizeof IDS}}; }

static struct stk_message_step valid_step(void) { return (struct stk_message_step){1, 2, 3, 4, 5}; }

static struct stk_message_welcome valid_welcome(void) { return (struct stk_message_welcome){4711, SPAN("0.1.0")}; }

static struct stk_message_verdict valid_verdict(void)
{
    return (struct stk_message_verdict){1, STOKER_ERR_LIMIT, SPAN("too much"), SPAN("pickle")};
}

static struct stk_message_ready valid_ready(void)
{
    struct stk_message_ready ready = {1, 2, 3, STK_READY_COPY, 4, 5, 6, REGION, 3840, 100, 2, {{0}}};
    ready.leaves[0] = (struct stk_message_leaf){STOKER_DTYPE_FLOAT32, 3, {2, 3, 5}, 256, 120};
    ready.leaves[1] = (struct stk_message_leaf){STOKER_DTYPE_INT64, 1, {2}, 512, 16};
    return ready;
}

static struct stk_message_failed valid_failed(void)
{
    return (struct stk_message_failed){1, 2, 3, STOKER_ERR_CORRUPT, 1, SPAN("sample 17: a.mp4: cut"), SPAN("pickle")};
}

static struct stk_message_unmap valid_unmap(void) { return (struct stk_message_unmap){UINT64_MAX}; }

static struct stk_message_notice valid_notice(void)
{
    return (struct stk_message_notice){STOKER_LOG_WARN, SPAN("worker_replaced"), SPAN("worker 3 was killed")};
}

static struct stk_message_status valid_status(void) { return (struct stk_message_status){9, SPAN("{}")}; }

static struct stk_message_source valid_source(void) { return (struct stk_message_source){9, STK_SOURCE_PROCESS}; }

static struct stk_message_task valid_task(void)
{
    return (struct stk_message_task){1, STK_TASK_COPY, 2, 3, 4, REGION, REGION, 3, 2, 1, {NULL, 0}, 0, 0, 0};
}

static struct stk_message_need valid_need(void) { return (struct stk_message_need){1, UINT64_MAX}; }

static struct stk_message_grant valid_grant(void) { return (struct stk_message_grant){1, STOKER_OK, REGION, SPAN("")}; }

static struct stk_message_done valid_done(void)
{
    return (struct stk_message_done){
        1, STOKER_OK, 2, 3, 4, 500, 400, 100, 6, 7, SPAN("text"), SPAN("detail"),
    };
}

static struct stk_message_template_report valid_template_report(void)
{
    return (struct stk_message_template_report){1, STOKER_OK, 4711, SPAN("text"), SPAN("detail")};
}

/* Bytes of a decoded message written again: there is one encoding of everything that is accepted. */
#define EXPECT_SAME_BYTES(name, message, bytes, size)                                                                  \
    do {                                                                                                               \
        assert_int_equal(stk_##name##_size(&(message)), (size));                                                       \
        uint8_t *again = malloc((size) + 1);                                                                           \
        struct stk_writer second = {.data = again, .size = (size)};                                                    \
        stk_##name##_encode(&second, &(message));                                                                      \
        assert_false(second.full);                                                                                     \
        assert_int_equal(second.used, (size));                                                                         \
        assert_memory_equal(again, (bytes), (size));                                                                   \
        free(again);                                                                                                   \
    } while (0)

#define DEFINE_TESTS(name)                                                                                             \
    static uint8_t *encode_##name(const struct stk_message_##name *message, size_t *out_size)                          \
    {                                                                                                                  \
        size_t size = stk_##name##_size(message);                                                                      \
        uint8_t *bytes = malloc(size + 1);                                                                             \
        struct stk_writer writer = {.data = bytes, .size = size};                                                      \
        stk_##name##_encode(&writer, message);                                                                         \
        assert_false(writer.full);                                                                                     \
        assert_int_equal(writer.used, size);                                                                           \
        *out_size = size;                                                                                              \
        return bytes;                                                                                                  \
    }                                                                                                                  \
    static stoker_status decode_##name(const uint8_t *bytes, size_t size, bool expect_same, stoker_error *err)         \
    {                                                                                                                  \
        uint8_t *exact = malloc(size ? size : 1);                                                                      \
        memcpy(exact, bytes, size);                                                                                    \
        struct stk_message_##name out;                                                                                 \
        memset(&out, 0x5a, sizeof out);                                                                                \
        stoker_status status = stk_##name##_decode((struct stk_span){exact, size}, &out, err);                         \
        if (status == STOKER_OK && expect_same) EXPECT_SAME_BYTES(name, out, bytes, size);                             \
        for (size_t i = 0; status != STOKER_OK && i < sizeof out; i++)                                                 \
            assert_int_equal(((const uint8_t *)&out)[i], 0x5a); /* outputs are written on success only */              \
        free(exact);                                                                                                   \
        return status;                                                                                                 \
    }                                                                                                                  \
    static void test_##name##_survives_the_wire(void **state)                                                          \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        struct stk_message_##name message = valid_##name();                                                            \
        size_t size;                                                                                                   \
        uint8_t *bytes = encode_##name(&message, &size);                                                               \
        assert_int_equal(decode_##name(bytes, size, true, NULL), STOKER_OK);                                           \
        bytes[size] = 0;                                                                                               \
        stoker_error err = {0};                                                                                        \
        assert_int_equal(decode_##name(bytes, size + 1, true, &err), STOKER_ERR_PROTOCOL);                             \
        assert_non_null(strstr(err.message, #name ": body has 1 trailing bytes"));                                     \
        for (size_t cut = 0; cut < size; cut++) {                                                                      \
            memset(&err, 0, sizeof err);                                                                               \
            assert_int_equal(decode_##name(bytes, cut, true, &err), STOKER_ERR_PROTOCOL);                              \
            assert_int_equal(err.status, STOKER_ERR_PROTOCOL);                                                         \
            assert_true(strncmp(err.message, #name ": ", sizeof(#name ": ") - 1) == 0);                                \
            struct stk_writer small = {.data = bytes, .size = cut};                                                    \
            stk_##name##_encode(&small, &message);                                                                     \
            assert_true(small.full);                                                                                   \
            assert_in_range(small.used, 0, cut);                                                                       \
        }                                                                                                              \
        static const uint8_t flips[] = {0x01, 0x02, 0x08, 0x10, 0x80, 0xff, 0x7f};                                     \
        for (size_t at = 0; at < size; at++)                                                                           \
            for (size_t i = 0; i < sizeof flips; i++) {                                                                \
                bytes[at] ^= flips[i];                                                                                 \
                (void)decode_##name(bytes, size, true, NULL); /* either is right, reading past the end is not */       \
                bytes[at] ^= flips[i];                                                                                 \
            }                                                                                                          \
        free(bytes);                                                                                                   \
    }

#define ALL(apply)                                                                                                     \
    apply(hello) apply(loader_open) apply(loader_ref) apply(request) apply(release) apply(step) apply(welcome)         \
        apply(verdict) apply(ready) apply(failed) apply(unmap) apply(notice) apply(status) apply(source) apply(task)   \
            apply(need) apply(grant) apply(done) apply(template_report)

ALL(DEFINE_TESTS)

/* A valid message with `width` bytes at `at` replaced must be refused with `text` in the error. */
#define EXPECT_REFUSED(name, valid, at, width, value, text)                                                            \
    do {                                                                                                               \
        struct stk_message_##name refused_message = (valid);                                                           \
        size_t refused_size;                                                                                           \
        uint8_t *refused = encode_##name(&refused_message, &refused_size);                                             \
        assert_in_range((at) + (width), 1, refused_size);                                                              \
        for (size_t k = 0; k < (width); k++) refused[(at) + k] = (uint8_t)((uint64_t)(value) >> (8 * k));              \
        stoker_error refused_err = {0};                                                                                \
        assert_int_equal(decode_##name(refused, refused_size, true, &refused_err), STOKER_ERR_PROTOCOL);               \
        if (!strstr(refused_err.message, (text))) print_error("got: %s\n", refused_err.message);                       \
        assert_non_null(strstr(refused_err.message, (text)));                                                          \
        free(refused);                                                                                                 \
    } while (0)

static void test_hello_refuses_impossible_ranks_and_keys(void **state)
{
    (void)state;
    EXPECT_REFUSED(hello, valid_hello(), 0, 4, 63, "hello: key is 63, expected a longer one");
    EXPECT_REFUSED(hello, valid_hello(), 0, 4, 65, "hello: key is 65, expected a shorter one");
    EXPECT_REFUSED(hello, valid_hello(), 9, 1, 'F', "hello: key is 70, expected lower-case hexadecimal");
    EXPECT_REFUSED(hello, valid_hello(), 77, 4, 4, "hello: rank is 4, expected below world_size");
    EXPECT_REFUSED(hello, valid_hello(), 85, 4, 2, "hello: local_rank is 2, expected below local_world_size");
    EXPECT_REFUSED(hello, valid_hello(), 89, 4, 257, "hello: local_world_size is 257, expected at most 256");
    EXPECT_REFUSED(hello, valid_hello(), 93, 8, 0, "hello: pid is 0, expected a process id");
    EXPECT_REFUSED(hello, valid_hello(), 101, 4, 0xffffffff, "hello: cpu_mask is 4294967295, expected a shorter one");
}

static void test_loader_open_refuses_unknown_kinds_and_sizes(void **state)
{
    (void)state;
    EXPECT_REFUSED(loader_open, valid_loader_open(), 4, 4, 0, "loader_open: kind is 0, expected a source kind");
    EXPECT_REFUSED(loader_open, valid_loader_open(), 4, 4, 4, "loader_open: kind is 4, expected a source kind");
    EXPECT_REFUSED(loader_open, valid_loader_open(), 4, 4, 2,
                   "loader_open: sample_bytes is 7, expected 0 for a process");
    EXPECT_REFUSED(loader_open, valid_loader_open(), 12, 4, 1025, "loader_open: num_workers is 1025");
    EXPECT_REFUSED(loader_open, valid_loader_open(), 16, 4, 65537, "loader_open: batch_samples_max is 65537");
    EXPECT_REFUSED(loader_open, valid_loader_open(), 20, 4, 3, "loader_open: on_error is 3");
    EXPECT_REFUSED(loader_open, valid_loader_open(), 52, 4, 4097, "loader_open: name is 4097");
    EXPECT_REFUSED(loader_open, valid_loader_open(), 61, 4, 31, "loader_open: digest is 31");
    EXPECT_REFUSED(loader_open, valid_loader_open(), 97, 4, 3, "loader_open: isolation is 3");
    EXPECT_REFUSED(loader_open, valid_loader_open(), 117, 4, 4097, "loader_open: quarantine is 4097");
}

static void test_request_holds_ids_or_a_payload(void **state)
{
    (void)state;
    EXPECT_REFUSED(request, valid_request(), 16, 4, 23, "request: ids is 23, expected a multiple of 8");
    EXPECT_REFUSED(request, valid_request(), 16, 4, 524289, "request: ids is 524289, expected a shorter one");
    static const uint8_t neither[24] = {1};
    stoker_error err = {0};
    assert_int_equal(decode_request(neither, sizeof neither, true, &err), STOKER_ERR_PROTOCOL);
    assert_string_equal(err.message, "request: payload is 0, expected either ids or a payload (its size in bytes)");
    uint8_t both[24 + 8 + 1 + 4] = {0};
    both[16] = 8;
    both[28] = 1;
    assert_int_equal(decode_request(both, sizeof both, true, &err), STOKER_ERR_PROTOCOL);
    assert_string_equal(err.message, "request: payload is 1, expected either ids or a payload (its size in bytes)");
}

static void test_largest_payload_fits_a_request_and_its_task(void **state)
{
    (void)state;
    uint8_t *payload = calloc(1, STK_PAYLOAD_BYTES_MAX);
    struct stk_message_request request = {.payload = {payload, STK_PAYLOAD_BYTES_MAX}};
    struct stk_message_task task = {
        .kind = STK_TASK_BATCH, .target = REGION, .payload = {payload, STK_PAYLOAD_BYTES_MAX}};
    assert_in_range(stk_request_size(&request), 1, STK_MESSAGE_BYTES_MAX);
    assert_in_range(stk_task_size(&task), 1, STK_MESSAGE_BYTES_MAX);
    size_t size;
    uint8_t *bytes = encode_task(&task, &size);
    assert_int_equal(decode_task(bytes, size, true, NULL), STOKER_OK);
    free(bytes);
    free(payload);
}

static void test_release_names_real_slabs(void **state)
{
    (void)state;
    EXPECT_REFUSED(release, valid_release(), 0, 4, 0, "release: slabs is 0, expected a longer one");
    EXPECT_REFUSED(release, valid_release(), 0, 4, 20, "release: slabs is 20, expected a multiple of 8");
    EXPECT_REFUSED(release, valid_release(), 12, 8, 0, "release: slabs is 0, expected slab ids, which are never 0");
}

static void test_statuses_are_known_ones(void **state)
{
    (void)state;
    EXPECT_REFUSED(verdict, valid_verdict(), 4, 4, 1, "verdict: status is 1, expected 0 or the number of a failure");
    EXPECT_REFUSED(verdict, valid_verdict(), 4, 4, -9, "verdict: status is -9, expected 0 or");
    EXPECT_REFUSED(failed, valid_failed(), 16, 4, 0, "failed: status is 0, expected the number of a failure");
    EXPECT_REFUSED(done, valid_done(), 8, 4, 2, "done: status is 2");
    EXPECT_REFUSED(template_report, valid_template_report(), 4, 4, 1, "template_report: status is 1");
    EXPECT_REFUSED(template_report, valid_template_report(), 8, 8, -1, "template_report: pid is 18446744073709551615");
    EXPECT_REFUSED(welcome, valid_welcome(), 0, 8, UINT64_C(1) << 31, "welcome: pid is 2147483648");
}

static void test_regions_lie_inside_their_segment(void **state)
{
    (void)state;
    const size_t region = 12;
    EXPECT_REFUSED(grant, valid_grant(), region, 8, 0,
                   "grant: region.slab_id is 0, expected a slab, or nothing else set");
    EXPECT_REFUSED(grant, valid_grant(), region + 16, 8, 69631, "grant: region.size is 4096, expected a range inside");
    EXPECT_REFUSED(grant, valid_grant(), region + 24, 8, UINT64_MAX, "grant: region.size is 4096");
    EXPECT_REFUSED(grant, valid_grant(), region + 32, 8, UINT64_MAX, "grant: region.size is 18446744073709551615");
    EXPECT_REFUSED(grant, valid_grant(), region + 40, 4, 2, "grant: region.fd_sent is 2, expected 0 or 1");
    EXPECT_REFUSED(grant, valid_grant(), 8, 4, STOKER_ERR_LIMIT,
                   "grant: region.slab_id is 11, expected a slab if the status is OK");
}

static void test_ready_describes_only_its_region(void **state)
{
    (void)state;
    const size_t skeleton = 80, count = 96, leaf = 100;
    EXPECT_REFUSED(ready, valid_ready(), 16, 4, 2, "ready: flags is 2");
    EXPECT_REFUSED(ready, valid_ready(), skeleton, 8, 3997,
                   "ready: skeleton_size is 100, expected a range inside the region");
    EXPECT_REFUSED(ready, valid_ready(), skeleton, 8, UINT64_MAX - 50, "ready: skeleton_size is 100");
    EXPECT_REFUSED(ready, valid_ready(), count, 4, 9, "ready: leaf_count is 9, expected at most 8");
    EXPECT_REFUSED(ready, valid_ready(), count, 4, 1, "ready: body has");
    EXPECT_REFUSED(ready, valid_ready(), leaf, 4, 0, "ready: leaves.dtype is 0");
    EXPECT_REFUSED(ready, valid_ready(), leaf, 4, 9, "ready: leaves.dtype is 9");
    EXPECT_REFUSED(ready, valid_ready(), leaf, 4, STOKER_DTYPE_INT64,
                   "ready: leaves.size is 120, expected the product");
    EXPECT_REFUSED(ready, valid_ready(), leaf + 4, 4, 9, "ready: leaves.ndim is 9");
    EXPECT_REFUSED(ready, valid_ready(), leaf + 8, 8, UINT64_C(1) << 62,
                   "ready: leaves.size is 120, expected the product");
    EXPECT_REFUSED(ready, valid_ready(), leaf + 8, 8, 0, "ready: leaves.size is 120, expected the product");
    EXPECT_REFUSED(ready, valid_ready(), leaf + 32, 8, 128, "ready: leaves.offset is 128, expected a multiple of 256");
    EXPECT_REFUSED(ready, valid_ready(), leaf + 32, 8, 4096,
                   "ready: leaves.size is 120, expected a range inside the region");
}

static void test_ready_without_memory_is_accepted(void **state)
{
    (void)state;
    struct stk_message_ready ready = {.loader_id = 1, .leaf_count = 1};
    ready.leaves[0] = (struct stk_message_leaf){STOKER_DTYPE_FLOAT32, 2, {0, UINT64_MAX}, 0, 0};
    size_t size;
    uint8_t *bytes = encode_ready(&ready, &size);
    assert_int_equal(decode_ready(bytes, size, true, NULL), STOKER_OK);
    free(bytes);
}

static void test_scalar_leaf_has_one_element(void **state)
{
    (void)state;
    struct stk_message_ready ready = {.region = REGION, .leaf_count = 1};
    ready.leaves[0] = (struct stk_message_leaf){STOKER_DTYPE_BFLOAT16, 0, {0}, 0, 2};
    size_t size;
    uint8_t *bytes = encode_ready(&ready, &size);
    assert_int_equal(decode_ready(bytes, size, true, NULL), STOKER_OK);
    free(bytes);
}

static void test_task_fields_fit_its_kind(void **state)
{
    (void)state;
    const size_t from = 76;
    EXPECT_REFUSED(task, valid_task(), 8, 4, 0, "task: kind is 0");
    EXPECT_REFUSED(task, valid_task(), 8, 4, 4, "task: kind is 4");
    EXPECT_REFUSED(task, valid_task(), 8, 4, STK_TASK_MAKE,
                   "task: from.slab_id is 11, expected a slab for a copy task");
    EXPECT_REFUSED(task, valid_task(), 8, 4, STK_TASK_BATCH, "task: from.slab_id is 11");
    EXPECT_REFUSED(task, valid_task(), from + 32, 8, 100, "task: from.size is 100, expected the size of the target");
    struct stk_message_task make = {.kind = STK_TASK_MAKE, .target = REGION, .samples = 2};
    EXPECT_REFUSED(task, make, 8, 4, STK_TASK_BATCH, "task: samples is 2, expected none for a batch task");
    const size_t places = 120;
    EXPECT_REFUSED(task, make, places, 4, 0, "task: samples is 0, expected none for a batch task and some");
    EXPECT_REFUSED(task, make, places, 4, 65537, "task: samples is 65537");
    EXPECT_REFUSED(task, make, places + 4, 4, 2, "task: index is 2, expected below samples");
    EXPECT_REFUSED(task, valid_task(), places + 16, 8, 1, "task: draw is 1, expected 0 unless for a make task");
    EXPECT_REFUSED(task, valid_task(), places + 24, 8, 1, "task: rows is 1, expected 0 unless for a make task");
    EXPECT_REFUSED(task, make, places + 32, 8, 1, "task: row is 1, expected at most rows");
    EXPECT_REFUSED(task, make, places + 8, 4, 1, "task: from_index is 1, expected 0 unless for a copy");
    EXPECT_REFUSED(task, valid_task(), places + 8, 4, 3, "task: from_index is 3, expected below samples");
    struct stk_message_task batch = {.kind = STK_TASK_BATCH, .payload = SPAN("p")};
    EXPECT_REFUSED(task, batch, 8, 4, STK_TASK_MAKE,
                   "task: target.slab_id is 0, expected a slab, except for a batch task");
}

static void test_done_reports_what_lies_in_its_slab(void **state)
{
    (void)state;
    const size_t used = 36;
    EXPECT_REFUSED(done, valid_done(), used, 8, 499,
                   "done: skeleton_size is 100, expected a range inside the used bytes");
    EXPECT_REFUSED(done, valid_done(), used + 16, 8, UINT64_MAX, "done: skeleton_size is 18446744073709551615");
    EXPECT_REFUSED(done, valid_done(), used + 24, 4, 65537, "done: samples_skipped is 65537");
}

static void test_notice_and_source_know_their_enums(void **state)
{
    (void)state;
    EXPECT_REFUSED(notice, valid_notice(), 0, 4, 4, "notice: level is 4");
    EXPECT_REFUSED(notice, valid_notice(), 4, 4, 0, "notice: id is 0, expected a longer one");
    EXPECT_REFUSED(source, valid_source(), 8, 4, 4, "source: kind is 4");
}

static void test_decoded_values_are_those_encoded(void **state)
{
    (void)state;
    struct stk_message_ready message = valid_ready(), out = {0};
    size_t size;
    uint8_t *bytes = encode_ready(&message, &size);
    assert_int_equal(stk_ready_decode((struct stk_span){bytes, size}, &out, NULL), STOKER_OK);
    assert_int_equal(out.loader_id, 1);
    assert_int_equal(out.generation, 2);
    assert_int_equal(out.sequence, 3);
    assert_int_equal(out.flags, STK_READY_COPY);
    assert_int_equal(out.samples_skipped, 4);
    assert_int_equal(out.tasks_retried, 5);
    assert_int_equal(out.ready_ns, 6);
    assert_int_equal(out.region.segment_bytes, 1u << 22);
    assert_int_equal(out.region.fd_sent, 1);
    assert_int_equal(out.leaf_count, 2);
    assert_int_equal(out.leaves[0].shape[2], 5);
    assert_int_equal(out.leaves[0].shape[3], 0); /* past ndim */
    assert_int_equal(out.leaves[1].offset, 512);
    free(bytes);
}

#define ROUND_TRIP_ENTRY(name) cmocka_unit_test(test_##name##_survives_the_wire),

int main(void)
{
    const struct CMUnitTest tests[] = {
        ALL(ROUND_TRIP_ENTRY) cmocka_unit_test(test_hello_refuses_impossible_ranks_and_keys),
        cmocka_unit_test(test_loader_open_refuses_unknown_kinds_and_sizes),
        cmocka_unit_test(test_request_holds_ids_or_a_payload),
        cmocka_unit_test(test_largest_payload_fits_a_request_and_its_task),
        cmocka_unit_test(test_release_names_real_slabs),
        cmocka_unit_test(test_statuses_are_known_ones),
        cmocka_unit_test(test_regions_lie_inside_their_segment),
        cmocka_unit_test(test_ready_describes_only_its_region),
        cmocka_unit_test(test_ready_without_memory_is_accepted),
        cmocka_unit_test(test_scalar_leaf_has_one_element),
        cmocka_unit_test(test_task_fields_fit_its_kind),
        cmocka_unit_test(test_done_reports_what_lies_in_its_slab),
        cmocka_unit_test(test_notice_and_source_know_their_enums),
        cmocka_unit_test(test_decoded_values_are_those_encoded),
    };
    return stk_run_tests(tests);
}
