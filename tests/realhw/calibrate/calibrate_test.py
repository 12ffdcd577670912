#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs moesim-hw calibrate under mpirun with 4 ranks on this host; skipped (77) where there is no mpirun.

usage: calibrate_test.py MOESIM_HW ROOT
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HW, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
CLUSTER = ["--topology", "hiermoe-a6000", "--set", "topology.nodes=2", "--set", "topology.node.gpus=2",
           "--model", "tiny-moe", "--set", "model.hidden=64"]
SMALL = ["--quick", "--rounds", "1", "--longest", "0.5", "--rows", "16"]


def run(*arguments, ranks=4):
    env = dict(os.environ)
    # Open MPI refuses root, binds ranks to cores and counts slots; MPICH ignores all of this.
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
               PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe", MOESIM_DATA=str(ROOT))
    return subprocess.run(["mpirun", "-n", str(ranks), HW, "calibrate", *arguments], env=env, cwd=ROOT,
                          capture_output=True, text=True, timeout=100, check=False)


class Calibrate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.prefix = str(pathlib.Path(folder.name) / "mine")

    def test_writes_what_topologies_take(self):
        done = run(*CLUSTER, *SMALL, "-o", self.prefix)
        self.assertEqual(done.returncode, 0, done.stderr)
        for text in ("fc1-wgrad", "exchange overhead", "alltoall between nodes", "uneven in the whole cluster"):
            self.assertIn(text, done.stdout)
        cluster = pathlib.Path(self.prefix + ".calib.yaml").read_text()
        self.assertIn("4", cluster.split("ranks:")[1].splitlines()[0])
        for key in ("moesim:", "command:", "date:", "backend:", "processors:", "hosts:"):
            self.assertIn(key, cluster)
        self.assertIn('"a6000": "mine.gpu.yaml"', cluster)
        times = pathlib.Path(self.prefix + ".times.jsonl")
        lines = times.read_text().splitlines()
        plans = [json.loads(line)["plan"] for line in lines[1:]]
        self.assertEqual(len(plans), len(set(plans)))
        # Taken by the very next run, which has nothing left to measure of its own times but one plan.
        times.write_text("\n".join(lines[:-1]) + "\n")
        again = run(*CLUSTER, *SMALL, "-o", self.prefix, "--resume")
        self.assertEqual(again.returncode, 0, again.stderr)
        resumed = times.read_text().splitlines()
        self.assertEqual(resumed[:-1], lines[:-1])
        self.assertEqual(json.loads(resumed[-1])["plan"], plans[-1])
        other = run(*CLUSTER, *SMALL, "--rounds", "2", "-o", self.prefix, "--resume")
        self.assertEqual(other.returncode, 2)
        taken = run(*CLUSTER, *SMALL, "--set", f"topology.calibration={self.prefix}.calib.yaml", "-o",
                    self.prefix + "2", ranks=2)
        self.assertEqual(taken.returncode, 2)
        self.assertEqual(taken.stderr.count("has 4 GPUs, but 2 processes run"), 1, taken.stderr)

    def test_bad_input_is_told_once(self):
        for arguments, message in (
                ([*CLUSTER], "--out"),
                ([*CLUSTER, "-o", self.prefix, "--quik"], "'--quik'"),
                ([*CLUSTER, "-o", self.prefix, "--set", "gpu.memory=1 GB"], "neither of 'topology' nor of 'model'"),
                ([*CLUSTER, "-o", "no/such/folder/mine"], "no/such/folder/mine.times.jsonl")):
            with self.subTest(message=message):
                done = run(*arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stderr.count(message), 1, done.stderr)


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        print("no mpirun")
        sys.exit(77)
    unittest.main(argv=sys.argv[:1])
