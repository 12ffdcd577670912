#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds folders of CUDA's parts outside of the compiler's own search path.

usage: find_headers.py NVCC NAME...

Prints the first folder that holds each file NAME (a header or a library), one a line; exits 1 when one is
in none. Looked through: $NCCL_HOME, $CUDA_HOME, the folders around nvcc, and packages of Python environments.
"""
import os
import pathlib
import shutil
import sys


def prefixes(nvcc):
    for variable in ("NCCL_HOME", "CUDA_HOME", "CUDA_PATH"):
        if os.environ.get(variable):
            yield pathlib.Path(os.environ[variable])
    found = shutil.which(nvcc)
    if found:
        yield pathlib.Path(found).parent.parent
        yield pathlib.Path(found).resolve().parent.parent
    for folder in sys.path:
        yield from sorted(pathlib.Path(folder or ".").glob("nvidia/*"))
    yield pathlib.Path("/usr")


def folder_of(name, nvcc):
    for prefix in prefixes(nvcc):
        for room in ("include", "lib64", "lib", "targets/x86_64-linux/include", "targets/x86_64-linux/lib",
                     "lib/x86_64-linux-gnu"):
            if (prefix / room / name).is_file():
                return prefix / room
    return None


def main():
    nvcc, *names = sys.argv[1:]
    folders = [folder_of(name, nvcc) for name in names]
    if None in folders:
        sys.exit(1)
    for folder in folders:
        print(folder)


if __name__ == "__main__":
    main()
