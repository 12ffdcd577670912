# SPDX-License-Identifier: Apache-2.0
"""check_names.py accepts this repository and names every second definition of a small bad tree."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "check_names.py"

BAD_TREE = {
    "sim/a.h": "namespace moesim {\nstruct Shape { int n; };  // struct Size {\nclass Open;\n"
               'enum class Tier : int { leaf };\ninline const char* text = "struct Size {";\n}\n',
    "sim/b.h": "namespace moesim::other {\nstruct Shape {};\n}\nnamespace moesim {\n"
               "class Box { struct Shape {}; };\nstruct Box::Inner {};\nstruct Size {};\n}\n",
    "sim/c.cpp": "namespace moesim {\nnamespace {\nstruct Size {};\nenum class Tier { a };\n}\n"
                 "int f(Shape s) { struct Size {}; return '{' + s.n; }\n"
                 "class Open final : public Box {};\n}\n",
    "realhw/d.h": "namespace moesim {\nclass Shape final : public Box {\n};\nenum Tier { b };\n}\n",
    "realhw/e.cpp": "namespace moesim { namespace other { struct\nShape { }; } }\n",
}

PROBLEMS = """\
realhw/d.h:2: moesim::Shape is defined in sim/a.h:2, too
realhw/d.h:4: moesim::Tier is defined in sim/a.h:4, too
realhw/e.cpp:2: moesim::other::Shape is defined in sim/b.h:2, too
"""


def run(root):
    return subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)


class CheckNames(unittest.TestCase):
    def test_accepts_the_repository(self):
        result = run(ROOT)
        self.assertEqual((result.stdout, result.returncode), ("", 0))

    def test_names_every_second_definition(self):
        with tempfile.TemporaryDirectory() as root:
            for name, text in BAD_TREE.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            result = run(root)
            self.assertEqual((result.stdout, result.returncode), (PROBLEMS, 1))

    def test_needs_the_sources(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(run(root).returncode, 1)


if __name__ == "__main__":
    unittest.main()
