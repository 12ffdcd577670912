# SPDX-License-Identifier: Apache-2.0
"""Pages whose commands are run as a reader would: files written, commands run, printed lines found again.

usage: run_pages_test.py MOESIM PAGE...

A page is a script. A fenced block "sh" runs in one folder that the page's blocks share, "yaml NAME" and
"python NAME" write a file there, and a block without a language holds lines of what the last "sh" printed,
in order; "..." stands for anything, also for lines that are left out.
"""
import pathlib
import re
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
from page_runs import FENCE, PageRun  # noqa: E402


def matches(pattern, line):
    parts = [re.escape(part) for part in pattern.rstrip().split("...")]
    return re.fullmatch(".*".join(parts), line.rstrip()) is not None


def first_missing(expected, printed):
    """The first expected line that does not come after those before it, or None."""
    lines = iter(printed.splitlines())
    for pattern in expected.splitlines():
        if pattern.strip() in ("", "..."):
            continue
        if not any(matches(pattern, line) for line in lines):
            return pattern
    return None


class RunPages(unittest.TestCase):
    moesim = ""
    pages = []

    def run_page(self, page, folder):
        run = PageRun(self.moesim, folder, timeout=120)
        for block in FENCE.finditer(page.read_text(encoding="utf-8")):
            if not run.run(block) and not block["language"] and not block["name"]:
                printed = run.last.stdout + run.last.stderr if run.last else ""
                missing = first_missing(block["body"], printed)
                self.assertIsNone(missing, f"{page.name}: the commands no longer print\n{missing}\nbut\n{printed}")

    def test_pages(self):
        for page in self.pages:
            with self.subTest(page=page), tempfile.TemporaryDirectory() as folder:
                self.run_page(ROOT / page, folder)

    def test_a_line_that_is_not_printed_is_found(self):
        self.assertIsNone(first_missing("a ... c\n...\ne\n", "a b c\nd\ne\n"))
        self.assertEqual(first_missing("e\na b c\n", "a b c\nd\ne\n"), "a b c")


if __name__ == "__main__":
    RunPages.moesim, RunPages.pages = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
