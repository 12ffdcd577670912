#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesim place against vectors of planners: those of MOESIM_ORACLES, else of the reference material."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

MOESIM = sys.argv.pop(1)
ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDER = pathlib.Path(os.environ.get("MOESIM_ORACLES") or ROOT / "../shared/oracles")
PLANNERS = {"moesim.oracle.laer_planner/1": "laer", "moesim.oracle.eplb/1": "eplb"}
SMALL = {"devices": 2, "devices_per_node": 2, "slots_per_device": 1, "token_counts": [[3, 1], [2, 4]]}


def place(policy, loads):
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "loads.json"
        path.write_text(loads if isinstance(loads, str) else json.dumps(loads), encoding="utf-8")
        return subprocess.run([MOESIM, "place", "--policy", policy, "--loads", str(path)],
                              capture_output=True, text=True, check=False)


class Place(unittest.TestCase):
    def test_vectors(self):
        checked = 0
        for path in sorted(FOLDER.rglob("*.json")):
            vector = json.loads(path.read_text(encoding="utf-8"))
            if not isinstance(vector, dict) or vector.get("schema") not in PLANNERS:
                continue
            with self.subTest(path.name):
                ran = place(PLANNERS[vector["schema"]], vector)
                self.assertEqual(ran.returncode, 0, ran.stderr)
                placed, expected = json.loads(ran.stdout), vector["expected"]
                same = [key for key in placed if key in expected and key not in ("cost_s", "candidates")]
                self.assertGreaterEqual(len(same), 3)
                for key in same:
                    self.assertEqual(placed[key], expected[key], key)
                if "cost_s" in expected:
                    self.assertAlmostEqual(placed["cost_s"] / expected["cost_s"], 1, delta=1e-12)
            checked += 1
        if checked == 0:
            self.skipTest(f"no vectors in {FOLDER}")

    def test_loads_by_themselves(self):
        ran = place("laer", SMALL)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        self.assertEqual(sorted(sum(json.loads(ran.stdout)["device_slots"], [])), [0, 1])
        ran = place("llep", {"gpus": 4, "alpha": 1.1, "least_chunk": 1,
                             "expert_load": [900, 800, 100, 120, 90, 80, 70, 60]})
        self.assertEqual(json.loads(ran.stdout)["gpu_load"], [610, 410, 590, 610])  # the reference's oracle 16

    def test_bad_input(self):
        cases = {"no json": ("laer", "{"), "devices": ("laer", {**SMALL, "devices": 3}),
                 "missing": ("laer", {"devices": 2}), "type": ("laer", {**SMALL, "devices": "two"}),
                 "negative": ("laer", {**SMALL, "token_counts": [[-1, 1], [2, 4]]}),
                 "ragged": ("laer", {**SMALL, "token_counts": [[1], [2, 4]]}),
                 "shape": ("eplb", {"physical_slots": 3, "expert_groups": 1, "nodes": 1, "gpus": 2,
                                    "expert_load_per_layer": [[1, 2]]})}
        for name, (policy, loads) in cases.items():
            with self.subTest(name):
                ran = place(policy, loads)
                self.assertEqual(ran.returncode, 2, ran.stdout + ran.stderr)
                self.assertIn("loads.json", ran.stderr)
                self.assertEqual(ran.stdout, "")


if __name__ == "__main__":
    unittest.main()
