/* SPDX-License-Identifier: Apache-2.0
 *
 * Umbrella of the public C API: include this, or one of the headers below alone.
 */
#ifndef STOKER_STOKER_H
#define STOKER_STOKER_H

#include <stoker/balance.h>
#include <stoker/batch.h>
#include <stoker/augment.h>
#include <stoker/audio.h>
#include <stoker/error.h>
#include <stoker/image.h>
#include <stoker/loader.h>
#include <stoker/manifest.h>
#include <stoker/media.h>
#include <stoker/pack.h>
#include <stoker/plan.h>
#include <stoker/profile.h>
#include <stoker/quarantine.h>
#include <stoker/service.h>
#include <stoker/shard.h>
#include <stoker/text.h>
#include <stoker/vision.h>
#include <stoker/worker.h>

#define STOKER_VERSION_MAJOR 0
#define STOKER_VERSION_MINOR 1
#define STOKER_VERSION_PATCH 0
#define STOKER_VERSION "0.1.0"

#ifdef __cplusplus
extern "C" {
#endif

/** Version of the library that is loaded, such as "0.1.0".
 *
 * Owns:    the result is static text.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API const char *stoker_version(void);

#ifdef __cplusplus
}
#endif

#endif
