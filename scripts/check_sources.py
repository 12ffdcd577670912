#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every data line of models/{moe,dense,gpu,software,engine}, topologies and transports says where its value comes from.

usage: check_sources.py [FILE.yaml ...]          (default: all of them, below the repository root)

A source is a comment on the same line. The comment on the first line of a block (a key or list item
with lines below it that belong to it, or a flow value over several lines) counts for the whole block.
The top-level keys name, description and source need none. Prints file:line for each line without a source; exit code
0: none, 1: some, 2: nothing to check.
"""
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("models/moe", "models/dense", "models/gpu", "models/software", "models/engine", "topologies", "transports")
EXEMPT = re.compile(r"(name|description|source)\s*:")


def split_comment(line):
    """Returns (data, comment); a '#' outside quotes, first or after white space, starts a comment."""
    quote = ""
    for i, c in enumerate(line):
        if quote:
            quote = "" if c == quote else quote
        elif c in "'\"" and (i == 0 or line[i - 1] in " \t[{,"):
            quote = c
        elif c == "#" and (i == 0 or line[i - 1] in " \t"):
            return line[:i].rstrip(), line[i + 1:].strip()
    return line.rstrip(), ""


def open_brackets(data):
    """Flow brackets that data opens and does not close; quoted text does not count."""
    plain = re.sub(r"'[^']*'|\"[^\"]*\"", "", data)
    return sum(plain.count(c) for c in "[{") - sum(plain.count(c) for c in "]}")


def lines_without_source(text):
    """Yields the numbers, from 1, of the data lines that no comment covers."""
    rows = [(number, *split_comment(line)) for number, line in enumerate(text.splitlines(), 1)]
    rows = [row for row in rows if row[1].strip() not in ("", "---", "...")]
    covering = None  # data of the line whose comment covers the lines inside its block
    depth = 0        # flow brackets still open
    for i, (number, data, comment) in enumerate(rows):
        if depth > 0:  # continues a flow value, which was judged on its first line
            depth += open_brackets(data)
            continue
        depth = open_brackets(data)
        if covering is not None and is_inside(data, covering):
            continue
        covering = None
        if comment or EXEMPT.match(data):
            covering = data
        elif not (data.endswith(":") and i + 1 < len(rows) and is_inside(rows[i + 1][1], data)):
            yield number


def is_inside(data, opening):
    """Whether a line belongs to the block that an earlier line opens."""
    ours, theirs = (len(d) - len(d.lstrip(" ")) for d in (data, opening))
    item, item_above = (d.lstrip(" ").startswith("- ") for d in (data, opening))
    return ours > theirs or (ours == theirs and item and not item_above)


def main(arguments):
    files = [Path(a) for a in arguments] or sorted(
        path for folder in FOLDERS for path in (ROOT / folder).glob("*.yaml"))
    if not files:
        print("check_sources: no YAML files to check", file=sys.stderr)
        return 2
    missing = 0
    for path in files:
        for number in lines_without_source(path.read_text(encoding="utf-8")):
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{shown}:{number}: no source comment")
            missing += 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
