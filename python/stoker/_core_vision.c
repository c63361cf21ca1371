/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes, grids and token counts of vision models for Python, and sources of patches. The families and their constants
 * are in presets.py, the datasets in _patches.py.
 */
#include "_core_media.h"

#include <string.h>

#include <stoker/vision.h>

/* The fields of a rule as keyword arguments, in this order. */
#define RULE_NAMES                                                                                                     \
    "patch", "merge", "temporal", "limits", "flags", "pixels_min", "pixels_max", "clip_pixels", "frame_pixels_max"
#define RULE_FORMAT "O&O&O&iO&O&O&O&O&"
#define RULE_POINTERS(rule)                                                                                            \
    CORE_NUMBER("patch", (rule).patch), CORE_NUMBER("merge", (rule).merge), CORE_NUMBER("temporal", (rule).temporal),  \
        &(rule).limits, CORE_NUMBER("flags", (rule).flags), CORE_NUMBER("pixels_min", (rule).pixels_min),              \
        CORE_NUMBER("pixels_max", (rule).pixels_max), CORE_NUMBER("clip_pixels", (rule).clip_pixels),                  \
        CORE_NUMBER("frame_pixels_max", (rule).frame_pixels_max)

struct rule_arguments {
    unsigned int patch, merge, temporal, flags;
    int limits;
    unsigned long long pixels_min, pixels_max, clip_pixels, frame_pixels_max;
};

static stoker_patch_rule rule_of(const struct rule_arguments *arguments)
{
    return (stoker_patch_rule){.patch = arguments->patch,
                               .merge = arguments->merge,
                               .temporal = arguments->temporal,
                               .limits = (stoker_fit_limits)arguments->limits,
                               .flags = arguments->flags,
                               .pixels_min = arguments->pixels_min,
                               .pixels_max = arguments->pixels_max,
                               .clip_pixels = arguments->clip_pixels,
                               .frame_pixels_max = arguments->frame_pixels_max};
}

/* The same of a rule for the number of frames. */
#define FRAME_NAMES "choice", "frames", "rate", "frames_min", "frames_max", "group"
#define FRAME_FORMAT "iO&dO&O&O&"
#define FRAME_POINTERS(rule)                                                                                           \
    &(rule).choice, CORE_NUMBER("frames", (rule).frames), &(rule).rate, CORE_NUMBER("frames_min", (rule).frames_min),  \
        CORE_NUMBER("frames_max", (rule).frames_max), CORE_NUMBER("group", (rule).group)

struct frame_arguments {
    int choice;
    unsigned int frames, frames_min, frames_max, group;
    double rate;
};

static stoker_frame_rule frame_rule_of(const struct frame_arguments *arguments)
{
    return (stoker_frame_rule){.choice = (stoker_frame_choice)arguments->choice,
                               .frames = arguments->frames,
                               .rate = arguments->rate,
                               .frames_min = arguments->frames_min,
                               .frames_max = arguments->frames_max,
                               .group = arguments->group};
}

static PyObject *patch_plan(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"clip_frames", "width", "height", RULE_NAMES, NULL};
    stoker_clip clip;
    struct rule_arguments arguments;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&O&" RULE_FORMAT, names, CORE_NUMBER("clip_frames", clip.frames),
                                     CORE_NUMBER("width", clip.width), CORE_NUMBER("height", clip.height),
                                     RULE_POINTERS(arguments))) {
        return NULL;
    }
    const stoker_patch_rule rule = rule_of(&arguments);
    stoker_patch_plan plan;
    stoker_error err = {0};
    stoker_status status = stoker_patch_plan_clip(&rule, &clip, &plan, &err);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    return Py_BuildValue("{s:I,s:I,s:(III),s:I,s:K,s:K}", "width", plan.width, "height", plan.height, "grid_thw",
                         plan.grid_t, plan.grid_h, plan.grid_w, "row_values", plan.row_values, "patches",
                         (unsigned long long)plan.patches, "tokens", (unsigned long long)plan.tokens);
}

static PyObject *frames_count(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"clip_frames", "duration_s", FRAME_NAMES, NULL};
    unsigned long long frames;
    double duration_s;
    struct frame_arguments arguments;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&d" FRAME_FORMAT, names, CORE_NUMBER("clip_frames", frames),
                                     &duration_s, FRAME_POINTERS(arguments))) {
        return NULL;
    }
    const stoker_frame_rule rule = frame_rule_of(&arguments);
    const stoker_clip_facts facts = {.width = 1, .height = 1, .frames = frames, .duration_s = duration_s};
    uint32_t count;
    stoker_error err = {0};
    stoker_status status = stoker_frames_count(&rule, &facts, &count, &err);
    return status < 0 ? core_raise(status, &err, NULL, 0) : PyLong_FromUnsignedLong(count);
}

static PyObject *tubelet_plan(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"clip_frames", "width", "height", "tubelet", "patch", "masked", NULL};
    stoker_clip clip;
    stoker_tubelet_rule rule = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&O&O&O&|d", names, CORE_NUMBER("clip_frames", clip.frames),
                                     CORE_NUMBER("width", clip.width), CORE_NUMBER("height", clip.height),
                                     CORE_NUMBER("tubelet", rule.tubelet), CORE_NUMBER("patch", rule.patch),
                                     &rule.masked)) {
        return NULL;
    }
    stoker_tubelet_plan plan;
    stoker_error err = {0};
    stoker_status status = stoker_tubelet_plan_clip(&rule, &clip, &plan, &err);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    return Py_BuildValue("{s:K,s:K}", "tokens", (unsigned long long)plan.tokens, "visible",
                         (unsigned long long)plan.visible);
}

static PyObject *latent_plan(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"clip_frames", "width",   "height", "channels", "stride_t",
                            "stride",      "patch_t", "patch",  NULL};
    stoker_clip clip;
    stoker_latent_rule rule;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&O&O&O&O&O&O&O&", names, CORE_NUMBER("clip_frames", clip.frames),
                                     CORE_NUMBER("width", clip.width), CORE_NUMBER("height", clip.height),
                                     CORE_NUMBER("channels", rule.channels), CORE_NUMBER("stride_t", rule.stride_t),
                                     CORE_NUMBER("stride", rule.stride), CORE_NUMBER("patch_t", rule.patch_t),
                                     CORE_NUMBER("patch", rule.patch))) {
        return NULL;
    }
    stoker_latent_plan plan;
    stoker_error err = {0};
    stoker_status status = stoker_latent_plan_clip(&rule, &clip, &plan, &err);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    return Py_BuildValue("{s:(IIII),s:K,s:I}", "latent", plan.channels, plan.t, plan.h, plan.w, "tokens",
                         (unsigned long long)plan.tokens, "frames_used", plan.frames_used);
}

/* What the keyword arguments of a source say, besides rules. */
struct form_arguments {
    struct rule_arguments rule;
    struct frame_arguments frames;
    int media, mode, dtype, short_clip, partial, ignore_orientation;
    unsigned int pixels_max;
    double damaged_max;
    PyObject *mean, *std, *background;
};

static int form_finish(const struct form_arguments *form, stoker_patch_spec *spec)
{
    spec->media = (stoker_patch_media)form->media;
    spec->rule = rule_of(&form->rule);
    spec->frames = frame_rule_of(&form->frames);
    spec->mode = (stoker_patch_mode)form->mode;
    spec->dtype = (stoker_dtype)form->dtype;
    spec->short_clip = (stoker_short_clip)form->short_clip;
    spec->damaged_max = form->damaged_max;
    spec->ignore_orientation = (uint8_t)form->ignore_orientation;
    spec->partial = (stoker_image_partial)form->partial;
    spec->pixels_max = form->pixels_max;
    if (core_background(form->background, &spec->alpha, spec->background) < 0) {
        return -1;
    }
    return core_colour(form->mean, spec->mean, "mean") < 0 || core_colour(form->std, spec->std, "std") < 0 ? -1 : 0;
}

static stoker_status create_patches(const void *list, const void *spec, stoker_source **out_source, stoker_error *err)
{
    return stoker_source_create_patches(list, spec, out_source, err);
}

static PyObject *create_source(PyObject *paths, const Py_buffer *facts, const stoker_patch_spec *spec)
{
    PyObject *keep;
    Py_ssize_t count;
    const char **texts = core_texts(paths, &keep, &count);
    if (texts == NULL) {
        return NULL;
    }
    PyObject *result = NULL;
    if ((size_t)facts->len != (size_t)count * sizeof(stoker_clip_facts)) {
        PyErr_Format(PyExc_ValueError, "facts have %zd bytes, %zd paths need %zu each", facts->len, count,
                     sizeof(stoker_clip_facts));
    } else {
        stoker_clip_list list = {.paths = texts, .facts = facts->buf, .count = (size_t)count};
        result = core_source_create(create_patches, &list, spec);
    }
    PyMem_Free(texts);
    Py_DECREF(keep);
    return result;
}

static PyObject *patch_source(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {
        "paths", "facts",      "media",       RULE_NAMES,   FRAME_NAMES,          "mode",    "dtype",      "mean",
        "std",   "short_clip", "damaged_max", "background", "ignore_orientation", "partial", "max_pixels", NULL};
    struct form_arguments form = {.mean = Py_None, .std = Py_None, .background = Py_None};
    PyObject *paths;
    Py_buffer facts;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "Oy*i" RULE_FORMAT FRAME_FORMAT "iiOOidOpiO&", names, &paths, &facts,
                                     &form.media, RULE_POINTERS(form.rule), FRAME_POINTERS(form.frames), &form.mode,
                                     &form.dtype, &form.mean, &form.std, &form.short_clip, &form.damaged_max,
                                     &form.background, &form.ignore_orientation, &form.partial,
                                     CORE_NUMBER("max_pixels", form.pixels_max))) {
        return NULL;
    }
    stoker_patch_spec spec = STOKER_PATCH_SPEC_INIT;
    PyObject *result = form_finish(&form, &spec) < 0 ? NULL : create_source(paths, &facts, &spec);
    PyBuffer_Release(&facts);
    return result;
}

int core_augment(PyObject *arguments, stoker_augment *out)
{
    int crop, colour[3];
    if (arguments == Py_None) {
        return 0;
    }
    if (!PyTuple_Check(arguments)) {
        PyErr_SetString(PyExc_TypeError, "augment must be a tuple or None");
        return -1;
    }
    if (!PyArg_ParseTuple(arguments, "iO&(iii)fffffffff", &crop, CORE_NUMBER("crop_pad", out->crop_pad), &colour[0],
                          &colour[1], &colour[2], &out->scale[0], &out->scale[1], &out->ratio[0], &out->ratio[1],
                          &out->flip, &out->brightness, &out->contrast, &out->saturation, &out->hue)) {
        return -1;
    }
    out->crop = (stoker_crop)crop;
    for (int c = 0; c < 3; c++) {
        if (colour[c] < 0 || colour[c] > 255) {
            PyErr_SetString(PyExc_ValueError, "pad_colour must be three numbers from 0 to 255");
            return -1;
        }
        out->pad_colour[c] = (uint8_t)colour[c];
    }
    return 0;
}

static PyMethodDef vision_functions[] = {
    {"patch_plan", (PyCFunction)(void (*)(void))patch_plan, METH_VARARGS | METH_KEYWORDS,
     "patch_plan(clip_frames, width, height, patch, merge, ...) -> dict\n\nSize, grid and tokens of a clip."},
    {"frames_count", (PyCFunction)(void (*)(void))frames_count, METH_VARARGS | METH_KEYWORDS,
     "frames_count(clip_frames, duration_s, choice, frames, ...) -> int\n\nHow many frames are taken of a clip."},
    {"tubelet_plan", (PyCFunction)(void (*)(void))tubelet_plan, METH_VARARGS | METH_KEYWORDS,
     "tubelet_plan(clip_frames, width, height, tubelet, patch, masked=0) -> dict"},
    {"latent_plan", (PyCFunction)(void (*)(void))latent_plan, METH_VARARGS | METH_KEYWORDS,
     "latent_plan(clip_frames, width, height, channels, stride_t, stride, patch_t, patch) -> dict"},
    {"patch_source", (PyCFunction)(void (*)(void))patch_source, METH_VARARGS | METH_KEYWORDS,
     "patch_source(paths, facts, media, ...) -> Source\n\nThe facts are stoker_clip_facts, one for each path."},
    {NULL, NULL, 0, NULL},
};

int core_vision_init(PyObject *module) { return PyModule_AddFunctions(module, vision_functions); }
