# SPDX-License-Identifier: Apache-2.0
"""scripts/rerun_pages finds what a page no longer says, writes it anew, and a sample of pages has no other figures.

usage: rerun_pages_test.py MOESIM PAGE...
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
MOESIM, SAMPLE = str(pathlib.Path(sys.argv[1]).resolve()), sys.argv[2:]

MADE = "Made by `scripts/rerun_pages`: version 0, 2026-01-01, 3 s of CPU time.\n"
# What commands of comparisons print: two tables of the same cases.
COMMANDS = """\
```sh
cat <<END
# a line of the header
| topology | policy | step | speedup |
|---|---|---:|---:|
| a | one | 4 ms | 1.00x |
| a | two | 2 ms | 2.00x |
| b | one | 8 ms | 1.00x |

| topology | policy | memory |
|---|---|---:|
| a | one | 1 GB |
| a | two | 2 GB |
| b | one | 3 GB |
END
```
"""
PIVOT = """\
| policy | a | b |
|---|---|---|
| one | 4 ms, 1.00x | 8 ms, 1.00x |
| two | 2 ms, 2.00x | - |
"""
ONE_CLUSTER = """\
| policy | step | memory |
|---|---|---|
| one | 4 ms | 1 GB |
| two | 2 ms | 2 GB |
"""


def marked(what, rows):
    return f"<!-- rerun: {what} -->\n{rows}<!-- end -->\n"


RIGHT = ("# A page\n\n" + MADE + "\n" + COMMANDS + marked("policy, step, speedup by topology", PIVOT) + "\nWords.\n\n" +
         marked("policy, step, memory where topology = a", ONE_CLUSTER))


class RerunPages(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def rerun(self, text, *flags):
        """Of a page with this text: (exit status, what is printed, the page afterwards)."""
        page = pathlib.Path(self.folder.name) / "page.md"
        page.write_text(text, encoding="utf-8")
        done = subprocess.run([ROOT / "scripts/rerun_pages", "--moesim", MOESIM, *flags, page], text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, check=False)
        return done.returncode, done.stdout, page.read_text(encoding="utf-8")

    def test_a_page_that_says_what_its_commands_print(self):
        status, printed, page = self.rerun(RIGHT)
        self.assertEqual((status, page), (0, RIGHT), printed)
        self.assertIn("page.md: the same figures", printed)

    def test_another_figure_is_found_and_left(self):
        old = RIGHT.replace("| two | 2 ms, 2.00x", "| two | 3 ms, 1.33x")
        status, printed, page = self.rerun(old)
        self.assertEqual((status, page), (1, old), printed)
        self.assertIn("-| two | 3 ms, 1.33x | - |\n+| two | 2 ms, 2.00x | - |", printed)

    def test_writing_replaces_figures_and_dates_the_page(self):
        status, printed, page = self.rerun(RIGHT.replace("2 GB |\n<!--", "7 GB |\n<!--"), "--write")
        self.assertEqual(status, 0, printed)
        made = next(line for line in page.splitlines() if line.startswith("Made by"))
        version = subprocess.run([MOESIM, "--version"], capture_output=True, text=True, check=True).stdout.split()[-1]
        self.assertIn(f"version {version}, 20", made)
        self.assertEqual(page.replace(made + "\n", MADE), RIGHT)

    def test_lines_as_printed(self):
        text = MADE + "```sh\nprintf '# 1\\na  b\\n1  2\\n'\n```\n" + marked("printed", "```\na  b\n1  2\n```\n")
        status, printed, _ = self.rerun(text)
        self.assertEqual(status, 0, printed)

    def test_a_column_that_is_not_printed_is_named(self):
        status, printed, _ = self.rerun(MADE + COMMANDS + marked("policy, stepp", ""))
        self.assertEqual(status, 1)
        self.assertIn("no column 'stepp' is printed, but topology, policy, step, speedup, memory", printed)

    def test_a_command_that_fails_is_named_and_nothing_is_written(self):
        text = MADE + "```sh\nmoesim compare no-such-file.yaml\n```\n" + marked("printed", "")
        status, printed, page = self.rerun(text, "--write")
        self.assertEqual((status, page), (1, text))
        self.assertIn("moesim compare no-such-file.yaml", printed)

    def test_public_traces_are_read_only_if_they_are_there(self):
        text = MADE + "```sh traces\ncat $TRACES/printed\n```\n" + marked("printed", "```\nold\n```\n")
        self.assertEqual(self.rerun(text)[0], 0)
        traces = pathlib.Path(self.folder.name)
        (traces / "printed").write_text("new\n", encoding="utf-8")
        status, printed, _ = self.rerun(text, "--traces", traces)
        self.assertEqual(status, 1)
        self.assertIn("-old\n+new\n", printed)

    def test_pages_that_take_long_are_named(self):
        long = RIGHT.replace(" 3 s of", " 601 s of").replace("4 ms, ", "5 ms, ")
        status, printed, _ = self.rerun(long)
        self.assertEqual(status, 0)
        self.assertIn("page.md: takes 601 s of CPU time, left out (--all)", printed)
        self.assertEqual(self.rerun(long, "--all")[0], 1)

    def test_a_page_says_why_it_is_not_rerun(self):
        self.assertEqual(self.rerun("# A page\n\nNot rerun: it needs\nGPUs.\n")[:2],
                         (0, "page.md: not rerun: it needs GPUs.\n"))
        status, printed, _ = self.rerun("# A page\n")
        self.assertEqual(status, 1)
        self.assertIn("says neither how it was made nor why not", printed)

    def test_pages_may_be_named_without_their_folder(self):
        def listed(name):
            return subprocess.run([ROOT / "scripts/rerun_pages", "--list", name], capture_output=True, text=True, check=False)

        self.assertIn("fsep.md: takes", listed("fsep.md").stdout)
        missing = listed("fsap.md")
        self.assertEqual(missing.returncode, 2)
        self.assertIn("no page is called 'fsap.md'", missing.stderr)

    def test_every_result_page_says_how_it_was_made(self):
        done = subprocess.run([ROOT / "scripts/rerun_pages", "--list"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertGreater(done.stdout.count("s of CPU time"), 5)

    def test_a_sample_of_pages_has_no_other_figures(self):
        for page in SAMPLE:
            with self.subTest(page=page):
                done = subprocess.run([ROOT / "scripts/rerun_pages", "--all", "--moesim", MOESIM, ROOT / page],
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
                self.assertIn("the same figures", done.stdout)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
