# SPDX-License-Identifier: Apache-2.0
"""The C++ sources of a checkout, for scripts that check them."""
import pathlib
import sys

SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}


def sources(root):
    """(path from the root, text) of every source, in the order of their paths within sim, then realhw."""
    for top in ("sim", "realhw"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SUFFIXES:
                yield path.relative_to(root).as_posix(), path.read_text(encoding="utf-8")


def report(check):
    """Prints what check(root) finds in the checkout that the command line names; exits 1 when there is any."""
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[1])
    if not (root / "sim").is_dir():
        sys.exit(f"{root} has no folder sim")
    problems = check(root)
    for line in problems:
        print(line)
    sys.exit(1 if problems else 0)
