/* SPDX-License-Identifier: Apache-2.0
 *
 * The keywords of Client.open_loader() as the options of the C library. What they may be is checked in Python and in C.
 */
#include "_core.h"

/* A duration whose absence means the documented default, and infinity none at all. */
static int duration_or_default(PyObject *seconds, uint64_t *out_ns)
{
    if (core_duration(seconds, out_ns) < 0) {
        return -1;
    }
    if (seconds == NULL || seconds == Py_None) {
        *out_ns = 0;
    }
    return 0;
}

int core_loader_options(PyObject *args, PyObject *kwargs, PyObject **out_source, stoker_loader_options *out,
                        PyObject **out_quarantine)
{
    static char *names[] = {"source",           "num_workers",    "batch_samples_max", "max_bytes", "on_error",
                            "retries",          "stall_limit",    "any_order",         "name",      "isolation",
                            "worker_max_bytes", "sample_timeout", "quarantine",        "profile",   NULL};
    PyObject *stall = NULL, *sample_timeout = NULL, *quarantine = NULL, *profile = NULL;
    unsigned long long max_bytes = 0, worker_max_bytes = 0;
    int on_error = 0, any_order = 0, isolation = 0;
    out->num_workers = 1;
    if (!PyArg_ParseTupleAndKeywords(
            args, kwargs, "O|O&O&O&iO&OpziO&OOS", names, out_source, CORE_NUMBER("num_workers", out->num_workers),
            CORE_NUMBER("batch_samples_max", out->batch_samples_max), CORE_NUMBER("max_bytes", max_bytes), &on_error,
            CORE_NUMBER("retries", out->retries), &stall, &any_order, &out->name, &isolation,
            CORE_NUMBER("worker_max_bytes", worker_max_bytes), &sample_timeout, &quarantine, &profile) ||
        core_duration(stall, &out->stall_limit_ns) < 0 ||
        duration_or_default(sample_timeout, &out->sample_timeout_ns) < 0) {
        return -1;
    }
    out->max_bytes = max_bytes;
    out->on_error = (stoker_on_error)on_error;
    out->any_order = (uint32_t)any_order;
    out->isolation = (stoker_isolation)isolation;
    out->worker_max_bytes = worker_max_bytes;
    if (out->stall_limit_ns == UINT64_MAX) {
        out->stall_limit_ns = 0; /* the documented default */
    }
    if (profile != NULL) { /* rows of core cost_row(); the caller's arguments keep them, and bytes are aligned to 8 */
        out->profile = (const stoker_cost_row *)(const void *)PyBytes_AsString(profile);
        out->profile_count = (size_t)PyBytes_Size(profile) / sizeof *out->profile;
    }
    if (quarantine == NULL || quarantine == Py_None) {
        return 0;
    }
    if (!PyUnicode_FSConverter(quarantine, out_quarantine)) {
        return -1;
    }
    out->quarantine = PyBytes_AsString(*out_quarantine);
    return 0;
}
