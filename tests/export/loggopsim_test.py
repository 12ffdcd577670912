# SPDX-License-Identifier: Apache-2.0
"""GOAL schedules of plans replayed by LogGOPSim, an independent simulator
(T. Hoefler et al., HPDC 2010; github.com/spcl/LogGOPSim, built as its README says).

usage: loggopsim_test.py MOESIM          $LOGGOPSIM: the folder of LogGOPSim and txt2bin; skipped without it
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
TOOLS = os.environ.get("LOGGOPSIM")
if not TOOLS:
    print("skipped: $LOGGOPSIM names no folder of LogGOPSim")
    sys.exit(77)
sys.path.insert(0, str(ROOT / "scripts/python"))
import numpy as np  # noqa: E402
from moesim import TraceWriter  # noqa: E402

# One GPU a node, NICs of 1 GB/s and 1 us each: G = 1 ns per byte, L = 2 us in LogGOPSim, which knows whole numbers.
CLUSTER = """
nodes: {nodes}
node:
  gpu: h100-sxm
  gpus: 1
  pcie: {{bandwidth: 64 GB/s, latency: 0 us}}
  nics: {{count: 1, bandwidth: 1 GB/s, latency: 1 us}}
fabric: {{kind: rail, cross_rail: spine, spines: 1, latency: 0 us}}
"""


class Replay(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)

    def moesim(self, *words):
        done = subprocess.run([MOESIM, *words], cwd=self.folder, capture_output=True, text=True, check=False,
                              env=os.environ | {"MOESIM_DATA": str(ROOT)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def scenario(self, gpus, passes):
        """Every GPU sends half of its tokens to one other, which sends as many back: nobody shares a link."""
        (self.folder / "cluster.yaml").write_text(CLUSTER.format(nodes=gpus), encoding="utf-8")
        tokens, rank = 2048, np.repeat(np.arange(gpus), 2048)
        other = np.arange(gpus * tokens) % 2
        ids = np.where(other == 0, rank, rank ^ 1).reshape(1, -1, 1)
        TraceWriter(self.folder / f"pairs{gpus}-{passes}", experts=gpus, top_k=1, layers=[0]).append(ids, [tokens] * gpus)
        return ["--topology", "cluster.yaml", "--transport", "ideal", "--model", "gpt-oss-20b", "--set", f"model.experts={gpus}",
                "--set", "model.top_k=1", "--trace", f"pairs{gpus}-{passes}", "--layers", "recorded", "--policy", "alltoall",
                "--pass", passes]

    def replay(self, goal):
        """When each rank ends [ns]."""
        subprocess.run([f"{TOOLS}/txt2bin", "-i", goal, "-o", "plan.bin"], cwd=self.folder, check=True, capture_output=True)
        done = subprocess.run([f"{TOOLS}/LogGOPSim", "-f", "plan.bin", "-L", "2000", "-o", "0", "-g", "0", "-G", "1",
                               "-S", "1000000000"], cwd=self.folder, check=True, capture_output=True, text=True)
        return [int(time) for time in re.findall(r"Host \d+: (\d+)", done.stdout)]

    def test_an_iteration_ends(self):
        self.moesim("export", "goal", str(ROOT / "scenarios/iteration.yaml"), "--policy", "alltoall", "--routing", "balanced", "-o",
                    "plan.goal")
        times = self.replay("plan.goal")
        self.assertEqual(len(times), 16)
        computed = [sum(map(int, re.findall(r"calc (\d+)", rank)))
                    for rank in (self.folder / "plan.goal").read_text(encoding="utf-8").split("rank ")[1:]]
        self.assertGreater(min(times), max(computed) / 2)
        self.assertGreater(max(times), max(computed))

    def test_an_exchange_without_contention_takes_the_same_time(self):
        for gpus in (2, 4, 8):
            for passes, exchanges in (("forward", 2), ("forward+backward", 4)):
                with self.subTest(gpus=gpus, passes=passes):
                    words = self.scenario(gpus, passes)
                    self.moesim("export", "goal", *words, "-o", "plan.goal")
                    case = json.loads(self.moesim("run", *words, "--json", "-"))["cases"][0]
                    schedule = (self.folder / "plan.goal").read_text(encoding="utf-8")
                    sent = sum(int(size) for size in re.findall(r": send (\d+)b", schedule))
                    self.assertEqual(sent, case["total"]["traffic"]["other_host_bytes"])
                    times = self.replay("plan.goal")
                    self.assertEqual(len(times), gpus)
                    # LogGP charges size - 1 bytes of a message; each calc is rounded to a nanosecond.
                    self.assertAlmostEqual(max(times), case["step_s"] * 1e9, delta=exchanges + 30)
                    print(f"{gpus} GPUs, {passes}: LogGOPSim {max(times)} ns, moesim {case['step_s'] * 1e9:.0f} ns")


if __name__ == "__main__":
    MOESIM = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=sys.argv[:1])
