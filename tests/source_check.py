# SPDX-License-Identifier: Apache-2.0
"""What tests of scripts that check sources have in common."""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[1]


class SourceCheck:
    """The tests of one script; a subclass says which, and what it finds in a small bad tree."""

    script = ""
    bad_tree = {}  # path -> text
    problems = ""

    def run_script(self, root):
        return subprocess.run([sys.executable, ROOT / "scripts" / self.script, root], capture_output=True, text=True)

    def test_accepts_the_repository(self):
        result = self.run_script(ROOT)
        self.assertEqual((result.stdout, result.returncode), ("", 0))

    def test_names_every_problem(self):
        with tempfile.TemporaryDirectory() as root:
            for name, text in self.bad_tree.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            result = self.run_script(root)
            self.assertEqual((result.stdout, result.returncode), (self.problems, 1))

    def test_needs_the_sources(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(self.run_script(root).returncode, 1)
