/* SPDX-License-Identifier: Apache-2.0
 *
 * Channels of templates and of workers in other languages: the public side is include/stoker/worker.h, all of it
 * implemented in worker_channel.c. What other files of the plane share with it stands here.
 *
 * Both are simple blocking loops over one socket with one owner thread. A worker maps segments so that they are not
 * inherited by processes that it forks (rule A4).
 */
#ifndef STK_PLANE_WORKER_CHANNEL_H
#define STK_PLANE_WORKER_CHANNEL_H

#include <stoker/worker.h>

/* Messages are cut at STK_TEXT_BYTES_MAX; details over STK_DETAIL_BYTES_MAX do not travel, and the message says so. */
#define STK_DETAIL_LOST_TEXT " (the details are too large to travel)"

#endif
