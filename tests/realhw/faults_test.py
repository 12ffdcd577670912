#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fault drills of moesim-hw under mpirun: the run ends, names rank and op, and leaves no process and no file.

usage: faults_test.py MOESIM_HW ROOT

Skipped (77) if there is no mpirun.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HW, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
SCENARIO = ["--topology", "hiermoe-a6000", "--set", "topology.nodes=2", "--set", "topology.node.gpus=2",
            "--model", "tiny-moe", "--set", "model.hidden=64", "--set", "model.expert_ffn=32", "--trace",
            str(ROOT / "traces/tiny-moe-train"), "--tokens-per-rank", "16", "--steps", "0", "--policy", "megatron"]
PLACE = r"rank \d, op \d+ '[^']+' of layer \d+: "


def environment():
    env = dict(os.environ)
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
               OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_hwloc_base_binding_policy="none",
               PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe", MOESIM_DATA=str(ROOT))
    return env


def processes(marker):
    """The live ones with the marker on their command line."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            dead = (entry / "stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
        except OSError:
            continue
        if not dead and any(marker.encode() in word for word in words):
            found.append(int(entry.name))
    return found


class Drill(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="moesim-faults-")
        self.addCleanup(shutil.rmtree, self.folder, True)

    def launch(self, *flags, before=()):
        result = str(pathlib.Path(self.folder) / "result.json")
        command = [*before, "mpirun", "-n", "4", HW, "run", *SCENARIO, "--json", result, *flags]
        return subprocess.run(command, env=environment(), cwd=ROOT, capture_output=True, text=True, timeout=100,
                              check=False)

    def assert_nothing_left(self):
        deadline = time.monotonic() + 10  # the launcher has ended; what it killed may take a moment
        while processes(self.folder) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(processes(self.folder), [])
        self.assertEqual(os.listdir(self.folder), [])

    def test_killed_rank(self):
        done = self.launch("--fault", "kill:dispatch-alltoall@2")
        self.assertNotIn(done.returncode, (0, 2), done.stderr)
        self.assertRegex(done.stderr, PLACE + "told to end, for another rank is gone")
        self.assertRegex(done.stdout + done.stderr, r"(?s)rank 2.*(signal 9|KILLED)")
        self.assert_nothing_left()

    def test_hanging_rank(self):
        done = self.launch("--fault", "stop:fc1@1", "--timeout", "3")
        self.assertNotIn(done.returncode, (0, 2), done.stderr)
        self.assertRegex(done.stderr, PLACE + "nothing has moved for 3 s")
        self.assert_nothing_left()

    def test_no_number(self):
        done = self.launch("--fault", "nan:fc1@3")
        self.assertNotIn(done.returncode, (0, 2), done.stderr)
        self.assertRegex(done.stderr, r"rank 3, op \d+ 'fc1' of layer \d: a number in its results is not finite")
        self.assert_nothing_left()

    def test_full_disk(self):
        small = f"mount -t tmpfs -o size=4k none {self.folder} && head -c 4096 /dev/zero > {self.folder}/full && "
        shell = small + f"\"$@\"; code=$?; ls {self.folder} >&2; exit $code"
        before = ["unshare", "--mount", "--propagation", "private", "sh", "-c", shell, "sh"]
        tried = subprocess.run([*before, "true"], capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"no private mounts: {tried.stderr.strip()}")
        done = self.launch(before=before)
        self.assertNotIn(done.returncode, (0, 2), done.stderr)
        self.assertIn("rank 0, writing the results: ", done.stderr)
        self.assertIn("No space left on device", done.stderr)
        self.assertEqual(done.stderr.splitlines()[-1], "full")  # nothing of ours with it
        self.assert_nothing_left()

    def test_refuses_what_cannot_strike_once(self):
        for fault, message in (("kill:nothing@1", "rank 1 has no op 'nothing'"),
                               ("kill:fc1@4", "there is no rank 4"), ("nan:dispatch@", "is not a fault"),
                               ("burn:fc1@1", "is not a fault"), ("nan:gate@1", "makes no numbers")):
            with self.subTest(fault=fault):
                done = self.launch("--fault", fault)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertEqual(done.stderr.count(message), 1, done.stderr)
                self.assert_nothing_left()


if __name__ == "__main__":
    if shutil.which("mpirun") is None:
        print("no mpirun")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
