# SPDX-License-Identifier: Apache-2.0
"""Pages whose commands are run as a reader would: files written, commands run, printed lines found again.

usage: run_pages_test.py MOESIM PAGE...

A page is a script. A fenced block "sh" runs in one folder that the page's blocks share, "yaml NAME" and
"python NAME" write a file there, and a block without a language holds lines of what the last "sh" printed,
in order; "..." stands for anything, also for lines that are left out.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[1]
FENCE = re.compile(r"^```(?P<language>\w*)[ ]?(?P<name>\S*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


def environment(moesim):
    """A shell in which `moesim` is on the path and names are found, as after an installation."""
    path = os.pathsep.join([str(pathlib.Path(moesim).resolve().parent), str(pathlib.Path(sys.executable).parent),
                            os.environ["PATH"]])
    return os.environ | {"PATH": path, "MOESIM_DATA": str(ROOT), "PYTHONPATH": str(ROOT / "scripts" / "python")}


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
        printed = ""
        for block in FENCE.finditer(page.read_text(encoding="utf-8")):
            language, name, body = block["language"], block["name"], block["body"]
            if language == "sh":
                done = subprocess.run(["bash", "-eo", "pipefail", "-c", body], cwd=folder, text=True, timeout=120,
                                      capture_output=True, env=environment(self.moesim), check=False)
                self.assertEqual(done.returncode, 0, f"{page.name}: {body}{done.stderr}")
                printed = done.stdout + done.stderr
            elif name:
                (pathlib.Path(folder) / name).write_text(body, encoding="utf-8")
            elif not language:
                missing = first_missing(body, printed)
                self.assertIsNone(missing, f"{page.name}: the commands no longer print\n{missing}\nbut\n{printed}")

    def test_pages(self):
        for page in self.pages:
            with self.subTest(page=page), tempfile.TemporaryDirectory() as folder:
                self.run_page(ROOT / page, folder)

    def test_what_quickstart_prints_stands_in_the_readme(self):
        readme = (ROOT / "README.md").read_text(encoding="utf-8")
        table = next(block["body"] for block in FENCE.finditer(readme) if block["body"].startswith("# moesim "))
        done = subprocess.run([self.moesim, "compare", "scenarios/quickstart.yaml"], cwd=ROOT, text=True,
                              capture_output=True, check=True, env=os.environ | {"COLUMNS": "80"})
        self.assertIsNone(first_missing(table, done.stdout))
        left_out = [line for line in done.stdout.splitlines()
                    if not any(matches(pattern, line) for pattern in table.splitlines())]
        self.assertEqual(left_out, [])

    def test_a_line_that_is_not_printed_is_found(self):
        self.assertIsNone(first_missing("a ... c\n...\ne\n", "a b c\nd\ne\n"))
        self.assertEqual(first_missing("e\na b c\n", "a b c\nd\ne\n"), "a b c")


if __name__ == "__main__":
    RunPages.moesim, RunPages.pages = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:]
    unittest.main(argv=sys.argv[:1])
