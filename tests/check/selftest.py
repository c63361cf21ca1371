#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checks are checked: each must pass on a small good tree, and find the one violation that is planted in it."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import common
import headers
import layers
import links
import symbols
import text

LICENCE = "SPDX-License-Identifier: Apache-2.0"

HEADER = f"""/* {LICENCE} */
#ifndef STOKER_THING_H
#define STOKER_THING_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {{
#endif

#define STOKER_API

typedef struct stoker_thing_options {{
    size_t struct_size;
}} stoker_thing_options;

#define STOKER_THING_OPTIONS_INIT {{ sizeof(stoker_thing_options) }}

/** Count things.
 *
 * Owns:    nothing.
 * Threads: any.
 * Errors:  none.
 */
STOKER_API int stoker_thing_count(const stoker_thing_options *options);

#ifdef __cplusplus
}}
#endif

#endif
"""

LAYERS = """# words
base:
wire: base
sys: base
sim: base

# foreign header: its files
openssl/: sys/digest.c
"""

WORD = f"""/* {LICENCE} */
#include "base/word.h"

#include <string.h>

int stk_word(const char *text)
{{
    return memcmp(text, "word", 4);
}}
"""

LETTER = f"""/* {LICENCE} */
/* strcpy( and #include "plane/x.h" in a comment are no violation */
#include "base/word.h"
#include "wire/letter_internal.h"

#include <stoker/thing.h>

int stoker_thing_count(const stoker_thing_options *options)
{{
    return options ? stk_word("strcpy( in a text is none either") : 0;
}}
"""

README = """# Title

## A `b` c

[docs](docs/page.md#the-end), [here](#a-b-c), [away](https://example.org/x), `[no](link)`

```
[code](nowhere.md)
```
"""

GOOD = {
    "src/LAYERS": LAYERS,
    "src/base/word.h": f"/* {LICENCE} */\nint stk_word(const char *text);\n",
    "src/base/word.c": WORD,
    "src/base/word_test.c": f'/* {LICENCE} */\n#include "base/word.h"\n#include "tests/support/unit.h"\n',
    "src/wire/letter_internal.h": f"/* {LICENCE} */\n",
    "src/wire/letter.c": LETTER,
    "src/wire/letter_test.c": f"/* {LICENCE} */\n",
    "src/sys/digest.c": f'/* {LICENCE} */\n#include "base/word.h"\n\n#include <openssl/sha.h>\n#include <sys/mman.h>\n',
    "src/sys/digest_test.c": f"/* {LICENCE} */\n",
    "sim/world.c": f'/* {LICENCE} */\n#include "base/word.h"\n#include "sim/world.h"\n\nint sim_world(void)\n{{\n    return 0;\n}}\n',
    "sim/world.h": f"/* {LICENCE} */\nint sim_world(void);\n",
    "include/stoker/thing.h": HEADER,
    "examples/loop.c": f"/* {LICENCE} */\n#include <stoker/thing.h>\n\nint main(void)\n{{\n    return 0;\n}}\n",
    "python/stoker/x.py": f"# {LICENCE}\n",
    "README.md": README,
    "docs/page.md": "# Page\n\n[back](../README.md)\n\n## The end\n",
}

PLANTED = []  # (module, part of the rule's name, files changed, what a violation must say)


def plant(module, part, path, content, expected, **more):
    """One violation: the file at `path` gets another content (None: it is missing), and so do the files in `more`."""
    PLANTED.append((module, part, {path: content, **more.get("also", {})}, expected))


plant(layers, "names what exists", "src/LAYERS", LAYERS.replace("wire:", "ghost: base\nwire:"),
      "src/LAYERS:3: folder 'ghost' has no sources")
plant(layers, "names what exists", "src/LAYERS", LAYERS.replace("wire: base", "wire: base ghost"),
      "src/LAYERS:3: 'wire' is granted 'ghost'")
plant(layers, "acyclic", "src/LAYERS", LAYERS.replace("base:\n", "base: wire\n", 1),
      "grants go round: base -> wire -> base")
plant(layers, "is granted", "src/base/word.c", '/**/\n#include "wire/letter_internal.h"\n',
      'src/base/word.c:2: includes "wire/letter_internal.h"; missing grant in src/LAYERS: "base: wire"')
plant(layers, "is granted", "src/wire/letter.c", LETTER + '  #  include "sys/digest.h"\n',
      'src/wire/letter.c:12: includes "sys/digest.h"; missing grant in src/LAYERS: "wire: sys"',
      also={"src/sys/digest.h": ""})
plant(layers, "is granted", "src/base/word_test.c", '#include "wire/letter_internal.h"\n', "src/base/word_test.c:1: ")
plant(layers, "is granted", "src/base/word.c", '#include "tests/support/unit.h"\n', "src/base/word.c:1: ")
plant(layers, "is granted", "src/base/word.c", '#include "word.h"\n', '"word.h" is not a path from src/')
plant(layers, "is granted", "src/base/word.c", "#include <stoker/ghost.h>\n", "<stoker/ghost.h> is not in include/")
plant(layers, "is granted", "src/wire/letter.c", '#include "base/x_fixture.h"\n', '"base/x_fixture.h" is for tests',
      also={"src/base/x_fixture.h": '#include "tests/support/unit.h"\n'})
plant(layers, "is granted", "src/extra/x.c", '#include "base/word.h"\n', "folder 'extra' has no line in src/LAYERS")
plant(layers, "is used", "src/LAYERS", LAYERS.replace("sys: base", "sys: base wire"),
      "src/LAYERS:4: grant 'sys: wire' is not used")
plant(layers, "is used", "src/sys/digest.c", "#include <openssl/sha.h>\n", "grant 'sys: base' is not used",
      also={"src/sys/digest_test.c": '#include "base/word.h"\n'})
plant(layers, "foreign headers", "src/wire/letter.c", "#include <openssl/evp.h>\n",
      "src/wire/letter.c:1: <openssl/evp.h> may be included by sys/digest.c only")
plant(layers, "foreign headers", "src/wire/letter.c", "#include <zstd.h>\n",
      'foreign header <zstd.h>; missing line in src/LAYERS: "zstd.h: wire/letter.c"')
plant(layers, "foreign headers", "src/sys/digest.c", "", "src/LAYERS:8: sys/digest.c includes none of openssl/")
plant(layers, "_internal.h", "src/sys/digest.c", '#include "wire/letter_internal.h"\n',
      'src/sys/digest.c:1: "wire/letter_internal.h" stays in src/wire/')
plant(layers, "is granted", "sim/world.c", '#include "base/word.h"\n#include "wire/letter_internal.h"\n',
      'sim/world.c:2: includes "wire/letter_internal.h"; missing grant in src/LAYERS: "sim: wire"')
plant(layers, "is granted", "sim/world.c", '#include "base/word.h"\n#include "sim/ghost.h"\n',
      'sim/world.c:2: "sim/ghost.h" is not a path from src/')
plant(layers, "foreign headers", "sim/world.c", '#include "base/word.h"\n#include <jansson.h>\n',
      'foreign header <jansson.h>; missing line in src/LAYERS: "jansson.h: sim/world.c"')
plant(layers, "programs", "examples/loop.c", '#include "base/word.h"\n', 'examples/loop.c:1: "base/word.h"')
plant(layers, "programs", "include/stoker/thing.h", "#include <libavutil/avutil.h>\n",
      "include/stoker/thing.h:1: foreign header <libavutil/avutil.h>")

plant(symbols, "unsafe", "src/sys/digest.c", "void f(char *a)\n{\n    strcpy(a, a);\n}\n",
      "src/sys/digest.c:3: strcpy() is banned")
plant(symbols, "unsafe", "src/sys/digest.c", 'int a = atoi ("1");\n', "src/sys/digest.c:1: atoi() is banned")
plant(symbols, "pure objects", "src/wire/letter.c", "#include <stdlib.h>\nvoid *f(void)\n{\n    return malloc(7);\n}\n",
      "src/wire/letter.c: pure code may not use malloc()")
plant(symbols, "pure objects", "src/base/word.c", "#include <time.h>\ntime_t f(void)\n{\n    return time(0);\n}\n",
      "src/base/word.c: pure code may not use time()")
plant(symbols, "simulator", "sim/world.c", "#include <time.h>\ntime_t sim_now(void)\n{\n    return time(0);\n}\n",
      "sim/world.c: what decides may not use time()")
plant(symbols, "simulator", "sim/world.c", "double log(double);\ndouble sim_log(double a)\n{\n    return log(a);\n}\n",
      "sim/world.c: what decides may not use log()")
plant(symbols, "quiet", "src/wire/letter.c", '#include <stdio.h>\nvoid f(int a)\n{\n    printf("%d", a);\n}\n',
      "src/wire/letter.c: the library may not use printf")
plant(symbols, "quiet", "src/wire/letter.c", '#include <stdlib.h>\nchar *f(void)\n{\n    return getenv("HOME");\n}\n',
      "src/wire/letter.c: the library may not use getenv")
plant(symbols, "exports stoker_* only", "src/wire/letter.c", LETTER + "int loose = 1;\n", "libstoker.so exports loose")
plant(symbols, "all that is declared", "src/wire/letter.c", "", "stoker_thing_count() is declared")

THING = "include/stoker/thing.h"
plant(headers, "C11", THING, HEADER.replace("#include <stddef.h>", ""), "not valid c (c11) on its own")
plant(headers, "C11", THING, HEADER.replace("{ sizeof(stoker_thing_options) }", "{ 1, 2 }"), "not valid c (c11)")
plant(headers, "C++", THING, HEADER.replace("options);", "class);"), "not valid c++ (c++11) on its own")
plant(headers, "Owns", THING, HEADER.replace(" * Threads: any.\n", ""),
      "include/stoker/thing.h:24: stoker_thing_count() says ['Owns', 'Errors']")
plant(headers, "Owns", THING, HEADER.replace("Owns: ", "Own: ").replace("Errors:", "Owns:  "),
      "says ['Threads', 'Owns']")
plant(headers, "Owns", THING, HEADER.replace(" */\nSTOKER_API", " */\n\nint x;\nSTOKER_API"), "has no /** comment")
plant(headers, "guards", THING, HEADER.replace("STOKER_THING_H", "THING_H"), "no include guard STOKER_THING_H")
plant(headers, "guards", THING, HEADER.replace('extern "C" {', "").replace("}\n#endif\n\n#endif", "#endif\n\n#endif"),
      'without extern "C"')

plant(text, "licence", "src/base/word.h", "int stk_word(const char *text);\n", "src/base/word.h:1: opens without")
plant(text, "licence", "python/stoker/x.py", "x = 1\n", "python/stoker/x.py:1: opens without")
plant(text, "markers", "python/stoker/x.py", f"# {LICENCE}\n# TO{''}DO: later\n", "python/stoker/x.py:2: marker")
plant(text, "markers", "src/base/word.c", f"/* FIX{''}ME */\n", "src/base/word.c:1: marker")
plant(text, "120 columns", "src/base/word.c", "/* " + "é" * 115 + " */\n", "src/base/word.c:1: 121 columns")
plant(text, "120 columns", "src/base/word.c", "int a; \n", "src/base/word.c:1: tab or space")
plant(text, "size", "src/base/word.c", "\n" * 601, "src/base/word.c: 601 lines, at most 600")
plant(text, "size", "src/base/word.c", "\n" * 700, "700 lines, at most 699",
      also={text.OUTLIERS: "src/base/word.c 699\n"})
plant(text, "size", "src/base/word.c", "\n" * 700, "has 700 lines now: write that figure",
      also={text.OUTLIERS: "src/base/word.c 701\n"})
plant(text, "size", text.OUTLIERS, "src/base/word.c 700\n", "take it off the list")
plant(text, "size", text.OUTLIERS, "src/base/ghost.c 700\n", "src/base/ghost.c does not exist")
plant(text, "test beside", "src/base/word_test.c", None, "src/base/word.c: no word_test.c beside it")
plant(text, "test beside", text.TESTED_ELSEWHERE, "src/base/word.c src/base/word_test.c\n", "has a test beside it now")
plant(text, "test beside", "src/base/word_test.c", None, "src/base/ghost_test.c does not exist",
      also={text.TESTED_ELSEWHERE: "src/base/word.c src/base/ghost_test.c\n"})

plant(links, "lead somewhere", "docs/page.md", "# Page\n\n[x](ghost.md)\n## The end\n",
      "docs/page.md:3: ghost.md does not exist")
plant(links, "lead somewhere", "README.md", "[x](docs/page.md#ghost)\n",
      "README.md:1: docs/page.md#ghost: no such heading")
plant(links, "lead somewhere", "README.md", "![x](/etc/hosts)\n", "README.md:1: /etc/hosts: links are relative")
plant(links, "lead somewhere", "README.md", "[x](../../outside.md)\n", "leads out of the tree")


def build(root):
    """Objects where meson would put them, and the shared library, as far as they compile."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if not compiler:
        return
    made = []
    for path in sorted([*(root / "src").glob("*/*.c"), *root.glob("sim/*.c")]):
        if path.name.endswith("_test.c") or "openssl" in path.read_text():
            continue
        module = path.parent.name
        folder = root / "build" / path.parent.relative_to(root) / f"libstk_{module}.a.p"
        folder.mkdir(parents=True, exist_ok=True)
        out = folder / f"{path.name}.o"
        command = [compiler, "-w", "-std=c11", "-fPIC", "-fno-builtin", "-I", root / "src", "-I", root / "include",
                   "-I", root]
        compiles = subprocess.run([*command, "-c", path, "-o", out], capture_output=True).returncode == 0
        if compiles and module != "sim":
            made.append(out)
    subprocess.run([compiler, "-shared", "-o", root / "build" / "libstoker.so",
                    f"-Wl,--version-script={root / 'exports'}", *made], capture_output=True, check=True)


def look(module, part, changes):
    """What the rule of a module whose name holds `part` says about the good tree with some files changed."""
    name, rule = next((name, rule) for name, rule in module.RULES.items() if part in name)
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for path, content in {**GOOD, **changes}.items():
            if content is not None:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(content, encoding="utf-8")
        if module is symbols:
            # The library hides what is not public, as the real one does; `loose` is a name that slipped through.
            (root / "exports").write_text("{ global: stoker_*; loose; local: *; };\n")
            build(root)
        return name, rule(common.Tree(root, root / "build"))


def main():
    os.environ.pop("CC", None)
    modules = [layers, symbols, headers, text, links]
    cases = [(module, name, {}, None) for module in modules for name in module.RULES] + PLANTED
    print(f"1..{len(cases)}")
    failed = False
    for number, (module, part, changes, expected) in enumerate(cases, 1):
        try:
            name, violations = look(module, part, changes)
        except common.Skip as reason:
            print(f"ok {number} - {module.__name__}: {part} # SKIP {reason}")
            continue
        good = not violations if expected is None else any(expected in violation for violation in violations)
        what = "a good tree passes" if expected is None else f"finds: {expected}"
        print(f"{'ok' if good else 'not ok'} {number} - {module.__name__}: {name}: {what}")
        for violation in violations if not good else []:
            print(f"# said: {violation}")
        failed = failed or not good
    for module in modules:  # a rule that nothing is planted for would be believed unseen
        for name in module.RULES:
            if not any(case[0] is module and case[1] in name for case in PLANTED):
                print(f"# nothing is planted for {module.__name__}: {name}")
                failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
