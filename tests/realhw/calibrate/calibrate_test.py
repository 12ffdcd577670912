#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs moesim-hw calibrate under mpirun with 4 ranks on this host; skipped (77) if there is no mpirun.

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
    """Under mpirun; 0 ranks: one process without it."""
    env = dict(os.environ)
    # Open MPI refuses root, binds ranks to cores and counts slots; MPICH ignores all of this.
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
               PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe", MOESIM_DATA=str(ROOT))
    launcher = ["mpirun", "-n", str(ranks)] if ranks > 0 else []
    return subprocess.run([*launcher, HW, "calibrate", *arguments], env=env, cwd=ROOT, capture_output=True, text=True,
                          timeout=100, check=False)


def quiet(times):
    """Gives the k-th op of each plan the same time on all ranks: a busy host's times need not grow with sizes."""
    head, *plans = times.read_text().splitlines()
    lines = [head]
    for line in map(json.loads, plans):
        for timeline in line["ns"]:
            start = 0
            for op, intervals in enumerate(timeline):
                end = start + 1000 + 500 * op
                intervals[:] = [start, end] * (len(intervals) // 2)
                start = end
        lines.append(json.dumps(line, separators=(",", ":")))
    times.write_text("\n".join(lines) + "\n")


class Calibrate(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.prefix = str(self.folder / "mine")

    def test_writes_what_topologies_take(self):
        for _ in range(5):
            done = run(*CLUSTER, *SMALL, "-o", self.prefix)
            if "grow too little" not in done.stderr and "differ between runs" not in done.stderr:
                break  # else the host was busy
            os.remove(self.prefix + ".times.jsonl")
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

    def test_saved_where_it_is_planned_measured_elsewhere_and_fitted_at_home(self):
        pair = ["--topology", "hiermoe-a6000", "--set", "topology.nodes=1", "--set", "topology.node.gpus=2",
                "--model", "tiny-moe", "--set", "model.hidden=64", *SMALL]
        file = str(self.folder / "pair.moesim-calibration")
        saved = run(*pair, "--save", file, ranks=0)
        self.assertEqual(saved.returncode, 0, saved.stderr)
        self.assertRegex(saved.stdout, r"pair\.moesim-calibration: \d+ plans, 1 round, for 2 ranks \(hiermoe-a6000 nodes=1")

        (self.folder / "node").mkdir()
        there = str(self.folder / "node" / "pair")
        measured = run("--saved", file, "-o", there, ranks=2)
        self.assertEqual(measured.returncode, 0, measured.stderr)
        self.assertIn("moesim-hw calibrate --times pair.times.jsonl -o pair\n", measured.stdout)
        self.assertEqual(os.listdir(self.folder / "node"), ["pair.times.jsonl"])
        times = pathlib.Path(there + ".times.jsonl")
        head = json.loads(times.read_text().splitlines()[0])
        self.assertTrue(head["provenance"]["hosts"] and head["provenance"]["processors"])
        self.assertIn("--saved", head["provenance"]["command"])

        lines = times.read_text().splitlines(keepends=True)
        times.write_text("".join(lines[:-2]))
        early = run("--times", str(times), "-o", self.prefix, ranks=0)
        self.assertEqual(early.returncode, 2, early.stderr)
        self.assertRegex(early.stderr, r"pair\.times\.jsonl: error: lacks 2 of \d+ measurements: 'memory-bound kernels' in "
                                       r"round 1, 'kernels beside exchanges' in round 1\n")
        resumed = run("--saved", file, "-o", there, "--resume", ranks=2)
        self.assertEqual(resumed.returncode, 0, resumed.stderr)
        self.assertEqual(times.read_text().splitlines(keepends=True)[:-2], lines[:-2])

        quiet(times)
        (self.folder / "home").mkdir()
        fitted = run("--times", str(times), "-o", str(self.folder / "home" / "pair"), ranks=0)
        self.assertEqual(fitted.returncode, 0, fitted.stderr)
        # A calibration in one go, which finds everything measured.
        direct = run(*pair, "-o", there, "--resume", ranks=2)
        self.assertEqual(direct.returncode, 0, direct.stderr)
        self.assertEqual(direct.stdout.replace(there, "PREFIX"),
                         fitted.stdout.replace(str(self.folder / "home" / "pair"), "PREFIX"))
        names = sorted(os.listdir(self.folder / "home"))
        self.assertEqual(names, ["pair-nvlink.calib.yaml", "pair.calib.yaml", "pair.gpu.yaml"])
        for name in names:
            self.assertEqual((self.folder / "home" / name).read_bytes(), (self.folder / "node" / name).read_bytes(), name)

    def test_bad_input_is_told_once(self):
        for arguments, message in (
                ([*CLUSTER], "--out is missing"),
                (["-o", self.prefix], "--topology is missing"),
                ([*CLUSTER, "--save", self.prefix], "start only one process"),
                ([*CLUSTER, "--save", self.prefix, "-o", self.prefix], "--out excludes --save"),
                (["--saved", "no-such", "--rounds", "2", "-o", self.prefix], "--rounds excludes --saved"),
                (["--saved", "no-such", "-o", self.prefix], "no-such: error: cannot be read"),
                (["--times", "no-such", "--backend", "nccl", "-o", self.prefix], "--backend excludes --times"),
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
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
