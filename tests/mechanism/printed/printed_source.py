# SPDX-License-Identifier: Apache-2.0
"""Writes the C++ source that a page prints, so that the tests build it as it stands there.

usage: printed_source.py PAGE OUTPUT
"""
import pathlib
import re
import sys

page, output = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
blocks = re.findall(r"^```cpp\n(// SPDX.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
if len(blocks) != 1:
    sys.exit(f"{page} prints {len(blocks)} whole sources, not one")
output.write_text(blocks[0], encoding="utf-8")
