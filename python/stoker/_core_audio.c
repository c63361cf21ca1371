/* SPDX-License-Identifier: Apache-2.0
 *
 * Sound for Python: probe, decode a window, the native sound source, and spectrograms.
 *
 * Decoding runs without the interpreter lock. A spectrogram's form is a tuple in the order of stoker_mel_spec.
 */
#include "_core_media.h"

#include <stdlib.h>

#include <stoker/audio.h>

static PyObject *probe_audio(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"path", "exact", NULL};
    PyObject *path = NULL;
    int exact = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|p", names, PyUnicode_FSConverter, &path, &exact)) {
        return NULL;
    }
    stoker_audio_info info;
    stoker_error err = {0};
    stoker_status status;
    const char *text = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS
    status = stoker_audio_probe(text, exact ? STOKER_PROBE_EXACT : 0, &info, &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    return Py_BuildValue("{s:s,s:I,s:I,s:K,s:d,s:K,s:L}", "codec", info.codec, "rate", info.rate, "channels",
                         info.channels, "samples", (unsigned long long)info.samples, "duration_s", info.duration_s,
                         "bytes", (unsigned long long)info.bytes, "mtime_ns", (long long)info.mtime_ns);
}

static int mel_from(PyObject *object, stoker_mel_spec *mel)
{
    static const stoker_mel_spec defaults = STOKER_MEL_SPEC_INIT;
    int scale = 0, norm = 0, log = 0;
    *mel = defaults;
    if (!PyTuple_Check(object)) {
        PyErr_SetString(PyExc_TypeError, "mel must be a tuple of 15 numbers, or None");
        return -1;
    }
    if (!PyArg_ParseTuple(object, "O&O&O&O&O&iiiO&ffffff", CORE_NUMBER("bands", mel->bands),
                          CORE_NUMBER("fft", mel->fft), CORE_NUMBER("window", mel->window),
                          CORE_NUMBER("hop", mel->hop), CORE_NUMBER("power", mel->power), &scale, &norm, &log,
                          CORE_NUMBER("last_frame", mel->last_frame), &mel->f_min, &mel->f_max, &mel->floor,
                          &mel->range, &mel->add, &mel->multiply)) {
        return -1;
    }
    mel->scale = (stoker_mel_scale)scale;
    mel->norm = (stoker_mel_norm)norm;
    mel->log = (stoker_mel_log)log;
    return 0;
}

/* The keywords of a form, after the first positional argument. */
#define FORM_NAMES                                                                                                     \
    "rate", "channels", "dtype", "start_s", "duration_s", "start", "short_sound", "seek", "mark", "damaged_max", "mel"
#define FORM_FORMAT "O&O&iddiiiO&dO"

struct form_arguments {
    stoker_audio_spec spec;
    stoker_mel_spec mel;
    int dtype, start, short_sound, seek;
    PyObject *mel_object;
};

#define FORM_POINTERS(form)                                                                                            \
    CORE_NUMBER("rate", (form).spec.rate), CORE_NUMBER("channels", (form).spec.channels), &(form).dtype,               \
        &(form).spec.start_s, &(form).spec.duration_s, &(form).start, &(form).short_sound, &(form).seek,               \
        CORE_NUMBER("mark", (form).spec.mark), &(form).spec.damaged_max, &(form).mel_object

static void form_init(struct form_arguments *form)
{
    static const stoker_audio_spec defaults = STOKER_AUDIO_SPEC_INIT;
    *form = (struct form_arguments){.spec = defaults, .mel_object = Py_None};
}

static int form_finish(struct form_arguments *form)
{
    form->spec.dtype = (stoker_dtype)form->dtype;
    form->spec.start = (stoker_audio_start)form->start;
    form->spec.short_sound = (stoker_audio_short)form->short_sound;
    form->spec.seek = (stoker_audio_seek)form->seek;
    if (form->mel_object == Py_None) {
        return 0;
    }
    form->spec.mel = &form->mel;
    return mel_from(form->mel_object, &form->mel);
}

static PyObject *facts_of(const stoker_audio_spec *spec, const stoker_audio_result *result, size_t *out_bytes)
{
    const size_t value = spec->dtype == STOKER_DTYPE_INT16 ? 2 : 4;
    *out_bytes = spec->mel != NULL ? (size_t)spec->mel->bands * (size_t)result->frames * sizeof(float)
                                   : (size_t)result->channels * (size_t)result->count * value;
    return Py_BuildValue("{s:I,s:I,s:K,s:K,s:K,s:K,s:K,s:K,s:K}", "rate", result->rate, "channels", result->channels,
                         "start", (unsigned long long)result->start, "count", (unsigned long long)result->count,
                         "valid", (unsigned long long)result->valid, "total", (unsigned long long)result->total,
                         "frames", (unsigned long long)result->frames, "lost", (unsigned long long)result->lost,
                         "bytes_read", (unsigned long long)result->bytes_read);
}

static PyObject *read_audio(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"path", "draw", FORM_NAMES, NULL};
    PyObject *path = NULL;
    unsigned long long draw = 0;
    struct form_arguments form;
    form_init(&form);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O&|O&" FORM_FORMAT, names, PyUnicode_FSConverter, &path,
                                     CORE_NUMBER("draw", draw), FORM_POINTERS(form))) {
        return NULL;
    }
    if (form_finish(&form) < 0) {
        Py_DECREF(path);
        return NULL;
    }
    const char *text = PyBytes_AsString(path);
    stoker_audio_result result;
    stoker_error err = {0};
    stoker_status status;
    void *data = NULL;
    Py_BEGIN_ALLOW_THREADS
    status = stoker_audio_load(text, &form.spec, draw, &data, &result, &err);
    Py_END_ALLOW_THREADS
    Py_DECREF(path);
    if (status < 0) {
        return core_raise(status, &err, NULL, 0);
    }
    size_t bytes = 0;
    PyObject *facts = facts_of(&form.spec, &result, &bytes);
    PyObject *block = facts != NULL ? PyByteArray_FromStringAndSize(data, (Py_ssize_t)bytes) : NULL;
    stoker_audio_free(data);
    if (block == NULL) {
        Py_XDECREF(facts);
        return NULL;
    }
    return Py_BuildValue("(NN)", block, facts);
}

static stoker_status create_audio(const void *list, const void *spec, stoker_source **out_source, stoker_error *err)
{
    return stoker_source_create_audio(list, spec, out_source, err);
}

static PyObject *audio_source(PyObject *self, PyObject *args, PyObject *kwargs)
{
    (void)self;
    static char *names[] = {"paths", FORM_NAMES, "parts", "object", NULL};
    PyObject *paths, *parts = Py_None, *object = Py_None;
    struct form_arguments form;
    form_init(&form);
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O|" FORM_FORMAT "OO", names, &paths, FORM_POINTERS(form), &parts,
                                     &object) ||
        form_finish(&form) < 0) {
        return NULL;
    }
    return core_source_of_paths(create_audio, &form.spec, paths, parts, object);
}

static PyObject *mel_frames(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *object;
    unsigned long long samples;
    stoker_mel_spec mel;
    if (!PyArg_ParseTuple(args, "OO&", &object, CORE_NUMBER("samples", samples)) || mel_from(object, &mel) < 0) {
        return NULL;
    }
    return PyLong_FromUnsignedLongLong(stoker_mel_frames(&mel, samples));
}

static PyObject *log_mel(PyObject *self, PyObject *args)
{
    (void)self;
    PyObject *object;
    unsigned int rate;
    Py_buffer samples, out;
    stoker_mel_spec mel;
    if (!PyArg_ParseTuple(args, "y*w*O&O", &samples, &out, CORE_NUMBER("rate", rate), &object)) {
        return NULL;
    }
    int good = mel_from(object, &mel) == 0;
    const uint64_t count = (uint64_t)samples.len / sizeof(float);
    const uint64_t bytes = good ? stoker_mel_frames(&mel, count) * mel.bands * sizeof(float) : 0;
    if (good && ((uint64_t)samples.len % sizeof(float) != 0 || (bytes != 0 && (uint64_t)out.len != bytes))) {
        PyErr_Format(PyExc_ValueError, "%zd bytes of samples and %zd of output, expected multiples of 4 and %llu",
                     samples.len, out.len, (unsigned long long)bytes);
        good = 0;
    }
    stoker_error err = {0};
    stoker_status status = STOKER_OK;
    if (good) {
        const stoker_mono_sound sound = {.samples = samples.buf, .count = count, .rate = rate};
        Py_BEGIN_ALLOW_THREADS
        status = stoker_mel_compute(&mel, &sound, out.buf, &err);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&samples);
    PyBuffer_Release(&out);
    if (!good) {
        return NULL;
    }
    return status < 0 ? core_raise(status, &err, NULL, 0) : Py_NewRef(Py_None);
}

static PyMethodDef audio_functions[] = {
    {"probe_audio", (PyCFunction)(void (*)(void))probe_audio, METH_VARARGS | METH_KEYWORDS,
     "probe_audio(path, exact=False) -> dict\n\nFacts about the sound of one file, from its packets unless exact."},
    {"read_audio", (PyCFunction)(void (*)(void))read_audio, METH_VARARGS | METH_KEYWORDS,
     "read_audio(path, draw=0, rate=0, channels=0, ...) -> (bytearray, dict)\n\nDecode a window of one file."},
    {"audio_source", (PyCFunction)(void (*)(void))audio_source, METH_VARARGS | METH_KEYWORDS,
     "audio_source(paths, rate, channels, ...) -> Source"},
    {"mel_frames", mel_frames, METH_VARARGS,
     "mel_frames(mel, samples) -> int\n\nFrames of a spectrogram; 0: too short."},
    {"log_mel", log_mel, METH_VARARGS,
     "log_mel(samples, out, rate, mel) -> None\n\nThe spectrogram of float32 samples, into a buffer of its size."},
    {NULL, NULL, 0, NULL},
};

int core_audio_init(PyObject *module) { return PyModule_AddFunctions(module, audio_functions); }
