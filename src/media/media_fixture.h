/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of src/media/ share: the golden clips by name, and a fresh file that is opened.
 */
#ifndef STK_MEDIA_MEDIA_FIXTURE_H
#define STK_MEDIA_MEDIA_FIXTURE_H

#include <stdio.h>

#include "store/file.h"
#include "tests/support/unit.h"

#ifndef STK_GOLDEN_MEDIA
#error "the folder of the golden clips comes from meson.build"
#endif

static inline const char *clip_path(const char *name)
{
    static char path[4096];
    assert_true(snprintf(path, sizeof path, "%s/%s", STK_GOLDEN_MEDIA, name) < (int)sizeof path);
    return path;
}

static inline struct stk_file open_clip(const char *name)
{
    struct stk_file file;
    stoker_error err;
    assert_int_equal(stk_file_open(clip_path(name), &file, &err), STOKER_OK);
    return file;
}

#endif
