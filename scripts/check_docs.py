#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the documents: their links, their words, and that the index names each of them.

usage: check_docs.py [ROOT]
       check_docs.py --places    prints each place of what is bounded, and how much each page has

A link must lead to a file that is there and, behind a #, to a heading of it. Sources and scripts that pages name must be there
(changelog and tutorials apart: they name what is gone or yet to be written), and so must pages that code, tests and data name.
Figures of README.md's table of errors must be those of the page that a row leads to.
A page has at most 3,000 words. README.md, CONTRIBUTING.md and all pages of docs/ together have at most so many words, long sentences,
long lines and words to avoid as BOUNDS says. Prints file:line of each problem and exits 1 if there is any.
"""
import pathlib
import re
import sys

from page_words import PLAIN, WIDTH, avoided, long_lines, sentences
from sources import report

MOST_WORDS = 3000
BOUNDS = {  # of the pages together: lower them if there is less, never raise them
    "words": 50000,
    f"sentences of more than {PLAIN} words": 0,
    f"lines of more than {WIDTH} characters": 0,
    "words to avoid": 1,
}
COUNTED = ("README.md", "CONTRIBUTING.md", "docs/")
INDEX = "docs/README.md"
NAMING = ("sim", "realhw", "tests", "scripts", "models", "topologies", "scenarios", "traces", "papers", "docs")
TEXT = {".h", ".cpp", ".cu", ".cuh", ".py", ".yaml", ".md", ".build", ""}

LINK = re.compile(r"\[[^\]]*\]\(([^()\s]+)\)")
CODE = re.compile(r"`[^`]*`")
HEADING = re.compile(r"#{1,6} +(.*)")
SOURCE = re.compile(r"`((?:sim|realhw|tests|scripts)/[\w./-]+)`")
TIMELESS = re.compile(r"(?!CHANGELOG|docs/adding-a-)")
RESULT_ROW = re.compile(r"\| (?P<quantity>.*) \| .* \| (?P<error>.*) \| \[.*\]\((?P<page>docs/results/.*\.md)\) \|")
FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?")
NAMED = re.compile(r"\bdocs/[\w./-]*\w\.(?:md|svg|csv)\b")


def prose(text):
    """(number, line) of what is not an example: neither in a fence nor indented as code."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced and not line.startswith("    "):
            yield number, line


def anchors(text):
    """What may follow a # in links to the page, by GitHub's rule."""
    found = {}
    for _, line in prose(text):
        heading = HEADING.match(line)
        if heading:
            words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).strip().lower()
            slug = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
            count = found.get(slug, 0)
            found[slug] = count + 1
            if count:
                found[f"{slug}-{count}"] = 1
    return found.keys()


def pages(root):
    """(path, text) of every document."""
    for path in sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md"), *root.glob("*/README.md")]):
        yield path, path.read_text(encoding="utf-8")


def links_of(path, text):
    """(line, target, file that the target means, anchor) of every link to a file."""
    for number, line in prose(text):
        for target in LINK.findall(CODE.sub("", line)):
            if not re.match(r"[a-z]+:", target):
                name, _, anchor = target.partition("#")
                yield number, target, (path.parent / name).resolve() if name else path, anchor


def figures_of(text):
    """Numbers but those of "90 % within", which all pages say."""
    return [figure.replace(",", "") for figure in FIGURE.findall(re.sub(r"90 % (?:with)?in", "", text))]


def untrue_figures(root):
    """Clauses of README.md's rows whose figures, perhaps rounded, no line or paragraph of the page has together."""
    for number, line in enumerate((root / "README.md").read_text(encoding="utf-8").splitlines(), 1):
        row = RESULT_ROW.fullmatch(line)
        if not row or not (root / row["page"]).exists():
            continue
        text = (root / row["page"]).read_text(encoding="utf-8")
        parts = [[float(figure) for figure in figures_of(part)] for part in re.split(r"\n\n|\n(?=[|-])", text)]
        for what, places in [(row["quantity"], [sum(parts, [])]), *((clause, parts) for clause in row["error"].split(";"))]:
            figures = [(float(figure), 0.50001 * 10 ** -len(figure.partition(".")[2])) for figure in figures_of(what)]
            if not any(all(any(abs(said - figure) <= half for said in part) for figure, half in figures) for part in places):
                yield f"README.md:{number}: {row['page']} does not say '{what.strip()}'"


def dead_links(root, path, text):
    name = path.relative_to(root).as_posix()
    for number, target, file, anchor in links_of(path, text):
        if not file.exists():
            yield f"{name}:{number}: the link {target} leads nowhere"
        elif anchor and anchor not in anchors(file.read_text(encoding="utf-8")):
            yield f"{name}:{number}: {target} has no such heading"


def dead_sources(root, path, text):
    name = path.relative_to(root).as_posix()
    if TIMELESS.match(name):
        for number, line in prose(text):
            for source in SOURCE.findall(line):
                if not (root / source).exists():
                    yield f"{name}:{number}: there is no {source}"


def dead_names(root):
    for top in NAMING:
        for path in sorted(p for p in (root / top).rglob("*") if p.suffix in TEXT and p.is_file()):
            if path.name == "check_docs_test.py":  # names pages of a bad tree
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:  # no text: an input that is broken on purpose
                continue
            for number, line in enumerate(text.splitlines(), 1):
                for name in NAMED.findall(line):
                    if not (root / name).exists():
                        yield f"{path.relative_to(root).as_posix()}:{number}: there is no {name}"


def places(text):
    """What BOUNDS bounds in a page: name -> (line, what is there) of each."""
    return dict(zip(BOUNDS, [
        [(0, word) for word in text.split()],
        [(line, f"{length} words") for line, length in sentences(text) if length > PLAIN],
        [(line, f"{length} characters") for line, length in long_lines(text)],
        list(avoided(text)),
    ]))


def over_bounds(texts, bounds):
    """Problems of all pages together; texts: name -> text."""
    found = [places(text) for text in texts.values()]
    for what, bound in bounds.items():
        number = sum(len(of[what]) for of in found)
        if number > bound:
            yield f"docs: {number} {what}, more than {bound}: check_docs.py --places shows them"


def counted(root):
    """name -> text of the pages that BOUNDS counts."""
    texts = {path.relative_to(root).as_posix(): text for path, text in pages(root)}
    return {name: text for name, text in texts.items() if name.startswith(COUNTED)}


def print_places(root):
    """Every long sentence, long line and word to avoid, and how much of it each page has."""
    found = {name: places(text) for name, text in counted(root).items()}
    for name, of in found.items():
        for what in list(BOUNDS)[1:]:
            for line, it in of[what]:
                print(f"{name}:{line}: {it}")
    print("\n" + "; ".join(BOUNDS))
    rows = [[*map(len, of.values()), name] for name, of in found.items()]
    for *numbers, name in [*rows, [sum(row[i] for row in rows) for i in range(len(BOUNDS))] + ["docs"]]:
        print("".join(f"{number:7}" for number in numbers), "", name)


def check(root):
    root = root.resolve()
    problems, all_pages = [], dict(pages(root))
    index = all_pages.get(root / INDEX, "")
    indexed = {file for _, _, file, _ in links_of(root / INDEX, index)}
    for path, text in all_pages.items():
        name = path.relative_to(root).as_posix()
        problems += [*dead_links(root, path, text), *dead_sources(root, path, text)]
        if len(text.split()) > MOST_WORDS:
            problems.append(f"{name}:1: {len(text.split())} words, more than {MOST_WORDS}")
        if name.startswith("docs/") and name != INDEX and path not in indexed:
            problems.append(f"{name}:1: {INDEX} has no link to this page")
    return problems + list(untrue_figures(root)) + list(dead_names(root)) + list(over_bounds(counted(root), BOUNDS))


if __name__ == "__main__":
    if "--places" in sys.argv:
        print_places(pathlib.Path(__file__).resolve().parents[1])
    else:
        report(check)
