#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes C++ of a CUDA source: launches become calls, all else is left to emulated.h.

usage: translate.py IN.cu OUT.cpp
"""
import pathlib
import re
import sys

source, out = map(pathlib.Path, sys.argv[1:])
text, launches = re.subn(r"([\w:]+)<<<(.+?)>>>\(", r"moesim::emulated::launch(\2, \1, ", source.read_text())
if not launches or "<<<" in text:
    sys.exit(f"translate.py: {source}: launches that are not NAME<<<GRID, THREADS, SHARED, STREAM>>>(...)")
out.write_text(f'#include "tests/realhw/emulated/emulated.h"\n#line 1 "{source}"\n{text}')
