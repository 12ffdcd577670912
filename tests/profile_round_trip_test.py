# SPDX-License-Identifier: Apache-2.0
"""A simulated step read as a profile gives back the machine that it was simulated on, within 1 %.

usage: profile_round_trip_test.py MOESIM
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[1]
STEP = ["scenarios/quickstart.yaml", "--topology", "h100-rail", "--policy", "alltoall", "--steps", "0:3"]


class RoundTrip(unittest.TestCase):
    moesim = ""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = pathlib.Path(self.folder.name)

    def run_moesim(self, *words):
        done = subprocess.run([self.moesim, *map(str, words)], cwd=ROOT, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def simulate(self, name, *flags):
        self.run_moesim("run", *STEP, "--json", self.path / name, *flags)
        return json.loads((self.path / name).read_text(encoding="utf-8"))["cases"][0]["step_s"]

    def test_calibrates_to_its_inputs(self):
        timeline = self.path / "t.json"
        step = self.simulate("a.json", "--timeline", timeline, "--timeline-ranks", "all", "--timeline-steps", "3")
        report = self.run_moesim("calibrate", "profile", timeline, "--gpu", "h100-measured", "-o", self.path / "mine")
        self.assertIn("tables of products", report)
        again = self.simulate("b.json", "--set", f"topology.calibration={self.path}/mine.calib.yaml")
        self.assertAlmostEqual(again / step, 1, delta=0.01, msg=report)
        # A GPU with less bandwidth takes longer: the step depends on what was fitted.
        half = self.simulate("d.json", "--set", "gpu.memory_bandwidth=1 TB/s")
        self.assertGreater(abs(half / step - 1), 0.01)

    def test_a_profile_without_links_leaves_exchanges_to_their_transports(self):
        gpus = self.path / "gpus.calib.yaml"
        gpus.write_text("name: gpus\nsource: test\nexchange_overhead: 0 us\npeer_overhead: 0 us\n", encoding="utf-8")
        step = self.simulate("a.json")
        self.assertEqual(self.simulate("b.json", "--set", f"topology.calibration={gpus}"), step)

    def test_import_sums_what_was_simulated(self):
        timeline, profile = self.path / "t.json", self.path / "p.json"
        step = self.simulate("a.json", "--timeline", timeline, "--timeline-ranks", "0")
        self.run_moesim("profile", "import", timeline, "--json", profile)
        document = json.loads(profile.read_text(encoding="utf-8"))
        self.assertEqual(document["producer"], "moesim")
        self.assertEqual(document["recognized"], 1)
        rank = document["ranks"][0]
        parts = sum(rank[part] for part in ("work_only_s", "traffic_only_s", "both_s", "idle_s"))
        self.assertAlmostEqual(parts, rank["wall_s"], delta=1e-9)
        self.assertEqual(len(rank["steps_s"]), 1)
        self.assertLessEqual(rank["wall_s"], step * 3)

    def test_validates_against_itself(self):
        timeline, both, result = (self.path / name for name in ("t.json", "both.json", "v.json"))
        self.run_moesim("run", *STEP, "--timeline", timeline, "--timeline-ranks", "0,1")
        changes = ["topology=h100-rail", "policy=alltoall", "steps=0:3"]
        flags = [flag for change in changes for flag in ("--set", change)]
        self.run_moesim("validate", "profile", timeline, "--scenario", "scenarios/quickstart.yaml", *flags,
                        "--timeline", both, "--json", result)
        document = json.loads(result.read_text(encoding="utf-8"))
        measured, simulated = document["measured"], document["simulated"]
        for kind, time in measured["kinds_s"].items():
            self.assertAlmostEqual(simulated["kinds_s"][kind] / time, 1, delta=1e-6, msg=kind)
        names = [e["args"]["name"] for e in json.loads(both.read_text(encoding="utf-8"))["traceEvents"]
                 if e["name"] == "process_name"]
        self.assertIn("measured rank 1", names)
        self.assertTrue(any(name.startswith("rank 1 (") for name in names), names)


if __name__ == "__main__":
    RoundTrip.moesim = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
