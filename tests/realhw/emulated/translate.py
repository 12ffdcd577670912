#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes C++ of a CUDA source: launches and shared memory become calls, all else is left to emulated.h.

usage: translate.py IN.cu OUT.cpp
"""
import pathlib
import re
import sys

source, out = map(pathlib.Path, sys.argv[1:])
text = source.read_text()
fibers = "true" if re.search(r"__sync|_sync\(", text) else "false"
text, launches = re.subn(r"([\w:]+)<<<(.+?)>>>\(", rf'moesim::emulated::launch("\1", {fibers}, \2, \1, ', text)
if not launches or "<<<" in text:
    sys.exit(f"translate.py: {source}: launches that are not NAME<<<GRID, THREADS, SHARED, STREAM>>>(...)")
text = re.sub(r"extern __shared__ (\w+) (\w+)\[\];", r"auto* \2 = moesim::emulated::dynamic_shared<\1>();", text)
text = re.sub(r"__shared__ (\w+) (\w+)\[(\w+)\];", r'auto& \2 = moesim::emulated::shared<\1[\3]>("\2");', text)
if "__shared__" in text:
    sys.exit(f"translate.py: {source}: shared memory that is not __shared__ TYPE NAME[COUNT];")
out.write_text(f'#include "tests/realhw/emulated/emulated.h"\n#line 1 "{source}"\n{text}')
