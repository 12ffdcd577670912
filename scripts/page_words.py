# SPDX-License-Identifier: Apache-2.0
"""Counts what makes pages hard to read: long sentences, long lines, and words to avoid.

Sentences are those of paragraphs and lists. Code, tables, headings and quoted names do not count; words to avoid
count in tables and headings, too.
"""
import re

PLAIN = 25  # words of a sentence that is easy to read
WIDTH = 119  # characters of a line of prose

AVOID = {
    "alone": r"alone\b", "beside": r"beside\b", "those that": r"those (?:that|who)\b", "is told": r"(?:is|are) told\b",
    "stands in": r"stands? (?:in|where|on|at|beside)\b", "lies in": r"lies? (?:in|on|at)\b", "goes on": r"goe?s? on\b",
    "is no": r"(?<!there )(?:is|are) no\b", "of which": r"of (?:which|whom)\b", "where it is": r"where (?:it|that|they|there) (?:is|are)\b",
}
AVOIDED = {name: re.compile(rf"\b{pattern}", re.IGNORECASE) for name, pattern in AVOID.items()}

FENCED = re.compile(r"^( *)```.*?^ *```$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
WRITTEN = re.compile(r"^<!-- (?:begin|rows|totals): written by .*?^<!-- end.*?-->$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`[^`]*`|\"[^\"\n]*\"")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) +")
END = re.compile(r"(?<=[.!?])[)\"'*_]*\s+")
WORD = re.compile(r"\S*\w\S*")


def plain_text(text):
    """The page without code, link targets and quoted names (each becomes "x"); line numbers stay."""
    def blank(match):
        return "\n" * match[0].count("\n")
    text = COMMENT.sub(blank, FENCED.sub(blank, text))
    text = re.sub(r"^ {4}.*$", lambda line: line[0] if ITEM.match(line[0]) else "", text, flags=re.MULTILINE)
    return LINK.sub(r"\1", QUOTED.sub("x", text))


def blocks(text):
    """(line number, text) of every paragraph and list item."""
    number, held = 0, []
    for at, line in enumerate([*plain_text(text).splitlines(), ""], 1):
        apart = not line.strip() or line.startswith(("#", "|"))
        if held and (apart or ITEM.match(line)):
            yield number, " ".join(held)
            held = []
        if not apart:
            number = number if held else at
            held.append(ITEM.sub("", line, count=1) if not held else line.strip())


def sentences(text):
    """(line number of its paragraph, words) of every sentence."""
    for number, block in blocks(text):
        for sentence in END.split(block):
            count = len(WORD.findall(sentence))
            if count:
                yield number, count


def avoided(text):
    """(line number, name) of every use of a word to avoid."""
    for number, line in enumerate(plain_text(text).splitlines(), 1):
        for name, pattern in AVOIDED.items():
            for _ in pattern.findall(line):
                yield number, name


def long_lines(text):
    """(line number, characters) of long lines of prose: no code, no table, nothing that a program wrote."""
    def blank(match):
        return "\n" * match[0].count("\n")
    for number, line in enumerate(FENCED.sub(blank, WRITTEN.sub(blank, text)).splitlines(), 1):
        if len(line) > WIDTH and not line.startswith(("|", "    ")):
            yield number, len(line)
