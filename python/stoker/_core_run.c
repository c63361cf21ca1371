/* SPDX-License-Identifier: Apache-2.0
 *
 * Long calls that can be interrupted: see _core_run.h and docs/decisions/0226. Python runs its signal handlers only
 * between instructions of its main thread, so that thread must not be the one that works for seconds.
 */
#include "_core_run.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Steps (samples and documents, or picks of a blend) that take some ten milliseconds: not worth a thread. */
#define SHORT_STEPS 1000000.0
#define MOCK_SEQUENCES 100000.0
#define MOCK_TOKENS 2e8

/* What two threads share; whoever is last frees it. */
struct run {
    pthread_mutex_t lock;
    pthread_cond_t ended;
    struct core_call *call;
    stoker_status status;
    stoker_error err;
    int is_done, is_left; /* guarded by lock */
};

static int stopped; /* guarded by the interpreter lock */

int core_run_check(void)
{
    if (PyErr_CheckSignals() < 0) {
        return -1;
    }
    if (stopped) {
        PyErr_SetNone(PyExc_KeyboardInterrupt);
        return -1;
    }
    return 0;
}

static void destroy(struct run *run)
{
    (void)pthread_cond_destroy(&run->ended);
    (void)pthread_mutex_destroy(&run->lock);
    free(run);
}

static void *work(void *argument)
{
    struct run *run = argument;
    stoker_status status = run->call->call(run->call, &run->err);
    (void)pthread_mutex_lock(&run->lock);
    run->status = status;
    run->is_done = 1;
    int is_left = run->is_left;
    (void)pthread_cond_signal(&run->ended);
    (void)pthread_mutex_unlock(&run->lock);
    if (is_left) {
        run->call->drop(run->call);
        destroy(run);
    }
    return NULL;
}

/* A thread that gets no signals: they are for those that Python knows. */
static int start(struct run *run, pthread_t *out)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(out, NULL, work, run);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

/* Waits for one slice; is it done? */
static int wait_slice(struct run *run)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += (long)CORE_SLICE_NS;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_mutex_lock(&run->lock);
    while (!run->is_done && pthread_cond_timedwait(&run->ended, &run->lock, &until) != ETIMEDOUT) {
    }
    int is_done = run->is_done;
    (void)pthread_mutex_unlock(&run->lock);
    return is_done;
}

/* Leaves the call to its thread; 0 if it is done already. */
static int leave(struct run *run)
{
    (void)pthread_mutex_lock(&run->lock);
    int is_left = run->is_left = !run->is_done;
    (void)pthread_mutex_unlock(&run->lock);
    return is_left;
}

int core_run(struct core_call *call, stoker_status *out_status, stoker_error *err)
{
    pthread_t thread;
    int is_done = 0, interrupted = 0;
    struct run *run = calloc(1, sizeof *run);
    *out_status = STOKER_ERR_NO_MEMORY;
    if (run == NULL) {
        return 0;
    }
    run->call = call;
    (void)pthread_mutex_init(&run->lock, NULL);
    (void)pthread_cond_init(&run->ended, NULL);
    if (start(run, &thread) != 0) {
        destroy(run);
        (void)PyOS_snprintf(err->message, sizeof err->message, "cannot start a thread for a long call");
        return 0;
    }
    while (!is_done) {
        Py_BEGIN_ALLOW_THREADS
        if (interrupted) {
            call->cancel(call);
        }
        is_done = wait_slice(run);
        Py_END_ALLOW_THREADS
        if (!is_done && !interrupted && core_run_check() < 0) {
            interrupted = 1;
            if (call->cancel == NULL && leave(run)) {
                (void)pthread_detach(thread);
                return -1;
            }
        }
    }
    Py_BEGIN_ALLOW_THREADS(void)
    pthread_join(thread, NULL);
    Py_END_ALLOW_THREADS
    *out_status = run->status;
    *err = run->err;
    if (interrupted && call->cancel == NULL) { /* it ended in that instant: nobody wants what it made */
        call->drop(call);
    }
    destroy(run);
    return interrupted ? -1 : 0;
}

/* ---------------------------------------------------------------------------------------------------------- indexes */

/* A copy of a text; *good becomes 0 without memory. */
static char *copy_text(const char *text, int *good)
{
    char *copy = text != NULL ? strdup(text) : NULL;
    *good = *good && (text == NULL || copy != NULL);
    return copy;
}

static void *copy_numbers(const void *numbers, uint32_t count, int *good)
{
    size_t size = count * sizeof(uint64_t);
    void *copy = numbers != NULL ? malloc(size + 1) : NULL;
    if (copy != NULL) {
        memcpy(copy, numbers, size);
    }
    *good = *good && (numbers == NULL || copy != NULL);
    return copy;
}

struct gpt_call {
    struct core_call call;
    stoker_dataset *dataset;
    int64_t vocabulary, eod;
    stoker_gpt_options options;
    char *texts[4];
    stoker_gpt_dataset *made;
};

static stoker_status open_gpt(struct core_call *call, stoker_error *err)
{
    struct gpt_call *self = (struct gpt_call *)call;
    if (self->dataset != NULL) {
        return stoker_gpt_dataset_open(self->dataset, &self->options, &self->made, err);
    }
    return stoker_gpt_dataset_open_mock(self->vocabulary, self->eod, &self->options, &self->made, err);
}

static void free_gpt(struct gpt_call *self)
{
    stoker_dataset_close(self->dataset);
    for (int i = 0; i < 4; i++) {
        free(self->texts[i]);
    }
    free(self);
}

static void drop_gpt(struct core_call *call)
{
    struct gpt_call *self = (struct gpt_call *)call;
    stoker_gpt_dataset_close(self->made);
    free_gpt(self);
}

/* Samples and documents of an index. */
static double gpt_steps(stoker_dataset *dataset, const stoker_gpt_options *options)
{
    double tokens = MOCK_TOKENS, sequences = MOCK_SEQUENCES, length = (double)options->sequence_length;
    if (dataset != NULL) {
        stoker_dataset_facts facts;
        stoker_dataset_get_facts(dataset, &facts);
        tokens = (double)facts.bin_bytes / (double)stoker_token_dtype_size(facts.dtype_code);
        sequences = (double)facts.sequences;
    }
    if (length < 1.0 || tokens < 1.0) {
        return SHORT_STEPS; /* refused, or data that were not looked at yet */
    }
    double samples = options->samples == UINT64_MAX ? tokens / length : (double)options->samples;
    double epochs = samples * length / tokens;
    return samples + sequences * (epochs < 1.0 ? 1.0 : epochs);
}

int core_gpt_open(stoker_dataset *dataset, int64_t vocabulary, int64_t eod, const stoker_gpt_options *options,
                  stoker_gpt_dataset **out, stoker_status *out_status, stoker_error *err)
{
    int good = 1;
    struct gpt_call few = {.dataset = dataset, .vocabulary = vocabulary, .eod = eod, .options = *options};
    if (options->defer || options->cache.assume_hit || gpt_steps(dataset, options) < SHORT_STEPS) {
        Py_BEGIN_ALLOW_THREADS
        *out_status = open_gpt(&few.call, err);
        Py_END_ALLOW_THREADS
        *out = few.made;
        return 0;
    }
    struct gpt_call *self = malloc(sizeof *self);
    *out_status = STOKER_ERR_NO_MEMORY;
    if (self == NULL) {
        return 0;
    }
    *self = few;
    self->call = (struct core_call){.call = open_gpt, .drop = drop_gpt};
    self->options.split = self->texts[0] = copy_text(options->split, &good);
    self->options.cache.folder = self->texts[1] = copy_text(options->cache.folder, &good);
    self->options.cache.stem = self->texts[2] = copy_text(options->cache.stem, &good);
    self->options.cache.description = self->texts[3] = copy_text(options->cache.description, &good);
    if (dataset != NULL) {
        (void)stoker_dataset_ref(dataset);
    }
    if (good && core_run(&self->call, out_status, err) < 0) {
        return -1;
    }
    *out = self->made;
    free_gpt(self);
    return 0;
}

struct blend_call {
    struct core_call call;
    stoker_blend_options options;
    void *copies[6];
    stoker_blend_index *made;
};

static stoker_status open_blend(struct core_call *call, stoker_error *err)
{
    struct blend_call *self = (struct blend_call *)call;
    return stoker_blend_index_open(&self->options, &self->made, err);
}

static void free_blend(struct blend_call *self)
{
    for (int i = 0; i < 6; i++) {
        free(self->copies[i]);
    }
    free(self);
}

static void drop_blend(struct core_call *call)
{
    struct blend_call *self = (struct blend_call *)call;
    stoker_blend_index_close(self->made);
    free_blend(self);
}

static double blend_steps(const stoker_blend_options *options)
{
    double picks = (double)options->size;
    for (uint32_t k = 0; options->sizes != NULL && k < options->datasets; k++) {
        picks += (double)options->sizes[k];
    }
    return picks;
}

int core_blend_open(const stoker_blend_options *options, stoker_blend_index **out, stoker_status *out_status,
                    stoker_error *err)
{
    int good = 1;
    struct blend_call few = {.options = *options};
    if (options->defer || options->cache.assume_hit || blend_steps(options) < SHORT_STEPS) {
        Py_BEGIN_ALLOW_THREADS
        *out_status = open_blend(&few.call, err);
        Py_END_ALLOW_THREADS
        *out = few.made;
        return 0;
    }
    struct blend_call *self = malloc(sizeof *self);
    *out_status = STOKER_ERR_NO_MEMORY;
    if (self == NULL) {
        return 0;
    }
    *self = few;
    self->call = (struct core_call){.call = open_blend, .drop = drop_blend};
    self->options.weights = self->copies[0] = copy_numbers(options->weights, options->datasets, &good);
    self->options.sizes = self->copies[1] = copy_numbers(options->sizes, options->datasets, &good);
    self->options.limits = self->copies[2] = copy_numbers(options->limits, options->datasets, &good);
    self->options.cache.folder = self->copies[3] = copy_text(options->cache.folder, &good);
    self->options.cache.stem = self->copies[4] = copy_text(options->cache.stem, &good);
    self->options.cache.description = self->copies[5] = copy_text(options->cache.description, &good);
    if (good && core_run(&self->call, out_status, err) < 0) {
        return -1;
    }
    *out = self->made;
    free_blend(self);
    return 0;
}

/* ----------------------------------------------------------------------------------------------------------- module */

static PyObject *stop_builds(PyObject *module, PyObject *flag)
{
    (void)module;
    int value = PyObject_IsTrue(flag);
    if (value < 0) {
        return NULL;
    }
    stopped += value ? 1 : -1;
    return Py_NewRef(Py_None);
}

static PyMethodDef functions[] = {
    {"stop_builds", stop_builds, METH_O,
     "stop_builds(flag) -> None\n\nTrue: long calls of all threads end with KeyboardInterrupt until as many calls with "
     "False."},
    {NULL, NULL, 0, NULL},
};

int core_run_init(PyObject *module) { return PyModule_AddFunctions(module, functions); }
