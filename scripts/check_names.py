#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no two types share a name (the linker takes one of their destructors for both), and that names of
sources ascend in every meson.build.

usage: check_names.py [ROOT]

Types inside each other or in anonymous namespaces do not matter. Prints file:line of each second
definition, and of each name in a list that belongs before the one above it; exits 1 when there is any.
"""
import re

from sources import report, sources

# What may hold braces without meaning them.
NO_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|(?<![0-9a-fA-F])\'(?:\\.|[^\'\\\n])\'',
    re.DOTALL,
)
LISTED = re.compile(r"\s+'([^']+\.(?:cpp|cu))'\W*")  # alone on a line of meson.build
OPENING = re.compile(
    r"\bnamespace\b\s*(?P<space>[\w:]*)\s*\{"
    r"|\b(?:class|struct|union|enum(?:\s+class|\s+struct)?)\s+(?P<type>\w+(?:\s*::\s*\w+)*)(?:\s+final)?"
    r"\s*(?::(?!:)[^;{}()]*)?\{"
    r"|(?P<open>\{)|(?P<close>\})"
)


def code_of(text):
    """The text with comments and literals blanked, line for line."""
    return NO_CODE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def types_of(text):
    """(name, line) of every type defined at the level of a namespace that has a name."""
    code = code_of(text)
    scopes = []  # the name of a namespace, "" of an anonymous one, None of anything else
    for match in OPENING.finditer(code):
        if match["close"]:
            if scopes:
                scopes.pop()
        elif match["open"]:
            scopes.append(None)
        elif match["type"]:
            if all(scopes):
                name = "::".join([*scopes, re.sub(r"\s", "", match["type"])])
                yield name, code.count("\n", 0, match.start("type")) + 1
            scopes.append(None)
        else:
            scopes.append(match["space"])


def out_of_order(root):
    for path in sorted(path for top in ("realhw", "sim", "tests") for path in (root / top).rglob("meson.build")):
        above = None
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            listed = LISTED.fullmatch(line)
            if listed and above and listed[1] < above[1]:
                yield f"{path.relative_to(root).as_posix()}:{number}: {listed[1]} belongs before {above[1]}"
            above = listed


def check(root):
    first, problems = {}, []
    for path, text in sources(root):
        for name, line in types_of(text):
            place = f"{path}:{line}"
            if name in first:
                problems.append(f"{place}: {name} is defined in {first[name]}, too")
            first.setdefault(name, place)
    return [*problems, *out_of_order(root)]


if __name__ == "__main__":
    report(check)
