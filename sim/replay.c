/* SPDX-License-Identifier: Apache-2.0
 *
 * `stoker-sim replay JOURNAL`.
 */
#include "sim/options.h"

int sim_command_replay(const struct sim_options *options)
{
    (void)options;
    return sim_usage_error("replay is not built in");
}
