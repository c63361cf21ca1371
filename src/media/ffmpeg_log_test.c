/* SPDX-License-Identifier: Apache-2.0
 *
 * What FFmpeg says belongs to the file, never to stderr; and files that name others are not followed (rule C4,
 * situation 39).
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "media/decode.h"
#include "media/ffmpeg.h"
#include "media/media_fixture.h"

static struct stk_file file_of(const char *bytes, size_t size)
{
    char path[] = "/tmp/stoker-log-XXXXXX";
    struct stk_file file;
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, size), size);
    assert_int_equal(close(fd), 0);
    assert_int_equal(stk_file_open(path, &file, NULL), STOKER_OK);
    assert_int_equal(unlink(path), 0);
    return file;
}

/* Bytes that were written to stderr meanwhile. */
static int begin_stderr(int *saved)
{
    char path[] = "/tmp/stoker-stderr-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(unlink(path), 0);
    *saved = dup(STDERR_FILENO);
    assert_true(*saved >= 0);
    assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
    return fd;
}

static long end_stderr(int fd, int saved)
{
    assert_int_equal(dup2(saved, STDERR_FILENO), STDERR_FILENO);
    assert_int_equal(close(saved), 0);
    long size = (long)lseek(fd, 0, SEEK_END);
    assert_int_equal(close(fd), 0);
    return size;
}

static void test_c4_files_that_name_others_are_refused(void **state)
{
    (void)state;
    static const char *const lists[] = {
        "#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nhttp://127.0.0.1:9/a.ts\n#EXT-X-ENDLIST\n",
        "#EXTM3U\n#EXT-X-MEDIA-SEQUENCE:0\n#EXTINF:10,\nfile:///etc/passwd\n#EXT-X-ENDLIST\n",
        "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nsubfile,,start,0,end,9,,:/etc/passwd\n",
        "ffconcat version 1.0\nfile /etc/passwd\n",
        "ffconcat version 1.0\nfile http://127.0.0.1:9/a.mp4\nduration 1\n",
        "<?xml version=\"1.0\"?><MPD xmlns=\"urn:mpeg:dash:schema:mpd:2011\" type=\"static\" "
        "profiles=\"urn:mpeg:dash:profile:isoff-main:2011\"><Period><BaseURL>file:///etc/passwd</BaseURL>"
        "</Period></MPD>",
        "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nc=IN IP4 127.0.0.1\nt=0 0\nm=video 9 RTP/AVP 96\n"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        struct stk_file file = file_of(lists[i], strlen(lists[i]));
        struct stk_av *av = NULL;
        stoker_error err = {0};
        assert_int_equal(stk_av_open(&file, &av, &err), STOKER_ERR_UNSUPPORTED);
        assert_non_null(strstr(err.message, "a list of other files"));
        assert_null(av);
        stk_file_close(&file);
    }
}

/* Situation 39: one line that says why, nothing on the console. */
static void test_situation_39_nothing_is_written_to_stderr(void **state)
{
    (void)state;
    static const char *const names[] = {"truncated_moov_at_end.mp4", "audio_only.m4a", "expected.json",
                                        "truncated_faststart.mp4"};
    int saved, fd = begin_stderr(&saved);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct stk_file file = open_clip(names[i]);
        struct stk_decoder *decoder = NULL;
        uint64_t frames = 0;
        stoker_error err = {0};
        assert_int_equal(stk_decoder_create(&decoder, &err), STOKER_OK);
        (void)stk_decoder_count(decoder, &file, &frames, &err);
        stk_decoder_destroy(decoder);
        stk_file_close(&file);
        assert_null(strchr(err.message, '\n'));
    }
    assert_int_equal(end_stderr(fd, saved), 0);
}

static void test_the_error_carries_the_last_lines(void **state)
{
    (void)state;
    struct stk_file file = open_clip("truncated_moov_at_end.mp4");
    struct stk_av *av = NULL;
    stoker_error err = {0};
    assert_int_equal(stk_av_open(&file, &av, &err), STOKER_ERR_CORRUPT);
    assert_non_null(strstr(err.message, "(moov atom not found)"));
    stk_file_close(&file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_c4_files_that_name_others_are_refused),
        cmocka_unit_test(test_situation_39_nothing_is_written_to_stderr),
        cmocka_unit_test(test_the_error_carries_the_last_lines),
    };
    return stk_run_tests(tests);
}
