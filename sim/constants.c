/* SPDX-License-Identifier: Apache-2.0
 *
 * See constants.h.
 */
#include "sim/constants.h"

#include <stddef.h>
#include <string.h>

#define ENTRY(name, value, origin, text) {#name, text, value, origin, (uint32_t)offsetof(struct sim_constants, name)},
const struct sim_constant sim_constant_list[] = {SIM_CONSTANTS(ENTRY)};
const uint32_t sim_constant_count = sizeof sim_constant_list / sizeof sim_constant_list[0];

double *sim_constant_at(struct sim_constants *constants, uint32_t index)
{
    return (double *)(void *)((char *)constants + sim_constant_list[index].offset);
}

void sim_constants_default(struct sim_constants *out)
{
    for (uint32_t i = 0; i < sim_constant_count; i++) *sim_constant_at(out, i) = sim_constant_list[i].value;
}

double *sim_constant_named(struct sim_constants *constants, const char *name)
{
    for (uint32_t i = 0; i < sim_constant_count; i++)
        if (strcmp(sim_constant_list[i].name, name) == 0) return sim_constant_at(constants, i);
    return NULL;
}
