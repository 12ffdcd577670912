#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Puts the page of reports together and writes it as a C++ source.

usage: assemble.py OUTPUT TEMPLATE PART...

In the template `/*STYLE*/` stands for the parts that end in .css, `/*LIBRARY*/` for those in .min.js, `/*SCRIPT*/`
for the other scripts, in the order of the command line, and `/*RESULTS*/` for what moesim fills in.
"""
import pathlib
import sys

CHUNK = 12000  # letters of a literal: compilers need not take longer ones
DELIMITER = "moesim"


def filled(template, parts):
    """The template with all parts, cut where the results go."""
    texts = {name: [] for name in ("STYLE", "LIBRARY", "SCRIPT")}
    for part in parts:
        kind = "STYLE" if part.suffix == ".css" else "LIBRARY" if part.name.endswith(".min.js") else "SCRIPT"
        text = part.read_text(encoding="utf-8")
        if "</script" in text or "</style" in text or f'){DELIMITER}"' in text:
            sys.exit(f"{part}: would end the element or the literal that holds it")
        texts[kind].append(text)
    for name, of_kind in texts.items():
        template = template.replace(f"/*{name}*/", "\n".join(of_kind))
    before, after = template.split("/*RESULTS*/")
    return before, after, bool(texts["LIBRARY"])


def literal(text):
    chunks = (text[i:i + CHUNK] for i in range(0, len(text), CHUNK))
    return "\n".join(f'R"{DELIMITER}({chunk}){DELIMITER}"' for chunk in chunks)


def main():
    output, template, *parts = map(pathlib.Path, sys.argv[1:])
    before, after, charts = filled(template.read_text(encoding="utf-8"), parts)
    output.write_text(f"""// Written by assemble.py.
#include "sim/html/page_text.h"

namespace moesim {{
const std::string_view page_before_results =
{literal(before)};
const std::string_view page_after_results =
{literal(after)};
const bool page_has_charts = {str(charts).lower()};
}}  // namespace moesim
""", encoding="utf-8")


if __name__ == "__main__":
    main()
