#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds CUDA's parts, the compiler's own first, then those of Python environments' packages.

usage: find_cuda.py NVCC NAME...

Prints the folder that holds each file NAME (a header or a library), one a line; exits 1, naming them, when some
are nowhere. Looked through: $NCCL_HOME and $CUBLAS_HOME, what lies around nvcc, $CUDA_HOME, $CUDA_PATH, packages
of Python environments that fit the compiler's CUDA, what $CPATH and $LIBRARY_PATH list, /usr.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOMS = ("include", "lib64", "lib", "targets/x86_64-linux/include", "targets/x86_64-linux/lib", "lib/x86_64-linux-gnu")


def major_of(nvcc):
    """Of the CUDA that nvcc belongs to; None: there is no nvcc or it does not tell."""
    try:
        told = subprocess.run([nvcc, "--version"], capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    release = re.search(r"release (\d+)\.", told)
    return int(release[1]) if release else None


def site_packages():
    """Of the active Python environments, of the python3 on the path, and of this Python."""
    folders = [pathlib.Path(os.environ[v]) / "lib" for v in ("VIRTUAL_ENV", "CONDA_PREFIX") if os.environ.get(v)]
    python = shutil.which("python3")
    folders += [path.parents[1] / "lib" for path in (pathlib.Path(python), pathlib.Path(python).resolve())] if python else []
    found = [path / "site-packages" for folder in folders for path in sorted(folder.glob("python3*"))]
    return list(dict.fromkeys([*found, *(pathlib.Path(folder or ".") for folder in sys.path)]))


def packages(major):
    """Folders of pip's nvidia-* packages that fit the CUDA of that number (None: any, the newest first).

    From CUDA 13 on its parts share nvidia/cu13; before, each had its own. NCCL fits every CUDA.
    """
    for folder in site_packages():
        every = [path for path in (folder / "nvidia").glob("*") if path.is_dir()]
        shared = {path: int(path.name[2:]) for path in every if re.fullmatch(r"cu\d+", path.name)}
        yield from sorted((path for path in shared if major in (None, shared[path])), key=shared.get, reverse=True)
        own = sorted(path for path in every if path not in shared)
        yield from (path for path in own if path.name == "nccl" or major is None or major < 13)


def find_nvcc():
    """On the path, in the usual places, or in a Python environment; empty: nowhere."""
    homes = [pathlib.Path(os.environ[v]) for v in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(v)]
    folders = [home / "bin" for home in [*homes, pathlib.Path("/usr/local/cuda"), *packages(None)]]
    return next(filter(None, (shutil.which("nvcc", path=path) for path in (None, *folders))), "")


def find_libraries(nvcc):
    """NCCL and cuBLAS in packages of Python environments; empty: the loader's own search finds it or nothing does."""
    major = major_of(nvcc)
    files = {"nccl": "libnccl.so.2", "cublas": f"libcublas.so.{major or '*'}"}
    return {key: next((str(path) for package in packages(major) for path in sorted((package / "lib").glob(file))), "")
            for key, file in files.items()}


def prefixes(nvcc):
    variables = [os.environ.get(name) for name in ("NCCL_HOME", "CUBLAS_HOME", "CUDA_HOME", "CUDA_PATH")]
    homes = [pathlib.Path(value) if value else None for value in variables]
    yield from filter(None, homes[:2])
    found = shutil.which(nvcc)
    if found:
        yield pathlib.Path(found).parent.parent
        yield pathlib.Path(found).resolve().parent.parent
    yield from filter(None, homes[2:])
    yield from packages(major_of(nvcc))


def candidates(nvcc):
    """Folders, first to last."""
    for prefix in prefixes(nvcc):
        yield from (prefix / room for room in ROOMS)
    for variable in ("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH"):
        yield from map(pathlib.Path, filter(None, os.environ.get(variable, "").split(":")))
    yield from (pathlib.Path("/usr") / room for room in ROOMS)


def main():
    nvcc, *names = sys.argv[1:]
    folders = list(candidates(nvcc))
    found = [next((folder for folder in folders if (folder / name).is_file()), None) for name in names]
    if None in found:
        missing = [name for name, folder in zip(names, found) if folder is None]
        sys.exit(f"find_cuda: {', '.join(missing)}: not found around {nvcc}, in nvidia/* of Python environments, in /usr")
    print("\n".join(map(str, found)))


if __name__ == "__main__":
    main()
