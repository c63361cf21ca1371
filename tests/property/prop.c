/* SPDX-License-Identifier: Apache-2.0
 *
 * Frame of property tests: see prop.h. A failed check leaves the law by longjmp, so laws keep their state in static
 * storage and need no cleaning up on the way out.
 */
#include "tests/property/prop.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static jmp_buf failed;
static char failure[512];

void prop_fail(const char *condition, const char *file, int line)
{
    (void)snprintf(failure, sizeof failure, "%s (%s:%d)", condition, file, line);
    longjmp(failed, 1);
}

static bool run_seed(const struct prop *prop, uint64_t seed)
{
    if (setjmp(failed) != 0) {
        printf("# %s: seed %llu: %s\n", prop->name, (unsigned long long)seed, failure);
        return false;
    }
    prop->run_fn(seed);
    return true;
}

/* The old failures of a law; those of other laws are skipped. */
static bool run_old_seeds(const struct prop *prop)
{
    bool good = true;
    char name[128];
    unsigned long long seed;
    FILE *file = fopen(PROP_SEEDS_FILE, "r");
    if (!file) {
        printf("# cannot open %s\n", PROP_SEEDS_FILE);
        return false;
    }
    char line[256];
    while (fgets(line, sizeof line, file))
        if (line[0] != '#' && sscanf(line, "%127s %llu", name, &seed) == 2 && strcmp(name, prop->name) == 0)
            good = run_seed(prop, seed) && good;
    (void)fclose(file);
    return good;
}

int prop_main(const struct prop *props, size_t count, int argc, char **argv)
{
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
    const char *only = argc > 3 ? argv[3] : NULL;
    bool all_good = true;
    size_t number = 0;
    for (size_t i = 0; i < count; i++) {
        if (only && strcmp(only, props[i].name) != 0) continue;
        uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : props[i].seeds;
        bool good = argc > 1 || run_old_seeds(&props[i]);
        for (uint64_t seed = first; good && seed < first + seeds; seed++) good = run_seed(&props[i], seed);
        printf("%s %zu - %s\n", good ? "ok" : "not ok", ++number, props[i].name);
        all_good = all_good && good;
    }
    printf("1..%zu\n", number);
    return all_good && number > 0 ? 0 : 1;
}

struct prop_random prop_seed(uint64_t seed)
{
    struct prop_random random = {.state = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15)};
    if (random.state == 0) random.state = 1;
    for (int i = 0; i < 8; i++) (void)prop_next(&random);
    return random;
}

uint64_t prop_next(struct prop_random *random)
{
    random->state ^= random->state >> 12;
    random->state ^= random->state << 25;
    random->state ^= random->state >> 27;
    return random->state * UINT64_C(0x2545f4914f6cdd1d);
}

uint32_t prop_below(struct prop_random *random, uint32_t bound)
{
    return (uint32_t)((prop_next(random) >> 32) * bound >> 32);
}

bool prop_once_in(struct prop_random *random, uint32_t n) { return prop_below(random, n) == 0; }
