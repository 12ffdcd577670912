#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no source has more than 300 lines: what is longer does more than one thing.

usage: check_lengths.py [ROOT]

Prints file:line of the first line beyond and exits 1 when there is any.
"""
from sources import report, sources

MOST_LINES = 300


def check(root):
    lengths = ((path, len(text.splitlines())) for path, text in sources(root))
    return [f"{path}:{MOST_LINES + 1}: the file has {lines} lines, more than {MOST_LINES}"
            for path, lines in lengths if lines > MOST_LINES]


if __name__ == "__main__":
    report(check)
