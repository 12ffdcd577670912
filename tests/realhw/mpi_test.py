#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs moesim-hw under mpirun with 8 ranks on this host; skipped (77) if there is no mpirun.

usage: mpi_test.py MOESIM_HW ROOT
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
SCENARIO = ["--topology", "hiermoe-a6000", "--set", "topology.nodes=2", "--set",
            "topology.node.gpus=4", "--model", "tiny-moe", "--set", "model.hidden=64", "--set",
            "model.expert_ffn=32", "--trace", str(ROOT / "traces/tiny-moe-train"),
            "--tokens-per-rank", "16", "--steps", "0:2"]


def environment():
    env = dict(os.environ)
    # Open MPI refuses root, binds ranks to cores and counts slots; MPICH ignores all of this.
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
               PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe", MOESIM_DATA=str(ROOT))
    return env


def run(*arguments, ranks=8):
    return subprocess.run(["mpirun", "-n", str(ranks), HW, *arguments], env=environment(),
                          cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)


class MpiRun(unittest.TestCase):
    def test_policies_compute_right_numbers(self):
        policies = ["megatron", "hiermoe-hd2", "deepspeed", "laer"]
        flags = [word for policy in policies for word in ("--policy", policy)]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "result.json"
            done = run("run", *SCENARIO, *flags, "--warmup-runs", "0", "--repeats", "2", "--json",
                       str(path))
            self.assertEqual(done.returncode, 0, done.stderr)
            result = json.loads(path.read_text())
        self.assertEqual([case["policy"] for case in result["cases"]], policies)
        for case in result["cases"]:
            with self.subTest(policy=case["policy"]):
                self.assertEqual(case["fidelity"], "mpi")
                self.assertEqual(case["wrong"], 0)
                # first and last run of 2 steps x 8 ranks x 16 tokens x 4 layers x 64 columns
                self.assertEqual(case["compared"]["outputs"], 2 * 2 * 8 * 16 * 4 * 64)
                self.assertEqual(case["compared"]["input_gradients"], 2 * 2 * 8 * 16 * 4 * 64)
                self.assertGreater(case["compared"]["weight_gradients"], 0)
                self.assertEqual([len(s["repeats_s"]) for s in case["measured_steps"]], [2, 2])
                for step in case["measured_steps"]:
                    times = {op["name"]: op["time_s"] for op in step["ops"]}
                    self.assertGreater(times["fc1"], 0)
                    self.assertGreaterEqual(step["waiting_s"], 0)
                self.assertLess(case["total"]["communication_s"], 2 * case["step_s"])
        self.assertIn("#wrong", done.stdout)
        dropped = {case["policy"]: case["dropped_choices"] for case in result["cases"]}
        self.assertGreater(dropped["deepspeed"], 0)
        self.assertEqual(dropped["megatron"], 0)
        self.assertIn("dropped choices", done.stdout)
        self.assertRegex(done.stdout, r"# moesim-hw, (Open MPI v|MPICH )[\d.]+ \(p2p\), 8 ranks on 1 host\b")

    def test_timelines_hold_the_median_repeats(self):
        with tempfile.TemporaryDirectory() as folder:
            path, result = pathlib.Path(folder) / "timeline.json", pathlib.Path(folder) / "result.json"
            done = run("run", *SCENARIO, "--policy", "megatron", "--policy", "laer", "--repeats", "3", "--timeline",
                       str(path), "--json", str(result))
            self.assertEqual(done.returncode, 0, done.stderr)
            timeline, cases = json.loads(path.read_text()), json.loads(result.read_text())["cases"]
        self.assertIn("moesim", timeline["otherData"])
        events = timeline["traceEvents"]
        names = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
        for case in cases:
            ranks = {pid for pid, name in names.items() if name.startswith(case["policy"]) and "rank" in name}
            self.assertEqual(len(ranks), 8)
            ops = [e for e in events if e["ph"] == "X" and e["pid"] in ranks]
            # The steps follow each other, each as long as its median repeat.
            length = max(e["ts"] + e["dur"] for e in ops) - min(e["ts"] for e in ops)
            medians = sum(sorted(step["repeats_s"])[1] for step in case["measured_steps"])
            self.assertAlmostEqual(length * 1e-6 / medians, 1, delta=0.01)

    def test_whole_iterations_compute_right_numbers(self):
        small = ["--set", "model.hidden=32", "--set", "model.attention.head_dim=8", "--sequence", "8"]
        combined = ["--pipeline", "combined-1f1b", "--set", "overlap.all_to_all=true"]
        tensor = ["--tp", "2", "--etp", "1", "--ep", "2"]
        for changes in ([], combined, tensor, combined + ["--ep", "2", "--mpi-calls", "alltoallv", "--together"]):
            with self.subTest(changes=changes), tempfile.TemporaryDirectory() as folder:
                path = pathlib.Path(folder) / "result.json"
                # Three iterations, each from the weights of the one before.
                done = run("run", str(ROOT / "scenarios/iteration-hardware.yaml"), *small, *changes, "--warmup-runs",
                           "0", "--repeats", "2", "--json", str(path))
                self.assertEqual(done.returncode, 0, done.stderr)
                case = json.loads(path.read_text())["cases"][0]
                self.assertEqual(case["wrong"], 0)
                # first and last run of 16 sequences of 8 tokens, what enters 8 blocks and the head, and a loss on
                # every GPU of a tensor group
                losses = 2 if changes == tensor else 1
                self.assertEqual(case["compared"]["outputs"], 2 * 16 * 8 * (9 * 32 + losses))
                self.assertEqual(case["compared"]["input_gradients"], 2 * 16 * 8 * 9 * 32)
                self.assertGreater(case["compared"]["weight_gradients"], 100000)
                self.assertGreater(case["compared"]["weights"], 100000)
                names = {op["name"] for op in case["measured_steps"][0]["ops"]}
                self.assertLessEqual({"stage-transfer", "stage-transfer-grad", "gradient-exchange-grad", "loss",
                                      "attention-scores-dgrad", "optimizer-grad"}, names)
                self.assertIn("forward, backward and update", done.stdout)

    def test_iterations_that_nobody_can_execute_are_bad_input(self):
        done = run("run", str(ROOT / "scenarios/iteration-hardware.yaml"), "--zero", "3", ranks=2)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("hardware cannot execute zero = 3 yet"), 1, done.stderr)

    def test_alltoallv_carries_the_same(self):
        done = run("run", *SCENARIO, "--policy", "hiermoe-hd2", "--policy", "schemoe", "--policy",
                   "laer", "--warmup-runs", "0", "--repeats", "1", "--mpi-calls", "alltoallv")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("(alltoallv), 8 ranks", done.stdout)

    def test_validate_compares_when_all_ranks_have_ended(self):
        words = ["validate", *SCENARIO, "--policy", "megatron", "--repeats", "1"]
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "validation.json"
            done = run(*words, "--tolerance", "100000%", "--json", str(path))
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("\nvalid\n", done.stdout.replace("\r", ""))
            self.assertTrue(json.loads(path.read_text())["valid"])
        done = run(*words, "--tolerance", "0.001%")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("not valid: a mean absolute error of ", done.stdout)

    def test_validate_reads_its_flags_before_it_measures(self):
        for flags, message in ((["--tolerance", "12"], "'12' is not a share"),
                               (["--json", "/no/such/folder/v.json"], "there is no folder")):
            done = run("validate", *SCENARIO, "--policy", "megatron", *flags)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(done.stderr.count(message), 1, done.stderr)
            self.assertEqual(done.stdout, "")

    def test_wrong_number_of_ranks_is_bad_input_told_once(self):
        done = run("run", *SCENARIO, "--policy", "megatron", ranks=2)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("has 8 GPUs, but 2 processes run"), 1)

    def test_bad_flags_are_bad_input_told_once(self):
        done = run("run", "--polcy", "megatron", ranks=2)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertEqual(done.stderr.count("did you mean '--policy'?"), 1)
        done = run("run", *SCENARIO, "--policy", "megatron", "--fidelity", "flow", ranks=2)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("'fidelity' has no effect on hardware", done.stderr)

    def test_standstill_ends_the_run_naming_rank_and_op(self):
        # Some message takes longer than a microsecond.
        done = run("run", *SCENARIO, "--policy", "megatron", "--timeout", "0.000001")
        # Every rank aborts at once, at which Open MPI's launcher itself may fall before it passes 1 on.
        self.assertNotIn(done.returncode, (0, 2), done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"the run failed: rank \d, op \d+ '.*' of layer \d+: "
                                      r"nothing has moved for 1e-06 s")


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        print("no mpirun")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
