# SPDX-License-Identifier: Apache-2.0
"""scripts/sequence_loads.py: loads of known sequences, and what it refuses."""
import array
import random
import statistics
import subprocess
import sys
import tempfile
import unittest
import zipfile
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parent.parent / "scripts"
sys.path.insert(0, str(SCRIPTS))
import sequence_loads as loads


def npy(values, shape, descr):
    header = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117).encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + values


def write(path, ids, shape, lengths, descr="|u1"):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("ids.npy", npy(bytes(ids), shape, descr))
        archive.writestr("seq_len.npy", npy(array.array("i", lengths).tobytes(), (len(lengths),), "<i4"))


class SequenceLoads(unittest.TestCase):
    def test_counts_are_of_sequences_and_layers(self):
        ids = bytes([0, 1, 2, 3,  1, 0, 2, 4,  5, 6, 7, 2])  # 3 tokens, 2 layers, top-2
        counts = loads.counts_of(ids, (3, 2, 2), [2, 1])
        self.assertEqual(counts, [[{0: 2, 1: 2}, {2: 2, 3: 1, 4: 1}], [{5: 1, 6: 1}, {7: 1, 2: 1}]])

    def test_a_bias_evens_what_all_sequences_have_in_common(self):
        counts = loads.counts_of(bytes([0, 0, 1, 0, 0, 1]), (6, 1, 1), [3, 3])
        relative = loads.relative_loads(counts)
        self.assertEqual(len(relative[0]), 2)
        for expert in relative[0]:
            for load in expert:
                self.assertAlmostEqual(load, 1)
        self.assertAlmostEqual(loads.busiest(relative, 64, 2, 1, random.Random(1)), 1)

    def test_sequences_of_one_expert_each_are_drawn_as_balls_are(self):
        counts = loads.counts_of(bytes(range(8)), (8, 1, 1), [1] * 8)
        random_ = random.Random(2)
        found = statistics.mean(loads.busiest(loads.relative_loads(counts), 64, 8, 1, random_) for _ in range(2000))
        balls = statistics.mean(max(map([random_.randrange(8) for _ in range(64)].count, range(8))) / 8
                                for _ in range(2000))
        self.assertAlmostEqual(found, balls, delta=0.03)
        self.assertGreater(found, 1.4)

    def test_shuffled_tokens_keep_their_choices(self):
        ids = array.array("B", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])  # 3 tokens, 2 layers, top-2
        other = loads.shuffled(ids, (3, 2, 2), random.Random(3))
        self.assertNotEqual(other, ids)
        tokens = sorted(tuple(other[t:t + 4]) for t in (0, 4, 8))
        self.assertEqual(tokens, [(0, 1, 2, 3), (4, 5, 6, 7), (8, 9, 10, 11)])

    def test_sequences_that_differ_are_evener_with_tokens_shuffled(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.npz"
            ids = [e for s in range(8) for _ in range(200) for e in (s, (s + 1) % 8)]
            write(path, ids, (1600, 1, 2), [200] * 8)
            ran = subprocess.run([sys.executable, SCRIPTS / "sequence_loads.py", path, "--gpus", "4", "--per-gpu", "2"],
                                 capture_output=True, text=True, check=True)
            found, by_chance = (float(part.split()[0]) for part in
                                (ran.stdout.split(" GPUs has ")[1], ran.stdout.split("; ")[1]))
            self.assertGreater(found, 1.15)
            self.assertLess(by_chance, 1.05)

    def test_reads_files_and_refuses_other_types(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "t.npz"
            write(path, [0, 1] * 6, (6, 1, 2), [2, 4])
            ran = subprocess.run([sys.executable, SCRIPTS / "sequence_loads.py", path, "--gpus", "2", "--per-gpu", "1"],
                                 capture_output=True, text=True, check=True)
            self.assertEqual(ran.stdout, "2 sequences: the busiest of 2 GPUs has 1.00 (1.00 to 1.00) times the mean; "
                             "1.00 with tokens shuffled\n")
            write(path, [0, 1] * 6, (3, 1, 2), [1, 2], "<u2")
            ran = subprocess.run([sys.executable, SCRIPTS / "sequence_loads.py", path], capture_output=True, text=True,
                                 check=False)
            self.assertEqual(ran.returncode, 1)
            self.assertIn("ids is <u2", ran.stderr)


if __name__ == "__main__":
    unittest.main()
