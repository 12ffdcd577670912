#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Assembles the report page from its parts and writes it as a C++ source.

usage: assemble.py OUTPUT TEMPLATE PART...

In the template `/*STYLE*/` stands for the parts that end in .css, `/*LIBRARY*/` for those in .min.js, `/*SCRIPT*/`
for the other scripts, in the order of the command line, and `/*RESULTS*/` for what moesim fills in. A template
NAME.html without /*RESULTS*/ becomes the variable NAME_page.
"""
import pathlib
import sys

CHUNK = 12000  # characters of a literal: compilers need not accept longer ones
DELIMITER = "moesim"


def filled(template, parts):
    """(the template with all parts, in two pieces if results go between them; whether it has charts)."""
    texts = {name: [] for name in ("STYLE", "LIBRARY", "SCRIPT")}
    for part in parts:
        kind = "STYLE" if part.suffix == ".css" else "LIBRARY" if part.name.endswith(".min.js") else "SCRIPT"
        text = part.read_text(encoding="utf-8")
        if "</script" in text or "</style" in text or f'){DELIMITER}"' in text:
            sys.exit(f"{part}: has text that would end its HTML element or its literal")
        texts[kind].append(text)
    for name, of_kind in texts.items():
        template = template.replace(f"/*{name}*/", "\n".join(of_kind))
    return template.split("/*RESULTS*/"), bool(texts["LIBRARY"])


def literal(text):
    chunks = (text[i:i + CHUNK] for i in range(0, len(text), CHUNK))
    return "\n".join(f'R"{DELIMITER}({chunk}){DELIMITER}"' for chunk in chunks)


def main():
    output, template, *parts = map(pathlib.Path, sys.argv[1:])
    texts, charts = filled(template.read_text(encoding="utf-8"), parts)
    names = ("page_before_results", "page_after_results") if len(texts) == 2 else (f"{template.stem}_page",)
    variables = [f"const std::string_view {name} =\n{literal(text)};\n" for name, text in zip(names, texts)]
    if len(texts) == 2:
        variables.append(f"const bool page_has_charts = {str(charts).lower()};\n")
    output.write_text("// Written by assemble.py.\n"
                      '#include "sim/html/explore_page.h"\n#include "sim/html/report_page.h"\n\n'
                      f"namespace moesim {{\n{''.join(variables)}}}  // namespace moesim\n", encoding="utf-8")


if __name__ == "__main__":
    main()
