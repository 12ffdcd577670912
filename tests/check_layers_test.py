# SPDX-License-Identifier: Apache-2.0
"""check_layers.py accepts this repository and names every breach of a small bad tree."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[1]
SCRIPT = ROOT / "scripts" / "check_layers.py"

BAD_TREE = {
    "sim/base/error.h": '#pragma once\n#include <yaml-cpp/yaml.h>\n#include "sim/model/kernel.h"\n',
    "sim/trace/reader.h": '#include "sim/base/error.h"\n#include "sim/topology/route/graph.h"\n',
    "sim/topology/route/graph.cpp": "#include <boost/graph/adjacency_list.hpp>\n#include <fmt/format.h>\n",
    "sim/plan/plan.h": '#include "sim/trace/reader.h"\n#  include "sim/policy/dispatch.h"\n',
    "sim/policy/dispatch/flat.cpp": '#include "sim/policy/dispatch.h"\n#include "sim/engine/port.h"\n',
    "sim/engine/port.cpp": '#include <simgrid/s4u.hpp>\n#include "sim/policy/dispatch.h"\n',
    "sim/report/table.cpp": "// words\n#include <simgrid/s4u.hpp>\n#include <yaml-cpp/yaml.h>\n",
    "sim/cli/main.cpp": '#include "sim/engine/port.h"\n#include "realhw/mpi/run.h"\n',
    "sim/extra/new.cpp": "",
    "sim/model/kernel.cpp": '#include "kernel.h"\n',
    "realhw/mpi/run.cpp": '#include "realhw/run.h"\n#include "sim/policy/dispatch.h"\n'
                          '#include "sim/engine/port.h"\n',
}

BREACHES = """\
sim/base/error.h:3: sim/base may not include sim/model
sim/cli/main.cpp:2: sim/cli may not include realhw
sim/engine/port.cpp:2: sim/engine may not include sim/policy
sim/extra/new.cpp:1: sim/extra is no known layer
sim/model/kernel.cpp:1: include paths start at the root of the repository
sim/plan/plan.h:2: sim/plan may not include sim/policy
sim/policy/dispatch/flat.cpp:2: sim/policy may not include sim/engine
sim/report/table.cpp:2: only sim/engine may include <simgrid/...>
sim/report/table.cpp:3: only sim/base may include <yaml-cpp...>
sim/trace/reader.h:2: sim/trace may not include sim/topology
realhw/mpi/run.cpp:3: realhw may not include sim/engine
"""


def run(root):
    return subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)


class CheckLayers(unittest.TestCase):
    def test_accepts_the_repository(self):
        result = run(ROOT)
        self.assertEqual((result.stdout, result.returncode), ("", 0))

    def test_names_every_breach(self):
        with tempfile.TemporaryDirectory() as root:
            for name, text in BAD_TREE.items():
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            result = run(root)
            self.assertEqual((result.stdout, result.returncode), (BREACHES, 1))

    def test_needs_the_sources(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(run(root).returncode, 1)


if __name__ == "__main__":
    unittest.main()
