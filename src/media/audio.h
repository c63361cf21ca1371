/* SPDX-License-Identifier: Apache-2.0
 *
 * From an opened file to a window of its sound: scan, choose, decode, resample, store, and the spectrogram of it.
 *
 * The result is a function of the file, the form and the draw. A window is the same slice of the whole decode: the
 * decoder starts where its memory allows, and the resampler starts at a multiple of its period, further ahead than its
 * filter reaches.
 */
#ifndef STK_MEDIA_AUDIO_H
#define STK_MEDIA_AUDIO_H

#include <stdbool.h>
#include <stdint.h>

#include <stoker/audio.h>
#include <stoker/error.h>

#include "store/file.h"

/* A checked spec, without pointers to the caller's. */
struct stk_audio_form {
    stoker_audio_spec spec; /* its `mel` is NULL */
    bool has_mel;
    stoker_mel_spec mel;
    stoker_dtype dtype;
    uint64_t start, count; /* samples; count 0: to the end */
    uint64_t frames;
    size_t sample_bytes; /* 0: depends on the file */
};

/* INVALID_ARGUMENT names the field. `fixed`: the size of the sample may not depend on the file. */
stoker_status stk_audio_form_init(struct stk_audio_form *form, const stoker_audio_spec *spec, bool fixed,
                                  stoker_error *err);

/* What one thread keeps from sample to sample: the tables of the spectrogram and scratch memory. */
struct stk_listener;

stoker_status stk_listener_create(struct stk_listener **out_listener, stoker_error *err);
void stk_listener_destroy(struct stk_listener *listener); /* NULL allowed */
/* For tests: packets of larger files are read again instead of kept. The default is STK_AV_KEEP_BYTES. */
void stk_listener_set_keep_bytes(struct stk_listener *listener, uint64_t bytes);

/* Gives the memory of a sample whose size depends on the file. */
typedef stoker_status (*stk_audio_room_fn)(void *user, size_t bytes, void **out_dst, stoker_error *err);

/* Makes one sample, at `dst`, or with `dst` NULL where `room_fn` says. */
struct stk_audio_target {
    void *dst;
    stk_audio_room_fn room_fn;
    void *user;
};
stoker_status stk_listener_read(struct stk_listener *listener, const struct stk_file *file,
                                const struct stk_audio_form *form, uint64_t draw, const struct stk_audio_target *target,
                                stoker_audio_result *out_result, stoker_error *err);

/* Facts of a file's sound; `exact`: counts the samples by decoding where the packets do not say. Size and time of the
 * file are filled too. */
stoker_status stk_audio_facts(const struct stk_file *file, bool exact, stoker_audio_info *out_info, stoker_error *err);

#endif
