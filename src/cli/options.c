/* SPDX-License-Identifier: Apache-2.0
 *
 * Option tables: see options.h.
 */
#include "cli/options.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "cli/command.h"

static void print_help(const struct cli_usage *usage)
{
    printf("usage: stoker %s %s\n\n%s\n\noptions:\n", usage->command, usage->synopsis, usage->about);
    for (size_t i = 0; i < usage->option_count; i++) {
        const struct cli_option *option = &usage->options[i];
        char left[64], letter[8] = "    ";
        if (option->letter) (void)snprintf(letter, sizeof letter, "-%c, ", option->letter);
        (void)snprintf(left, sizeof left, "%s--%s%s%s", letter, option->name, option->argument ? " " : "",
                       option->argument ? option->argument : "");
        printf("  %-24s %s\n", left, option->help);
    }
    printf("  %-24s %s\n", "-h, --help", "print this text");
}

int cli_usage_error(const struct cli_usage *usage, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "stoker %s: ", usage->command);
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\nhint: stoker %s --help\n", usage->command);
    va_end(arguments);
    return CLI_EXIT_USAGE;
}

static const struct cli_option *find_long(const struct cli_usage *usage, const char *name, size_t size)
{
    for (size_t i = 0; i < usage->option_count; i++)
        if (strlen(usage->options[i].name) == size && memcmp(usage->options[i].name, name, size) == 0)
            return &usage->options[i];
    return NULL;
}

static const struct cli_option *find_letter(const struct cli_usage *usage, char letter)
{
    for (size_t i = 0; i < usage->option_count; i++)
        if (usage->options[i].letter == letter) return &usage->options[i];
    return NULL;
}

/* Takes argv[*at] (and its value); false after an error message. */
static bool take_option(const struct cli_usage *usage, int argc, char **argv, int *at)
{
    const char *text = argv[*at], *value = NULL;
    const struct cli_option *option;
    if (text[1] == '-') {
        const char *equals = strchr(text, '=');
        option = find_long(usage, text + 2, equals ? (size_t)(equals - text - 2) : strlen(text + 2));
        if (equals) value = equals + 1;
    } else {
        option = find_letter(usage, text[1]);
        if (text[2]) value = text + 2;
    }
    if (!option) return (void)cli_usage_error(usage, "option '%s' is not known", text), false;
    if (!option->argument) {
        if (value) return (void)cli_usage_error(usage, "option '%s' takes no value", text), false;
        *option->flag = true;
        return true;
    }
    if (!value) {
        if (*at + 1 >= argc) return (void)cli_usage_error(usage, "option '%s' needs %s", text, option->argument), false;
        value = argv[++*at];
    }
    *option->value = value;
    return true;
}

enum cli_parsed cli_options_parse(const struct cli_usage *usage, int argc, char **argv, int *out_count)
{
    int count = 0;
    bool only_arguments = false;
    for (int at = 1; at < argc; at++) {
        char *text = argv[at];
        if (only_arguments || text[0] != '-' || text[1] == 0) {
            argv[++count] = text;
        } else if (strcmp(text, "--") == 0) {
            only_arguments = true;
        } else if (strcmp(text, "-h") == 0 || strcmp(text, "--help") == 0) {
            print_help(usage);
            return CLI_PARSED_HELP;
        } else if (!take_option(usage, argc, argv, &at)) {
            return CLI_PARSED_WRONG;
        }
    }
    *out_count = count;
    return CLI_PARSED_RUN;
}
