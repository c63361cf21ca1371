/* SPDX-License-Identifier: Apache-2.0
 *
 * The Source object, shared by the sources of the extension that make and that use it.
 */
#ifndef STOKER_PYTHON_CORE_MEDIA_H
#define STOKER_PYTHON_CORE_MEDIA_H

#include "_core.h"

struct source_object {
    PyObject_HEAD stoker_source *source;
};

/* The handle of a Source, or NULL with an exception set. Borrowed. */
stoker_source *core_source_handle(PyObject *object);

/* A new Source around a handle, which it takes; NULL with an exception set, and the handle closed. */
PyObject *core_source_wrap(stoker_source *source);

/* Makes a source of what it is given, without the interpreter lock. */
typedef stoker_status (*core_create_fn)(const void *list, const void *spec, stoker_source **out_source,
                                        stoker_error *err);

/* A new Source; NULL with an exception. */
PyObject *core_source_create(core_create_fn create, const void *list, const void *spec);

/* The same of a stoker_path_list: `paths`, `parts` and `object` as for core_paths_init(). */
PyObject *core_source_of_paths(core_create_fn create, const void *spec, PyObject *paths, PyObject *parts,
                               PyObject *object);

/* Paths of a source and, where some of them are members of tar shards, the parts that they are. */
struct core_paths {
    stoker_path_list list;
    const char **texts;
    PyObject *keep;
    stoker_path_part *parts;
    stoker_object_options object;
    PyObject *object_keep;
};

/* `paths` is a sequence of paths, `parts` None or a buffer of one stoker_path_part each, `object` None or the options
 * of object storage. -1 with an exception. */
int core_paths_init(struct core_paths *out, PyObject *paths, PyObject *parts, PyObject *object);
void core_paths_fini(struct core_paths *paths);

/* Three numbers of a sequence into `out`, which None leaves as it is; -1 with an exception that says `name`. */
int core_colour(PyObject *sequence, float out[3], const char *name);

/* R, G and B from 0 to 255 to composite on; None leaves `out` as it is. -1 with an exception. */
int core_picture(PyObject *background, stoker_picture_options *out);

/* The same of images: None leaves both as they are. -1 with an exception. */
int core_background(PyObject *background, stoker_image_alpha *out_alpha, uint8_t out[3]);

/* The functions of single frames; called by core_media_init(). */
int core_frames_init(PyObject *module);
/* A tuple of stoker._augment; None leaves *out as it is; -1 with an exception. */
int core_augment(PyObject *arguments, stoker_augment *out);

/* The functions of images and of vision models; called by core_media_init(). */
int core_image_init(PyObject *module);
int core_vision_init(PyObject *module);

#endif
