#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Saved steps run as their scenario does: all ranks in one process, and under mpirun if there is one.

usage: saved_test.py MOESIM MOESIM_HW ROOT
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
SCENARIO = [str(ROOT / "scenarios/gpu.yaml"), "--set", "model.hidden=64", "--set", "model.expert_ffn=32",
            "--tokens-per-rank", "16"]


def run(*command):
    env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
               PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe", MOESIM_DATA=str(ROOT))
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)


class Saved(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp())
        cls.file = str(cls.folder / "gpu.moesim")
        saved = run(MOESIM, "plan", *SCENARIO, "--save", cls.file)
        assert saved.returncode == 0, saved.stderr

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_in_one_process(self):
        saved = run(HW, "run", "--saved", self.file, "--local")
        self.assertEqual(saved.returncode, 0, saved.stderr)
        self.assertEqual(saved.stdout, run(HW, "run", *SCENARIO, "--local").stdout)
        # 2 steps x 4 ranks x 16 tokens x 4 layers x 64 columns
        self.assertRegex(saved.stdout, r"hiermoe-hd2 +2 +32768 +32768 +\d+ +0\n")

    def test_fused_kernels_are_refused_by_name(self):
        done = run(HW, "run", *SCENARIO, "--policy", "flashmoe-interpretation", "--local")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("flashmoe-interpretation: error: hardware cannot execute fused kernels and whole tiles yet; "
                      "moesim simulates them: 'fc1-wave-1' of layer 0", done.stderr)

    @unittest.skipIf(shutil.which("mpirun") is None, "no mpirun")
    def test_over_mpi(self):
        results = []
        for name, source in (("saved", ["--saved", self.file]), ("planned", SCENARIO)):
            path = self.folder / f"{name}.json"
            done = run("mpirun", "-n", "4", HW, "run", *source, "--warmup-runs", "0", "--repeats", "1", "--json", str(path))
            self.assertEqual(done.returncode, 0, done.stderr)
            results.append((json.loads(path.read_text()), done.stdout.splitlines()[:3]))
        (saved, saved_head), (planned, planned_head) = results
        self.assertEqual(saved_head, planned_head)
        for key in ("scenario", "trace", "model", "topology", "ranks"):
            self.assertEqual(saved[key], planned[key], key)
        for is_, was in zip(saved["cases"], planned["cases"], strict=True):
            for key in ("policy", "compared", "wrong", "peak_memory_bytes", "planning_s", "dropped_choices"):
                self.assertEqual(is_[key], was[key], key)
            self.assertEqual(is_["total"]["traffic"], was["total"]["traffic"])
            self.assertEqual([s["plan_xxh3"] for s in is_["measured_steps"]],
                             [s["plan_xxh3"] for s in was["measured_steps"]])
        validated = run(MOESIM, "validate", str(self.folder / "saved.json"), "--tolerance", "1000%")
        self.assertNotEqual(validated.returncode, 2, validated.stderr)

    @unittest.skipIf(shutil.which("mpirun") is None, "no mpirun")
    def test_json_stands_alone_on_standard_output(self):
        done = run("mpirun", "-n", "4", HW, "run", *SCENARIO, "--policy", "dedup", "--warmup-runs", "0", "--repeats", "1",
                   "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([c["policy"] for c in json.loads(done.stdout)["cases"]], ["dedup"])
        self.assertIn("dedup", done.stderr)

    @unittest.skipIf(shutil.which("mpirun") is None, "no mpirun")
    def test_an_iteration(self):
        file = str(self.folder / "iteration.moesim")
        iteration = [str(ROOT / "scenarios/iteration-hardware.yaml"), "--set", "parallel.ep=2", "--set",
                     "batch.global=4", "--set", "topology.node.gpus=2"]
        saved = run(MOESIM, "plan", *iteration, "--save", file)
        self.assertEqual((saved.returncode, saved.stdout), (0, "alltoall: 1 iteration for 4 GPUs\n"), saved.stderr)
        results = []
        for name, source in (("saved", ["--saved", file]), ("planned", iteration)):
            path = self.folder / f"iteration-{name}.json"
            done = run("mpirun", "-n", "4", HW, "run", *source, "--warmup-runs", "0", "--repeats", "1", "--json", str(path))
            self.assertEqual(done.returncode, 0, done.stderr)
            results.append(json.loads(path.read_text())["cases"][0])
        saved, planned = results
        self.assertGreater(sum(saved["compared"].values()), 100000)
        for key in ("policy", "compared", "wrong", "peak_memory_bytes"):
            self.assertEqual(saved[key], planned[key], key)
        self.assertEqual(saved["wrong"], 0)

    def test_a_scenario_that_suits_no_policy(self):
        for command in ([HW, "run", *SCENARIO, "--local"], [MOESIM, "plan", *SCENARIO, "--save", str(self.folder / "no")]):
            done = run(*command, "--policy", "hiermoe-hd3")
            self.assertEqual(done.returncode, 2)
            self.assertEqual(done.stdout, "")
            self.assertIn("hiermoe-hd3: error: 'dispatch.depth' is 3, but 4 ranks on 'h100-rail' nest only 2 deep",
                          done.stderr)
        self.assertFalse((self.folder / "no").exists())

    def test_refusals(self):
        both = run(HW, "run", "--saved", self.file, "--policy", "dedup")
        self.assertEqual(both.returncode, 2)
        self.assertIn("--policy excludes --saved", both.stderr)
        few = run(HW, "run", "--saved", self.file)
        self.assertEqual(few.returncode, 2)
        self.assertIn("has 4 GPUs, but 1 process runs", few.stderr)
        cut = self.folder / "cut.moesim"
        cut.write_bytes(pathlib.Path(self.file).read_bytes()[:1000])
        for flags in (["--local"], []):
            broken = run(HW, "run", "--saved", str(cut), *flags)
            self.assertEqual(broken.returncode, 2)
            self.assertIn("cut.moesim: error: is cut short or damaged", broken.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
