#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Links of the documentation: relative ones lead to a file that exists, and to a heading that exists in it."""

import re
import sys
import urllib.parse

import common

LINK = re.compile(r"!?\[[^\]]*\]\(\s*<?([^)>\s]+)>?(?:\s+\"[^\"]*\")?\s*\)")


def pages(tree):
    return tree.files(["."], {".md"})


def prose(text):
    """The page without code blocks and code spans, line numbers kept."""
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", lambda match: re.sub(r"[^\n]", " ", match.group(0)), text,
                  flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", lambda match: " " * len(match.group(0)), text)


def anchors(text):
    """Anchors that a heading gets: lower case, punctuation dropped, spaces to hyphens; repeats numbered."""
    text = re.sub(r"^(```|~~~).*?^\1[^\n]*$", "", text, flags=re.DOTALL | re.MULTILINE)
    found, seen = set(), {}
    for heading in re.findall(r"^#{1,6}[ \t]+(.+?)[ \t]*#*$", text, re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        anchor = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        count = seen.get(anchor, 0)
        seen[anchor] = count + 1
        found.add(f"{anchor}-{count}" if count else anchor)
    found.update(re.findall(r"<a (?:id|name)=\"([^\"]+)\"", text))
    return found


def check_links(tree):
    bad = []
    for path in pages(tree):
        text = prose(tree.text(path))
        for match in LINK.finditer(text):
            target = urllib.parse.unquote(match.group(1))
            where = f"{tree.name(path)}:{common.line_of(text, match.start())}"
            if re.match(r"[a-z][a-z0-9+.-]*:", target):
                continue
            name, _, anchor = target.partition("#")
            if name.startswith("/"):
                bad.append(f"{where}: {target}: links are relative")
                continue
            file = (path.parent / name).resolve() if name else path.resolve()
            if tree.root.resolve() not in [file, *file.parents]:
                bad.append(f"{where}: {target} leads out of the tree")
            elif not file.exists():
                bad.append(f"{where}: {target} does not exist")
            elif anchor and file.suffix == ".md" and anchor not in anchors(tree.text(file)):
                bad.append(f"{where}: {target}: no such heading")
    return bad


RULES = {"relative links lead somewhere": check_links}

if __name__ == "__main__":
    sys.exit(common.run(RULES, __doc__))
