#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/release on a copy of the files that it writes.

usage: release_test.py ROOT
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv[1])
FILES = ("meson.build", "scripts/python/pyproject.toml", "CITATION.cff", "CHANGELOG.md")


class Release(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name in FILES:
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, self.root / name)
        self.changelog = self.root / "CHANGELOG.md"
        self.unreleased = self.changelog.read_text(encoding="utf-8").replace("\n## Unreleased\n",
                                                                            "\n## Unreleased\n\n- A change.\n")
        self.changelog.write_text(self.unreleased, encoding="utf-8")  # right after a release there is none

    def release(self, *words):
        return subprocess.run([sys.executable, ROOT / "scripts/release", *words, "--root", self.root], capture_output=True,
                              text=True, check=False)

    def citation(self):
        return (self.root / "CITATION.cff").read_text(encoding="utf-8")

    def test_all_places_name_one_version(self):
        self.assertEqual(self.release("--check").returncode, 0)

    def test_no_page_has_to_change_with_it(self):
        version = self.release("--check").stdout.strip()
        for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):  # results are of the version that they name
            self.assertNotIn(f"moesim {version}", page.read_text(encoding="utf-8"), page)

    def test_a_release(self):
        done = self.release("99.1.2", "--date", "2030-01-02")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.release("--check").stdout, "99.1.2\n")
        changelog = self.changelog.read_text(encoding="utf-8")
        self.assertIn("\n## Unreleased\n\n## 99.1.2 (2030-01-02)\n\n- A change.\n", changelog)
        self.assertEqual(len(changelog), len(self.unreleased) + len("\n## 99.1.2 (2030-01-02)\n"))
        self.assertIn("\nversion: 99.1.2\ndate-released: 2030-01-02\n", self.citation())
        again = self.release("99.1.3")
        self.assertIn("nothing is unreleased", again.stderr)
        self.changelog.write_text(self.unreleased, encoding="utf-8")
        self.assertEqual(self.release("99.1.3", "--date", "2030-03-04").returncode, 0)
        self.assertIn("\nversion: 99.1.3\ndate-released: 2030-03-04\n", self.citation())
        self.assertEqual(self.citation().count("date-released"), 1)

    def test_what_is_no_release(self):
        for words, message in ((["0.0.1"], "does not follow"), (["1.2"], "is not a version"), ([], "which version?")):
            with self.subTest(words=words):
                self.assertIn(message, self.release(*words).stderr)
        (self.root / "CITATION.cff").write_text("version: 9.9.9\n", encoding="utf-8")
        self.assertIn("CITATION.cff has 9.9.9", self.release("--check").stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
