/* SPDX-License-Identifier: Apache-2.0
 *
 * Commands that are written in Python: the program becomes the interpreter that stoker is installed for.
 */
#ifndef STK_CLI_PYTHON_H
#define STK_CLI_PYTHON_H

#include "cli/options.h"

/* Runs stoker._tools.<module> with argv[1..] in place of this process. `usage` is what --help prints; other options are
 * the module's to parse. Gives an exit status only after --help, or if there is no interpreter.
 *
 * The interpreter is STOKER_PYTHON if that is set, else the python3 beside the program, else the first on PATH. */
int cli_python_run(const struct cli_usage *usage, const char *module, int argc, char **argv);

#endif
