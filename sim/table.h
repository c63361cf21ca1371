/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables of results: gathered once, printed as text or as JSON (a list of objects).
 */
#ifndef SIM_TABLE_H
#define SIM_TABLE_H

#include "sim/json.h"

#define SIM_TABLE_COLUMNS 16u
#define SIM_TABLE_ROWS 512u

struct sim_column {
    const char *name; /* also the member's in JSON */
    int digits;       /* behind the point; -1: text */
};

struct sim_table {
    const char *name, *title;
    const struct sim_column *columns;
    uint32_t column_count, row_count;
    struct sim_table_cell {
        double value;
        char text[64];
    } cells[SIM_TABLE_ROWS][SIM_TABLE_COLUMNS];
};

/* Made on the heap; ends the program if there is no memory. */
struct sim_table *sim_table_make(const char *name, const char *title, const struct sim_column *columns, uint32_t count);
void sim_table_free(struct sim_table *table);
/* A row's values, texts as const char *, the others as double, in the order of the columns. */
void sim_table_add(struct sim_table *table, ...);
void sim_table_print(const struct sim_table *table, FILE *out);
struct sim_json *sim_table_json(const struct sim_table *table);

#endif
