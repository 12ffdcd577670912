#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What the protocol of external policies costs: 58 layers x 20 steps of loads of 256 experts.

usage: external_bench.py MOESIM

A planner answers the same slots every time, so that it takes next to nothing itself. The difference to the same run with these
slots as a given placement is what asking costs: CPU time of moesim and of the planner's process, least of three runs.
"""
import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
LAYERS, STEPS, EXPERTS, RANKS = 58, 20, 256, 64
SLOTS = [[rank * EXPERTS // RANKS + slot for slot in range(EXPERTS // RANKS)] for rank in range(RANKS)]
PLANNER = """import sys
sys.path.insert(0, {python!r})
from moesim import placement

slots = {slots}
asked = 0

@placement
def same(ask):
    global asked
    asked += ask["do"] == "place"
    return slots

same.serve()
open({count!r}, "w").write(str(asked))
"""
FLAGS = ["--topology", "h100-rail", "--set", f"topology.nodes={RANKS // 8}", "--model", "deepseek-v3", "--synth",
         f"skew=0.8,tokens={RANKS * 16},sequences={RANKS},steps={STEPS},seed=1", "--pass", "forward", "--fidelity", "analytic", "--memory", "ignore",
         "--allow-commands", "-q"]


def cpu_of(moesim, policy):
    """User and system time of a run and of what it starts."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([moesim, "run", "--policy", policy, *FLAGS], check=True, stdout=subprocess.DEVNULL,
                   env=os.environ | {"MOESIM_DATA": str(ROOT)})
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(moesim):
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        (folder / "slots.json").write_text(json.dumps({"physical_to_logical_map": [sum(SLOTS, [])]}), encoding="utf-8")
        (folder / "same.py").write_text(PLANNER.format(python=str(ROOT / "scripts/python"), slots=SLOTS,
                                                       count=str(folder / "asked")), encoding="utf-8")
        command = f"exec {sys.executable} {folder}/same.py"
        external = {"kind": "external", "command": command, "slots_per_gpu": EXPERTS // RANKS}
        placements = {"given": {"kind": "given", "file": "slots.json"}, "external": external,
                      "external, by-rank": {**external, "loads": "by-rank"}}
        least = {}
        for turn in range(3):
            for kind, placement in placements.items():
                policy = folder / "policy.yaml"
                policy.write_text(json.dumps({"name": "p", "source": "benchmark", "routing": "identity", "placement": placement,
                                              "dispatch": "alltoall", "schedule": "sequential", "transport": "ideal"}), encoding="utf-8")
                time = cpu_of(moesim, str(policy))
                least[kind] = min(time, least.get(kind, time))
        asked = (folder / "asked").read_text(encoding="utf-8")
    print(f"{asked} questions, {EXPERTS} experts, {RANKS} ranks")
    for kind, time in least.items():
        print(f"{kind:18} {time:6.2f} s CPU  {time - least['given']:+6.2f} s")


if __name__ == "__main__":
    main(str(pathlib.Path(sys.argv[1]).resolve()))
