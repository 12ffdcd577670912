# SPDX-License-Identifier: Apache-2.0
"""Many mutants of a source in one text, of which the environment variable MOESIM_MUTANT chooses one at run time.

A mutant becomes a choice around the least expression that holds the changed place, between the delimiters next to it:
`f(a + 1, b)` becomes `f((moesim_mutant(17) ? (a - 1) : (a + 1)), b)`. A statement that is left out, and a `continue`, become
an `if`. What such a choice cannot hold (template arguments, constant expressions) does not compile; `Schemata.drop` takes it
out again.
"""
import itertools
import re

DECLARATION = 'extern "C" bool moesim_mutant(int) noexcept; '
OPEN, CLOSE = "([{", ")]}"
CONTROL = re.compile(r"(?:\b(?:if|for|while|switch)|\bif constexpr)\s*$")
LEADING = re.compile(r"\s*(?:(?:else|do|return|throw)\b\s*)?")
LITERAL = re.compile(r'"(?:\\.|[^"\\\n])*"|(?<!\w)\'(?:\\.|[^\'\\\n])+\'|//.*')


def blank(text):
    return re.sub(r"[^\n]", " ", text)


def masked(text):
    """The text with the contents of literals and comments blank: places stay where they are."""
    return LITERAL.sub(lambda found: '"' + blank(found[0][1:-1]) + '"' if found[0][0] != "/" else blank(found[0]), text)


def uncommented(text):
    return LITERAL.sub(lambda found: blank(found[0]) if found[0].startswith("//") else found[0], text)


def partner(mask, at):
    """The bracket that closes the one at `at`, or opens it; None if there is none."""
    step, depth = (1, 0) if mask[at] in OPEN else (-1, 0)
    while 0 <= at < len(mask):
        depth += (mask[at] in OPEN) - (mask[at] in CLOSE)
        if depth == 0:
            return at
        at += step
    return None


def closes_more(mask):
    """Whether it holds a bracket that closes one before it."""
    depths = itertools.accumulate((char in OPEN) - (char in CLOSE) for char in mask)
    return min(depths, default=0) < 0


def starts_statement(mask, at):
    """Whether a statement begins behind a closing brace, before `at`: what continues an expression is an operator."""
    behind = mask[at:].lstrip()[:1]
    return behind == "" or behind.isalnum() or behind in "_*({}+"


def assigns(mask, at):
    """Whether the = at `at` is of an assignment, not of a comparison."""
    return mask[at + 1:at + 2] != "=" and mask[at - 1] not in "=!<>"


def region_start(mask, at):
    """Where the expression begins that holds the place `at`."""
    while at > 0:
        char = mask[at - 1]
        if char in OPEN or char in ",;?" or (char == "=" and assigns(mask, at - 1)):
            return at
        if char == ":" and "::" not in (mask[at - 2:at], mask[at - 1:at + 1]):
            return at
        if char == "}" and starts_statement(mask, at):
            return at
        if char == "\n" and mask[mask.rfind("\n", 0, at - 1) + 1:at].lstrip().startswith("#"):
            return at
        if char in CLOSE:
            opening = partner(mask, at - 1)
            if opening is None:
                return None
            if char == ")" and CONTROL.search(mask, 0, opening):
                return at
            at = opening
        else:
            at -= 1
    return at


def begins(mask, at):
    """Whether a statement does at the first place of a line that is not blank, instead of continuing from the line before."""
    before = mask[:at].rstrip()
    last_line = before[before.rfind("\n") + 1:].lstrip()
    ended = before[-1:] in ("", ";", "{", "}", ":", ")") or last_line.startswith("#") or re.search(r"\b(?:else|do)$", before)
    return bool(ended) and mask[at] != "."


def region_end(mask, at):
    """Where the expression ends that holds the place before `at`; None of a declaration's name or type."""
    while at < len(mask):
        char = mask[at]
        if char in CLOSE or char in ",;?":
            return at
        if char == ":" and "::" not in (mask[at - 1:at + 1], mask[at:at + 2]):
            return at
        if char == "=" and assigns(mask, at):
            return None
        if char in OPEN:
            at = partner(mask, at)
            if at is None:
                return None
        at += 1
    return at


class Place:
    """A mutant: what it changes, and the expression or statement around that. `usable`: whether a choice can hold it."""

    def __init__(self, text, mask, clean, mutant):
        self.id, number, changed = mutant
        line_start = 0
        for _ in range(number - 1):
            line_start = text.index("\n", line_start) + 1
        line = text[line_start:text.index("\n", line_start)]
        prefix = 0
        while prefix < min(len(line), len(changed)) and line[prefix] == changed[prefix]:
            prefix += 1
        suffix = 0
        while suffix < min(len(line), len(changed)) - prefix and line[-1 - suffix] == changed[-1 - suffix]:
            suffix += 1
        last = line_start + len(line) - suffix
        while prefix and closes_more(mask[line_start + prefix:last]):  # `!(a) || b` becomes `!(!(a) || b)`
            prefix -= 1
        first = line_start + prefix
        self.usable = False
        self.removed = changed.strip() == ";"
        start, end = region_start(mask, first), region_end(mask, last)
        if self.removed:
            start, end = line_start + len(line) - len(line.lstrip()), line_start + line.rindex(";")
            if not begins(mask, start):
                return
        if start is None or end is None:
            return
        start = LEADING.match(mask, start).end()
        end = start + len(mask[start:end].rstrip())
        if not start <= first <= last <= max(end, last) or end < last or "#" in mask[start:end]:
            return
        copy = clean[start:first] + changed[prefix:len(changed) - suffix] + clean[last:end]
        self.copy = " ".join(copy.split("\n"))
        self.negates = self.copy == f"!({text[start:end]})"
        self.leaves = text[start:end] == "continue"
        self.end = end + (self.removed or self.leaves)  # with its semicolon
        self.start, self.usable = start, True


class Schemata:
    """A source with the mutants (id, line number, text of the line) in it."""

    def __init__(self, text, mutants):
        self.text = text
        mask, clean = masked(text), uncommented(text)
        every = [Place(text, mask, clean, mutant) for mutant in mutants]
        self.places = [place for place in every if place.usable]
        self.by_line = {}

    def ids(self):
        return {place.id for place in self.places}

    def spans(self):
        """start and end of every part of the source that holds a choice, the outer ones first, and the mutants of each."""
        grouped = {}
        for place in self.places:
            grouped.setdefault((place.start, place.end), []).append(place)
        return sorted(grouped.items(), key=lambda item: (item[0][0], -item[0][1]))

    @staticmethod
    def around(places):
        """What comes before and behind the original text, the former as (text, mutant or None)."""
        before, behind = [], ""
        for place in places:
            if place.removed:
                before.append((f"{{ if (!moesim_mutant({place.id})) {{ ", place))
                behind = " } }" + behind
            elif place.leaves:
                before.append((f"{{ if (moesim_mutant({place.id})) {{ {place.copy}; }} else {{ ", place))
                behind = " } }" + behind
        for place in places:
            if place.negates:
                before.append((f"(moesim_mutant({place.id}) != static_cast<bool>(", place))
                behind = "))" + behind
        chosen = [place for place in places if not (place.removed or place.leaves or place.negates)]
        if chosen:
            before.append(("(", None))
            before += [(f"moesim_mutant({place.id}) ? ({place.copy}) : ", place) for place in chosen]
            before.append(("(", None))
            behind = "))" + behind
        return before, behind

    def rendered(self):
        """The text, on the lines that it had."""
        events = []
        for order, ((start, end), places) in enumerate(self.spans()):
            before, behind = self.around(places)
            events.append(((start, 1, order), before))
            events.append(((end, 0, -order), [(behind, None)]))
        made, at, self.by_line = DECLARATION, 0, {}
        for (place, _, _), parts in sorted(events, key=lambda event: event[0]):
            made += self.text[at:place]
            at = place
            for part, mutant in parts:
                line, column = made.count("\n") + 1, len(made) - made.rfind("\n")
                if mutant:
                    self.by_line.setdefault(line, []).append((column, column + len(part), mutant))
                made += part
        return made + self.text[at:]

    def drop(self, errors):
        """Takes out the mutants at (line, column) of the text rendered last; whether there were any."""
        bad = {mutant.id for line, column in errors for first, end, mutant in self.by_line.get(line, [])
               if first <= column < end}
        if not bad:
            lines = {line for line, _ in errors}
            bad = {place.id for place in self.places
                   if lines & {*range(self.text.count("\n", 0, place.start) + 1, self.text.count("\n", 0, place.end) + 2)}}
        self.places = [place for place in self.places if place.id not in bad]
        return bool(bad)
