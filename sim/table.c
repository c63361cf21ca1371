/* SPDX-License-Identifier: Apache-2.0
 *
 * See table.h.
 */
#include "sim/table.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

struct sim_table *sim_table_make(const char *name, const char *title, const struct sim_column *columns, uint32_t count)
{
    STK_ASSERT(count <= SIM_TABLE_COLUMNS);
    struct sim_table *table = calloc(1, sizeof *table);
    STK_ASSERT(table != NULL);
    table->name = name;
    table->title = title;
    table->columns = columns;
    table->column_count = count;
    return table;
}

void sim_table_free(struct sim_table *table) { free(table); }

void sim_table_add(struct sim_table *table, ...)
{
    STK_ASSERT(table->row_count < SIM_TABLE_ROWS);
    struct sim_table_cell *row = table->cells[table->row_count++];
    va_list values;
    va_start(values, table);
    for (uint32_t i = 0; i < table->column_count; i++) {
        if (table->columns[i].digits < 0) {
            snprintf(row[i].text, sizeof row[i].text, "%s", va_arg(values, const char *));
        } else {
            row[i].value = va_arg(values, double);
            if (isfinite(row[i].value))
                snprintf(row[i].text, sizeof row[i].text, "%.*f", table->columns[i].digits, row[i].value);
            else
                snprintf(row[i].text, sizeof row[i].text, "-");
        }
    }
    va_end(values);
}

static int width_of(const struct sim_table *table, uint32_t column)
{
    size_t width = strlen(table->columns[column].name);
    for (uint32_t row = 0; row < table->row_count; row++) {
        size_t length = strlen(table->cells[row][column].text);
        if (length > width) width = length;
    }
    return (int)width;
}

static void print_row(const struct sim_table *table, const int *widths, uint32_t row, bool head, FILE *out)
{
    for (uint32_t i = 0; i < table->column_count; i++) {
        const char *text = head ? table->columns[i].name : table->cells[row][i].text;
        bool last = i + 1 == table->column_count, left = table->columns[i].digits < 0;
        if (left && last)
            fprintf(out, "%s", text);
        else
            fprintf(out, left ? "%-*s" : "%*s", widths[i], text);
        fputs(last ? "\n" : "  ", out);
    }
}

void sim_table_print(const struct sim_table *table, FILE *out)
{
    int widths[SIM_TABLE_COLUMNS] = {0};
    for (uint32_t i = 0; i < table->column_count; i++) widths[i] = width_of(table, i);
    fprintf(out, "%s\n\n", table->title);
    print_row(table, widths, 0, true, out);
    for (uint32_t row = 0; row < table->row_count; row++) print_row(table, widths, row, false, out);
    fputc('\n', out);
}

struct sim_json *sim_table_json(const struct sim_table *table)
{
    struct sim_json *rows = sim_json_array();
    for (uint32_t row = 0; row < table->row_count; row++) {
        struct sim_json *object = sim_json_object();
        for (uint32_t i = 0; i < table->column_count; i++) {
            if (table->columns[i].digits < 0)
                sim_json_text(object, table->columns[i].name, table->cells[row][i].text);
            else
                sim_json_real(object, table->columns[i].name, table->cells[row][i].value);
        }
        sim_json_append(rows, object);
    }
    return rows;
}
