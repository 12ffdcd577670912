# SPDX-License-Identifier: Apache-2.0
"""check_names.py accepts this repository and names every second definition, and every source out of order, of a
small bad tree."""
import unittest

from source_check import SourceCheck

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
    "sim/meson.build": "files(\n  'b.cpp',\n  'b_c.cpp',\n  'a/z.cpp',\n  'b/a.cpp')\nfiles(\n  'a.cpp',\n  cpp_args: x)\n",
}

PROBLEMS = """\
realhw/d.h:2: moesim::Shape is defined in sim/a.h:2, too
realhw/d.h:4: moesim::Tier is defined in sim/a.h:4, too
realhw/e.cpp:2: moesim::other::Shape is defined in sim/b.h:2, too
sim/meson.build:4: a/z.cpp belongs before b_c.cpp
"""


class CheckNames(SourceCheck, unittest.TestCase):
    script = "check_names.py"
    bad_tree = BAD_TREE
    problems = PROBLEMS


if __name__ == "__main__":
    unittest.main()
