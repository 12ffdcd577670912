#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that no file includes what is above or next to its layer, and that policies see one EP group.

usage: check_layers.py [ROOT]

Prints file:line of each breach and exits 1 when there is any.
"""
import re

from sources import report, sources

BASE = {"sim/base"}
NOUNS = BASE | {"sim/topology", "sim/trace", "sim/model"}
PLAN = NOUNS | {"sim/plan", "sim/transport"}
MECHANISM = PLAN | {"sim/collective", "sim/mechanism"}
PIPELINE = {"sim/planner/parallel", "sim/planner/pipeline"}
PLANNER = MECHANISM | {"sim/planner", "sim/planner/iteration"} | PIPELINE
RUN = PLANNER | {"sim/saved", "sim/scenario", "sim/serving", "sim/analytic", "sim/engine", "sim/print", "sim/report"}
SIM = RUN | {"sim/import", "sim/profile", "sim/linkfit", "sim/export", "sim/flags", "sim/run", "sim/html", "sim/evidence"}

# What each folder may include besides itself.
MAY_INCLUDE = {
    "sim/base": set(),
    "sim/print": BASE,
    "sim/topology": BASE,
    "sim/planner/pipeline": BASE,
    "sim/planner/parallel": BASE | {"sim/topology"},
    "sim/collective": BASE,
    "sim/transport": BASE | {"sim/topology"},
    "sim/trace": BASE,
    "sim/import": BASE | {"sim/trace"},
    "sim/model": BASE,
    "sim/serving": NOUNS,
    "sim/plan": NOUNS | {"sim/transport"},
    "sim/saved": PLAN | {"sim/planner/parallel"},
    "sim/linkfit": PLAN,
    "sim/launched": BASE | {"sim/model", "sim/topology"},
    "sim/profile": PLAN | {"sim/import", "sim/linkfit", "sim/print", "sim/report"},
    "sim/export": PLAN,
    "sim/mechanism": PLAN | {"sim/collective"},
    "sim/planner": MECHANISM,
    "sim/planner/iteration": MECHANISM | PIPELINE | {"sim/planner"},
    "sim/scenario": PLANNER | {"sim/saved", "sim/serving"},
    "sim/flags": PLANNER | {"sim/print", "sim/saved", "sim/scenario"},
    "sim/analytic": PLAN,
    "sim/failures": BASE | {"sim/plan"},
    "sim/engine": PLAN,
    "sim/report": PLAN | {"sim/print"},
    "sim/html": BASE,
    "sim/run": RUN,
    "sim/evidence": RUN | {"sim/linkfit", "sim/run"},
    "sim/sweep": RUN | {"sim/run"},
    "sim/explore": RUN | {"sim/import", "sim/profile", "sim/run", "sim/html", "sim/evidence"},
    "sim/cli": SIM | {"sim/failures", "sim/launched", "sim/sweep", "sim/explore"},
    "realhw": PLANNER | {"sim/linkfit", "sim/saved", "sim/scenario", "sim/flags", "sim/print", "sim/report"},
}

# Heavy or foreign headers and the only folders that may include each.
ONLY_IN = {
    "CLI/": "sim/flags",
    "httplib.h": "sim/explore",
    "simgrid/": "sim/engine",
    "boost/graph": "sim/topology",
    "yaml-cpp": "sim/base",
    "zip.h": "sim/import",
    "protozero/": "sim/export",
    "pugixml": "sim/topology/import",
    "simdjson.h": "sim/import",
    "sqlite3.h": ("sim/sweep", "sim/profile"),
    "mpi.h": "realhw/mpi",
    "openssl/": ("realhw/tcp/meet", "sim/trace/synth"),
    "cuda": "realhw/cuda",
    "cublas": "realhw/cuda/blas",
    "nccl.h": "realhw/nccl",
}

# Policies work on the ranks of one EP group; sim/mechanism/ep_groups.h lifts what they decide to the cluster.
POLICIES = ("sim/mechanism/dispatch/", "sim/mechanism/placement/", "sim/mechanism/routing/", "sim/planner/schedule/")
CLUSTER = re.compile(r"\b(?:gpu_count|host_count)\(|\bgroups(?:\(\))?\.gpus\(\)"
                     r"|(?<!experts) [/%] (?:\w+(?:\(\))?\.)*ep\b")
SPANS_GROUPS = {"sim/mechanism/placement/fsep/fsdp_ep.cpp"}

INCLUDE = re.compile(r'\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')


def layer_of(path):
    """The folder of MAY_INCLUDE that holds a path from the root, the innermost of two; its parent folder else."""
    parts = path.split("/")
    if parts[0] == "realhw":
        return "realhw"
    if len(parts) > 3 and "/".join(parts[:3]) in MAY_INCLUDE:
        return "/".join(parts[:3])
    return "/".join(parts[:2]) if len(parts) > 2 else parts[0]


def breach(name, layer, quoted, angled):
    """What is wrong with one include of a file `name` of `layer`, None when nothing is."""
    target = quoted or angled
    for prefix, only in ONLY_IN.items():
        rooms = (only,) if isinstance(only, str) else only
        if target.startswith(prefix) and not name.startswith(tuple(f"{room}/" for room in rooms)):
            return f"only {' and '.join(rooms)} may include <{prefix}...>"
    top = target.split("/")[0]
    if top not in ("sim", "realhw"):
        if quoted:
            return "include paths start at the root of the repository"
        return None
    above = layer_of(target)
    if above == layer or above in MAY_INCLUDE[layer]:
        return None
    return f"{layer} may not include {above}"


def check(root):
    breaches = []
    for name, text in sources(root):
        layer = layer_of(name)
        if layer not in MAY_INCLUDE:
            breaches.append(f"{name}:1: {layer} is not a known layer")
            continue
        for number, line in enumerate(text.splitlines(), 1):
            include = INCLUDE.match(line)
            problem = breach(name, layer, *include.groups()) if include else None
            code = line.split("//")[0]
            if name.startswith(POLICIES) and name not in SPANS_GROUPS and CLUSTER.search(code):
                problem = "policies see one EP group: sim/mechanism/ep_groups.h knows the cluster"
            if problem:
                breaches.append(f"{name}:{number}: {problem}")
    return breaches


if __name__ == "__main__":
    report(check)
