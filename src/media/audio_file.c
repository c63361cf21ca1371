/* SPDX-License-Identifier: Apache-2.0
 *
 * The public entry points of sound, over one file by name.
 */
#include <stdlib.h>

#include <stoker/audio.h>

#include "base/error.h"
#include "media/audio.h"
#include "store/file.h"

stoker_status stoker_audio_probe(const char *path, uint32_t flags, stoker_audio_info *out_info, stoker_error *err)
{
    struct stk_file file;
    if (!path || !out_info) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path and out_info must be given");
    if (flags & ~(uint32_t)STOKER_PROBE_EXACT)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "flags %#x are not known", flags);
    STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = stk_audio_facts(&file, flags & STOKER_PROBE_EXACT, out_info, err);
    if (status < 0) stk_error_context(err, "%s", path);
    stk_file_close(&file);
    return status;
}

size_t stoker_audio_sample_bytes(const stoker_audio_spec *spec)
{
    struct stk_audio_form form;
    return stk_audio_form_init(&form, spec, true, NULL) == STOKER_OK ? form.sample_bytes : 0;
}

static stoker_status read_file(const char *path, const struct stk_audio_form *form, uint64_t draw,
                               const struct stk_audio_target *target, stoker_audio_result *out_result,
                               stoker_error *err)
{
    struct stk_file file;
    struct stk_listener *listener = NULL;
    STK_TRY(stk_file_open(path, &file, err));
    stoker_status status = stk_listener_create(&listener, err);
    if (status == STOKER_OK) status = stk_listener_read(listener, &file, form, draw, target, out_result, err);
    if (status < 0) stk_error_context(err, "%s", path);
    stk_listener_destroy(listener);
    stk_file_close(&file);
    return status;
}

stoker_status stoker_audio_read(const char *path, const stoker_audio_spec *spec, uint64_t draw, void *dst,
                                stoker_audio_result *out_result, stoker_error *err)
{
    struct stk_audio_form form;
    if (!path || !dst) return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path and dst must be given");
    STK_TRY(stk_audio_form_init(&form, spec, true, err));
    const struct stk_audio_target target = {.dst = dst};
    return read_file(path, &form, draw, &target, out_result, err);
}

static stoker_status take_room(void *user, size_t bytes, void **out_dst, stoker_error *err)
{
    void **data = user;
    *data = malloc(bytes);
    if (!*data) return stk_fail(err, STOKER_ERR_NO_MEMORY, "no memory for %zu bytes of sound", bytes);
    *out_dst = *data;
    return STOKER_OK;
}

stoker_status stoker_audio_load(const char *path, const stoker_audio_spec *spec, uint64_t draw, void **out_data,
                                stoker_audio_result *out_result, stoker_error *err)
{
    struct stk_audio_form form;
    void *data = NULL;
    if (!path || !out_data || !out_result)
        return stk_fail(err, STOKER_ERR_INVALID_ARGUMENT, "path, out_data and out_result must be given");
    STK_TRY(stk_audio_form_init(&form, spec, false, err));
    const struct stk_audio_target target = {.room_fn = take_room, .user = &data};
    stoker_status status = read_file(path, &form, draw, &target, out_result, err);
    if (status == STOKER_OK)
        *out_data = data;
    else
        free(data);
    return status;
}

void stoker_audio_free(void *data) { free(data); }
