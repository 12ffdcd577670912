#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the words of messages: string literals of the C++ sources, where plain English says the same.

usage: check_words.py [ROOT]
       check_words.py --places    prints each place of a word to avoid

Words to avoid are those of pages (scripts/page_words.py). Literals that follow each other are one text; flags, quoted names and
the files of #include are no words. Each word may occur as often as BOUNDS says. Prints what is more, and exits 1 if there is any.
"""
import pathlib
import re
import sys

from page_words import AVOIDED
from sources import report, sources

BOUNDS = {  # uses in messages: lower them if there are fewer, never raise them
    "alone": 2, "beside": 2,  # names that results hold: of a column, a probe and a plan
}

TOKEN = re.compile(r"""
    (?P<skip>//[^\n]*|/\*.*?\*/|\#\s*include[^\n]*|(?<![\da-fA-F])'(?:\\[^\n]|[^'\\\n])+')
    |R"(?P<mark>[^(\s\\]*)\((?P<raw>.*?)\)(?P=mark)"
    |"(?P<plain>(?:\\.|[^"\\\n])*)"
    |(?P<code>[^\s"'/\#R]+|\S)""", re.VERBOSE | re.DOTALL)
NAME = re.compile(r"`[^`]*`|\\\"[^\"]*\"|--[\w-]+")


def messages(text):
    """(line, text) of every string literal; literals with nothing but space or comments between them are one."""
    line, at, held = 1, 0, None
    for token in TOKEN.finditer(text):
        line += text.count("\n", at, token.start())
        at = token.start()
        if token["code"]:
            if held:
                yield held
            held = None
        elif not token["skip"]:
            part = token["raw"] if token["raw"] is not None else re.sub(r"\\[nt]", " ", token["plain"])
            held = (held[0], held[1] + part) if held else (line, part)
    if held:
        yield held


def places(root):
    """(file, line, name) of every word to avoid in a message."""
    for path, text in sources(root):
        for line, message in messages(text):
            words = NAME.sub("x", message)
            for name, pattern in AVOIDED.items():
                for _ in pattern.findall(words):
                    yield path, line, name


def check(root, bounds=None):
    bounds = BOUNDS if bounds is None else bounds
    found = list(places(root))
    problems = []
    for name in AVOIDED:
        lines = [f"{path}:{line}: a message says '{name}'" for path, line, word in found if word == name]
        bound = bounds.get(name, 0)
        if len(lines) > bound:
            problems += [*lines, f"'{name}' is {len(lines)} times in messages, more than {bound}: say it in plain English"]
    return problems


if __name__ == "__main__":
    if "--places" in sys.argv:
        for path, line, name in places(pathlib.Path(__file__).resolve().parents[1]):
            print(f"{path}:{line}: {name}")
    else:
        report(check)
