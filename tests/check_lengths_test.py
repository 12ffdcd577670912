# SPDX-License-Identifier: Apache-2.0
"""check_lengths.py accepts this repository and names every file that is too long in a small bad tree."""
import unittest

from source_check import SourceCheck


class CheckLengths(SourceCheck, unittest.TestCase):
    script = "check_lengths.py"
    bad_tree = {"sim/base/a.h": "\n" * 300, "sim/base/b.cpp": "\n" * 301, "realhw/c.cu": "\n" * 400}
    problems = ("sim/base/b.cpp:301: the file has 301 lines, more than 300\n"
                "realhw/c.cu:301: the file has 400 lines, more than 300\n")


if __name__ == "__main__":
    unittest.main()
