#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validation on a small cluster of namespaces: calibrated at one rate, held against measurements at another.

usage: validation_test.py MOESIM MOESIM_HW ROOT

The tolerance is wide, for other programs may keep the cores busy; a cluster of another rate must fail all the same.
Skipped (77) without privileges or Open MPI.
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

MOESIM, HW, ROOT = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
SCRIPT = ROOT / "scripts" / "minicluster"
SKIPPED = 77
CLUSTER = ["--hosts", "2", "--ranks", "2", "--local-rate", "1gbit"]
# Two stages on two hosts; messages that are long compared with what a link lets through at once.
ITERATION = """
model: olmoe
trace: traces/tiny-moe-train
policy: alltoall
parallel: {pp: 2, ep: 2}
batch: {global: 32, micro: 8, sequence: 32}
zero: 1
gradient_bytes: 4
set: [model.hidden=256, model.layers=2, model.moe_layers.count=2, model.experts=32, model.top_k=4,
      model.expert_ffn=16, model.attention.heads=4, model.attention.kv_heads=2, model.attention.head_dim=16,
      model.vocabulary=32, model.activations=fp32, model.weights=fp32]
"""
POLICIES = ["hybridep-exact", "alltoall", "tutel-linear"]  # times far from each other


class Validation(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, True)

    def call(self, *words):
        done = subprocess.run([str(word) for word in words], capture_output=True, text=True, cwd=ROOT, check=False,
                              env=dict(os.environ, MOESIM_DATA=str(ROOT)), timeout=280)
        if done.returncode == SKIPPED:
            self.skipTest(done.stderr.strip())
        return done

    def described(self, rate):
        path = self.folder / f"{rate}.yaml"
        done = self.call(SCRIPT, "describe", *CLUSTER, "--rate", rate, "-o", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        return path

    def on_cluster(self, rate, *words):
        return self.call(SCRIPT, "run", *CLUSTER, "--rate", rate, "--", HW, *words)

    def test_calibrated_at_one_rate_and_valid_at_another(self):
        done = self.on_cluster("400mbit", "calibrate", "--topology", self.described("400mbit"), "--model", "tiny-moe",
                               "--quick", "-o", self.folder / "c")
        self.assertEqual(done.returncode, 0, done.stderr)
        measured, result = self.folder / "measured.json", self.folder / "result.json"
        policies = [word for policy in POLICIES for word in ("--policy", policy)]
        done = self.on_cluster("240mbit", "validate", "--topology", self.described("240mbit"), "--set",
                               f"topology.calibration={self.folder}/c.calib.yaml", "--model", "tiny-moe", "--set",
                               "model.expert_ffn=32", "--attention", "false", "--trace", "traces/tiny-moe-train",
                               "--tokens-per-rank", "256", "--steps", "0", *policies, "--repeats", "3",
                               "--tolerance", "40%", "--measured", measured, "--json", result)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("\nvalid\n", done.stdout.replace("\r", ""))
        found = json.loads(result.read_text())
        self.assertEqual([p["policy"] for p in found["results"][0]["policies"]], POLICIES)
        # A cluster of a quarter of the bandwidth is another one.
        done = self.call(MOESIM, "validate", measured, "--topology", self.described("60mbit"), "--tolerance", "40%")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("not valid: a mean absolute error of ", done.stdout)

    def test_a_recorded_run_read_as_a_profile_validates_alike(self):
        cluster = self.described("200mbit")
        recorded, measured = self.folder / "timeline.json", self.folder / "measured.json"
        done = self.on_cluster("200mbit", "run", "--topology", cluster, "--model", "tiny-moe", "--set",
                               "model.expert_ffn=32", "--attention", "false", "--trace", "traces/tiny-moe-train",
                               "--tokens-per-rank", "256", "--steps", "0", "--policy", "alltoall", "--repeats", "3",
                               "--timeline", recorded, "--json", measured)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        own, read = self.folder / "own.json", self.folder / "read.json"
        done = self.call(MOESIM, "validate", measured, "--tolerance", "1000%", "--json", own)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        scenario = self.folder / "scenario.yaml"
        scenario.write_text(json.dumps(json.loads(measured.read_text())["scenario"]))
        done = self.call(MOESIM, "validate", "profile", recorded, "--scenario", scenario, "--json", read)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        step = json.loads(own.read_text())["results"][0]["policies"][0]
        profile = json.loads(read.read_text())
        wall = {side: profile[side]["wall_s"] for side in ("measured", "simulated")}
        self.assertAlmostEqual(wall["simulated"] / wall["measured"], step["simulated_s"] / step["measured_s"], delta=0.02)
        for kind in ("dispatch", "combine"):
            for side in ("measured", "simulated"):
                ops = sum(op[side + "_s"] for op in step["ops"] if op["name"].startswith(kind + "-alltoall"))
                self.assertAlmostEqual(profile[side]["kinds_s"][kind] / ops, 1, delta=0.02, msg=f"{kind}, {side}")

    def test_an_iteration_takes_what_links_of_their_rates_say(self):
        scenario = self.folder / "iteration.yaml"
        scenario.write_text(ITERATION)
        cluster = self.described("40mbit")
        measured = self.folder / "iteration.json"
        done = self.on_cluster("40mbit", "validate", scenario, "--topology", cluster, "--warmup-runs", "0", "--repeats",
                               "1", "--tolerance", "40%", "--measured", measured)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("forward, backward and update", done.stdout)
        self.assertIn("\nvalid\n", done.stdout.replace("\r", ""))
        done = self.call(MOESIM, "validate", measured, "--topology", self.described("10mbit"), "--tolerance", "40%")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
