/* SPDX-License-Identifier: Apache-2.0
 *
 * Scenarios: JSON files that describe machines, work, faults and the systems that are compared on them
 * (docs/reference/sim.md lists every member). Read strictly, checked by sim_config_check().
 */
#ifndef SIM_SCENARIO_H
#define SIM_SCENARIO_H

#include <stdint.h>

#include <stoker/error.h>

#include "sim/config.h"

#define SIM_SYSTEMS_MAX 16u

struct sim_scenario {
    struct sim_config base; /* all but the system */
    uint32_t system_count;
    struct sim_system systems[SIM_SYSTEMS_MAX];
};

/* NOT_FOUND, CORRUPT, INVALID_ARGUMENT (by the path of the member). */
stoker_status sim_scenario_load(const char *path, struct sim_scenario *out, stoker_error *err);

#endif
