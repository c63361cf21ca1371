/* SPDX-License-Identifier: Apache-2.0
 *
 * The way into Python: see python.h.
 */
#include "cli/python.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"

enum { PATH_BYTES_MAX = 4096 };

/* Runs before the module: an interpreter without stoker gets a message of ours, not a traceback. */
static const char starter[] =
    "import sys\n"
    "command, module = sys.argv[1:3]\n"
    "del sys.argv[1:3]\n"
    "try:\n"
    "    import importlib\n"
    "    tool = importlib.import_module('stoker._tools.' + module)\n"
    "    from stoker._tools.command import run\n"
    "except ImportError as error:\n"
    "    print(f'stoker {command}: {sys.executable} cannot import the Python package stoker: {error}\\n'\n"
    "          'hint: STOKER_PYTHON names the interpreter that it is installed for',\n"
    "          file=sys.stderr or open('/dev/null', 'w'))\n"
    "    sys.exit(4)\n"
    "sys.exit(run(command, tool.main))\n";

/* DIR/python3 for the program DIR/stoker, if there is one. */
static bool beside_program(char *out, size_t size)
{
    ssize_t used = readlink("/proc/self/exe", out, size);
    if (used <= 0 || (size_t)used >= size) return false;
    out[used] = 0;
    char *slash = strrchr(out, '/');
    if (!slash || (size_t)(slash + 1 - out) + sizeof "python3" > size) return false;
    memcpy(slash + 1, "python3", sizeof "python3");
    return access(out, X_OK) == 0;
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "-h") == 0 || strcmp(argv[i], "--help") == 0) return true;
    return false;
}

int cli_python_run(const struct cli_usage *usage, const char *module, int argc, char **argv)
{
    if (asks_for_help(argc, argv)) {
        char name[] = "stoker", flag[] = "--help";
        char *only[] = {name, flag, NULL};
        int count;
        (void)cli_options_parse(usage, 2, only, &count);
        return CLI_EXIT_DONE;
    }
    char beside[PATH_BYTES_MAX];
    const char *python = getenv("STOKER_PYTHON");
    if (!python || !*python) python = beside_program(beside, sizeof beside) ? beside : "python3";
    /* python3 -c STARTER COMMAND MODULE ARGUMENTS */
    const char **words = calloc((size_t)argc + 5, sizeof *words);
    if (!words) {
        fprintf(stderr, "stoker %s: out of memory\n", usage->command);
        return CLI_EXIT_MACHINE;
    }
    const char *first[] = {python, "-c", starter, usage->command, module};
    memcpy(words, first, sizeof first);
    for (int i = 1; i < argc; i++) words[4 + i] = argv[i];
    (void)execvp(python, (char *const *)words);
    fprintf(stderr, "stoker %s: cannot run '%s': %s\nhint: STOKER_PYTHON names the interpreter to use\n",
            usage->command, python, strerror(errno));
    free(words);
    return CLI_EXIT_MACHINE;
}
