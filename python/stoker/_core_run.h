/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls of the library that may take long, made so that Ctrl-C ends them within a tenth of a second.
 */
#ifndef STOKER_PYTHON_CORE_RUN_H
#define STOKER_PYTHON_CORE_RUN_H

#include "_core.h"

#include <stoker/gpt.h>

/* First member of a struct with what the call needs. */
struct core_call {
    stoker_status (*call)(struct core_call *self, stoker_error *err); /* without the interpreter lock */
    /* Makes the call end soon; called until it has ended. NULL: the call is left to its thread. */
    void (*cancel)(struct core_call *self);
    /* Only without `cancel`: called in that thread, without the lock, when the call that was left has ended. */
    void (*drop)(struct core_call *self);
};

/* Makes the call in a thread of its own, while this one looks after signals. 0: it is done. -1 with an exception set:
 * the wait was interrupted; without `cancel`, the call is the thread's then. Not even started: NO_MEMORY, done. */
int core_run(struct core_call *call, stoker_status *out_status, stoker_error *err);

/* stoker_gpt_dataset_open() (`dataset` NULL: _open_mock()) and stoker_blend_index_open(), in a thread if there is much
 * to be built. As core_run(). A build that is left goes on; whoever opens the same index finds it, or waits for it. */
int core_gpt_open(stoker_dataset *dataset, int64_t vocabulary, int64_t eod, const stoker_gpt_options *options,
                  stoker_gpt_dataset **out, stoker_status *out_status, stoker_error *err);
int core_blend_open(const stoker_blend_options *options, stoker_blend_index **out, stoker_status *out_status,
                    stoker_error *err);

/* -1 with KeyboardInterrupt set if stop_builds() says so; else as PyErr_CheckSignals(). */
int core_run_check(void);

int core_run_init(PyObject *module);

#endif
