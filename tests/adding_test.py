# SPDX-License-Identifier: Apache-2.0
"""What docs/adding-a-*.md print is all that a new mechanism touches, and fits the files that it goes into.

usage: adding_test.py COMPILER [ARGUMENT ...]
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[1]
MOST_FILES = {"dispatch": 3, "placement": 4}
BLOCK = re.compile(r"`((?:sim|tests)/[\w/.-]+)`:\n\n```\w+\n(.*?)^```$", re.DOTALL | re.MULTILINE)
COMPILER = []


def common(a, b):
    """How many characters two lines begin with alike."""
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def place(lines, line):
    """Of the lines that begin most like it, the first that sorts after it; behind the last of them when none does."""
    most = max(common(other, line) for other in lines)
    alike = [i for i, other in enumerate(lines) if common(other, line) == most]
    return next((i for i in alike if lines[i] > line), alike[-1] + 1)


def with_added(text, added):
    """The text with printed lines at their places; a line that continues the one before follows it."""
    lines, at, depth = text.splitlines(), 0, -2
    for line in added.splitlines():
        indent = len(line) - len(line.lstrip())
        if indent == depth + 1:
            at += 1
        else:
            at, depth = place(lines, line), indent
        lines.insert(at, line)
    return "\n".join(lines) + "\n"


class Pages(unittest.TestCase):
    def check(self, kind):
        blocks = BLOCK.findall((ROOT / f"docs/adding-a-{kind}.md").read_text(encoding="utf-8"))
        self.assertEqual(len({path for path, _ in blocks}), MOST_FILES[kind], blocks)
        new = [path for path, _ in blocks if not (ROOT / path).exists()]
        self.assertEqual(len(new), 1, new)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for path, text in blocks:
            before = (ROOT / path).read_text(encoding="utf-8") if path not in new else ""
            after = with_added(before, text) if before else text
            changed = pathlib.Path(folder.name, pathlib.Path(path).name)
            changed.write_text(after, encoding="utf-8")
            if path.endswith("table.cpp"):
                done = subprocess.run([*COMPILER, "-std=c++20", "-fsyntax-only", "-Wall", "-Werror", f"-I{ROOT}", str(changed)],
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
            elif path.endswith("meson.build"):
                names = re.findall(r"^  '([\w/]+\.cpp)',$", after, re.MULTILINE)
                self.assertEqual(names, sorted(names))
                self.assertIn(new[0], [f"sim/mechanism/{name}" for name in names])

    def test_a_dispatch_takes_three_files(self):
        self.check("dispatch")

    def test_a_placement_takes_four_files(self):
        self.check("placement")


if __name__ == "__main__":
    COMPILER = sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
