#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws the folders of sim and realhw and which includes which, as docs/layout.svg.

usage: draw_layout.py [--check] [ROOT]

A folder stands above all that it includes. An arrow is drawn only where no chain of other arrows says the same.
What a folder is for comes from the tables of docs/layout.md: the words before the first colon. Exit codes: 0: drawn
(with --check: the picture is as it would be drawn), 1: folders include each other in a circle, a folder has no line in
docs/layout.md or a line no folder or too many letters, or the picture is out of date.
"""
import pathlib
import re
import sys

from layered import MOST_LETTERS, Drawing, layers_of, reduced
from sources import sources

PAGE, PICTURE = "docs/layout.md", "docs/layout.svg"
INCLUDE = re.compile(r'\s*#\s*include\s*"((?:sim|realhw)/[^"]+)"')
ROW = re.compile(r"\| `((?:sim|realhw)/[\w]+)` \| ([^|:]+)")


def folder_of(path):
    """The folder of two levels that holds a path from the root, None for a file above them."""
    parts = path.split("/")
    return "/".join(parts[:2]) if len(parts) > 2 else None


def includes(root):
    """folder -> folders that its files include."""
    found = {}
    for path, text in sources(root):
        folder = folder_of(path)
        if folder is None:
            continue
        targets = found.setdefault(folder, set())
        for line in text.splitlines():
            include = INCLUDE.match(line)
            target = folder_of(include[1]) if include else None
            if target not in (None, folder):
                targets.add(target)
    return found


def circle(graph):
    """Folders that include each other, from one back to itself; empty when there are none."""
    done = set()

    def visit(folder, path):
        if folder in path:
            return path[path.index(folder):] + [folder]
        if folder in done:
            return []
        for target in sorted(graph.get(folder, ())):
            found = visit(target, path + [folder])
            if found:
                return found
        done.add(folder)
        return []

    for folder in sorted(graph):
        found = visit(folder, [])
        if found:
            return found
    return []


def problems(graph, purposes):
    loop = circle(graph)
    if loop:
        yield "a circle: " + " -> ".join(loop)
    for folder in sorted(graph.keys() - purposes.keys()):
        yield f"{PAGE} has no line for {folder}"
    for folder in sorted(purposes.keys() - graph.keys()):
        yield f"{PAGE}: there is no folder {folder}"
    for folder, purpose in sorted(purposes.items()):
        if len(purpose) > MOST_LETTERS:
            yield f"{PAGE}: what {folder} is for has more than {MOST_LETTERS} letters before the colon: {purpose}"


def main(arguments):
    if {"-h", "--help"} & set(arguments):
        print(__doc__)
        return 0
    check = "--check" in arguments
    paths = [a for a in arguments if a != "--check"]
    root = pathlib.Path(paths[0] if paths else pathlib.Path(__file__).parents[1])
    graph = includes(root)
    page = root / PAGE
    purposes = dict(ROW.findall(page.read_text(encoding="utf-8"))) if page.exists() else {}
    found = list(problems(graph, purposes))
    if not found:
        boxes = {folder: purpose.strip() for folder, purpose in purposes.items()}
        svg = Drawing(reduced(graph), layers_of(graph), boxes).svg()
        picture = root / PICTURE
        if not check:
            picture.write_text(svg, encoding="utf-8")
        elif not picture.exists() or picture.read_text(encoding="utf-8") != svg:
            found = [f"{PICTURE} is out of date: run scripts/draw_layout.py"]
    print("\n".join(found), end="\n" if found else "")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
