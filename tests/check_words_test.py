# SPDX-License-Identifier: Apache-2.0
"""check_words.py accepts this repository, and finds words to avoid in messages, but neither in comments nor in names."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))
import check_words  # noqa: E402

SOURCE = r"""// This comment stands alone. "alone"
#include "beside/alone.h"
/* "beside" */ const char quote = '"', slash = '\\', other = '\"';
const int million = 1'000'000;
throw Error("it stands alone",
            "those "  // the word goes over two literals
            "that fit\n");
text = R"(a raw "text"
beside it)";
say("--beside RANKS and `alone` are names, \"beside\" is quoted");
"""


class Messages(unittest.TestCase):
    def test_literals(self):
        self.assertEqual(list(check_words.messages(SOURCE)), [
            (5, "it stands alone"), (6, "those that fit "), (8, 'a raw "text"\nbeside it'),
            (10, '--beside RANKS and `alone` are names, \\"beside\\" is quoted')])

    def tree(self, root):
        path = pathlib.Path(root, "sim/base/a.cpp")
        path.parent.mkdir(parents=True)
        path.write_text(SOURCE, encoding="utf-8")
        return pathlib.Path(root)

    def test_places(self):
        with tempfile.TemporaryDirectory() as root:
            found = list(check_words.places(self.tree(root)))
        self.assertEqual(sorted(found), [("sim/base/a.cpp", 5, "alone"), ("sim/base/a.cpp", 6, "those that"),
                                         ("sim/base/a.cpp", 8, "beside")])

    def test_only_what_is_beyond_its_bound(self):
        with tempfile.TemporaryDirectory() as root:
            tree = self.tree(root)
            self.assertEqual(check_words.check(tree, {"alone": 1, "those that": 1, "beside": 1}), [])
            self.assertEqual(check_words.check(tree, {"alone": 1, "those that": 0, "beside": 1}), [
                "sim/base/a.cpp:6: a message says 'those that'",
                "'those that' is 1 times in messages, more than 0: say it in plain English"])

    def test_accepts_the_repository(self):
        done = subprocess.run([sys.executable, ROOT / "scripts/check_words.py", ROOT], capture_output=True, text=True)
        self.assertEqual((done.stdout, done.returncode), ("", 0))


if __name__ == "__main__":
    unittest.main()
