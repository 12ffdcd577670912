# SPDX-License-Identifier: Apache-2.0
"""check_layers.py accepts this repository and names every breach of a small bad tree."""
import unittest

from source_check import SourceCheck

BAD_TREE = {
    "sim/base/error.h": '#pragma once\n#include <yaml-cpp/yaml.h>\n#include "sim/model/kernel.h"\n',
    "sim/trace/reader.h": '#include "sim/base/error.h"\n#include "sim/topology/route/graph.h"\n',
    "sim/topology/route/graph.cpp": "#include <boost/graph/adjacency_list.hpp>\n#include <fmt/format.h>\n",
    "sim/plan/plan.h": '#include "sim/trace/reader.h"\n#  include "sim/mechanism/dispatch.h"\n',
    "sim/planner/pipeline/order.cpp": '#include "sim/planner/layer/layer_ops.h"\n',
    "sim/mechanism/dispatch/flat.cpp": '#include "sim/mechanism/dispatch.h"\n#include "sim/engine/port.h"\n'
                                       "int groups = topology.gpu_count() / context.ep;\n"
                                       "int per_rank = experts / ep;  // of gpu_count()\nint rank = gpu % ep;\n",
    "sim/mechanism/ep_groups.cpp": "int groups = topology.gpu_count() / ep;\n",
    "sim/engine/port.cpp": '#include <simgrid/s4u.hpp>\n#include "sim/mechanism/dispatch.h"\n',
    "sim/report/table.cpp": "// words\n#include <simgrid/s4u.hpp>\n#include <yaml-cpp/yaml.h>\n",
    "sim/run/simulate.cpp": '#include "sim/engine/port.h"\n#include "sim/cli/commands.h"\n#include "sim/flags/usage.h"\n',
    "sim/cli/main.cpp": '#include "sim/engine/port.h"\n#include "realhw/mpi/run.h"\n',
    "sim/extra/new.cpp": "",
    "sim/model/kernel.cpp": '#include "kernel.h"\n',
    "realhw/mpi/run.cpp": '#include "realhw/run.h"\n#include "sim/mechanism/dispatch.h"\n'
                          '#include "sim/engine/port.h"\n',
}

BREACHES = """\
sim/base/error.h:3: sim/base may not include sim/model
sim/cli/main.cpp:2: sim/cli may not include realhw
sim/engine/port.cpp:2: sim/engine may not include sim/mechanism
sim/extra/new.cpp:1: sim/extra is not a known layer
sim/mechanism/dispatch/flat.cpp:2: sim/mechanism may not include sim/engine
sim/mechanism/dispatch/flat.cpp:3: policies see one EP group: sim/mechanism/ep_groups.h knows the cluster
sim/mechanism/dispatch/flat.cpp:5: policies see one EP group: sim/mechanism/ep_groups.h knows the cluster
sim/model/kernel.cpp:1: include paths start at the root of the repository
sim/plan/plan.h:2: sim/plan may not include sim/mechanism
sim/planner/pipeline/order.cpp:1: sim/planner/pipeline may not include sim/planner
sim/report/table.cpp:2: only sim/engine may include <simgrid/...>
sim/report/table.cpp:3: only sim/base may include <yaml-cpp...>
sim/run/simulate.cpp:2: sim/run may not include sim/cli
sim/run/simulate.cpp:3: sim/run may not include sim/flags
sim/trace/reader.h:2: sim/trace may not include sim/topology
realhw/mpi/run.cpp:3: realhw may not include sim/engine
"""


class CheckLayers(SourceCheck, unittest.TestCase):
    script = "check_layers.py"
    bad_tree = BAD_TREE
    problems = BREACHES


if __name__ == "__main__":
    unittest.main()
