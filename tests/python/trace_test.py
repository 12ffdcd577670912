# SPDX-License-Identifier: Apache-2.0
"""The Python package's traces: written, read, checked by moesim, broken off.

usage: trace_test.py MOESIM
"""
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts/python"))
try:
    import numpy as np
    import moesim
    from moesim import Recorder, Trace, TraceError, TraceWriter, merge_ranks
except ImportError as error:
    print(f"skipped: no Python package {error.name}")
    sys.exit(77)

SHAPE = {"experts": 8, "top_k": 2, "layers": [1, 3]}

# A job that records until it is killed, and says which steps have ended.
JOB = """
import sys
import numpy as np
from moesim import Recorder, TraceWriter
rng = np.random.default_rng(1)
writer = TraceWriter(sys.argv[1], experts=64, top_k=4, layers=[0, 1, 2], resume=True)
recorder = Recorder(writer)
recorder.number = writer.last + 1
while True:
    for layer in (0, 1, 2):
        recorder.choose(layer, rng.random((512, 64)).argpartition(4)[:, :4])
    recorder.step([256, 256])
    print(recorder.number, flush=True)
"""


def draw(tokens, experts=8, top_k=2, layers=2, seed=1):
    return np.random.default_rng(seed).random((layers, tokens, experts)).argsort(2)[:, :, :top_k]


class Traces(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        self.path = pathlib.Path(self.scratch.name) / "trace"

    def verify(self, path):
        done = subprocess.run([MOESIM, "trace", "verify", str(path)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_what_is_written_is_read_and_is_sound(self):
        ids, weights = draw(6), np.random.default_rng(2).random((2, 6, 2))
        writer = TraceWriter(self.path, **SHAPE, model="toy", phase="prefill")
        self.assertEqual(writer.append(ids, [4, 2], weights=weights, source_ranks=[0, 0, 0, 0, 1, 1]), 0)
        self.assertEqual(writer.append(ids[:, :3], [3], number=7), 7)
        trace = Trace(self.path)
        self.assertEqual((len(trace), trace.numbers, trace.experts, trace.model), (2, [0, 7], 8, "toy"))
        np.testing.assert_array_equal(trace[0].ids, ids)
        np.testing.assert_allclose(trace[0].weights, weights, atol=1e-3)
        self.assertIsNone(trace[1].weights)
        self.assertEqual(trace.loads().shape, (2, 2, 8))
        self.assertEqual(trace.loads()[0, 1].tolist(), [int((ids[1] == expert).sum()) for expert in range(8)])
        self.verify(self.path)

    def test_what_cannot_be_is_refused_and_nothing_is_written(self):
        writer, ids = TraceWriter(self.path, **SHAPE), draw(6)
        for message, change in [
                ("expert 8 of 8", {"ids": np.where(ids == ids[1, 2, 0], 8, ids)}), ("twice", {"ids": np.zeros_like(ids)}),
                ("shape", {"ids": ids[:1]}), ("integers", {"ids": ids / 2}), ("add up", {"sequence_lengths": [4, 3]}),
                ("weights have shape", {"weights": np.ones((2, 6, 1))}), ("source ranks", {"source_ranks": [0]}),
                ("not finite", {"weights": np.full(ids.shape, 1e9)}), ("without tokens", {"ids": ids[:, :0]})]:
            with self.subTest(message), self.assertRaisesRegex(TraceError, message):
                writer.append(**({"ids": ids, "sequence_lengths": [4, 2]} | change))
        writer.append(ids, [6])
        with self.assertRaisesRegex(TraceError, "step 0 after step 0"):
            writer.append(ids, [6], number=0)
        self.assertEqual(sorted(entry.name for entry in self.path.iterdir()), ["step-00000000", "trace.json"])
        for message, wrong in [("top-k 9", {"top_k": 9}), ("ascending", {"layers": [3, 1]}), ("70000", {"experts": 70000}),
                               ("phase", {"phase": "training "})]:
            with self.subTest(message), self.assertRaisesRegex(TraceError, message):
                TraceWriter(self.path.with_name("other"), **(SHAPE | wrong))

    def test_recording_goes_on_behind_the_last_complete_step(self):
        TraceWriter(self.path, **SHAPE).append(draw(4), [4])
        (self.path / ".step-00000001.tmp").mkdir()
        with self.assertRaises(FileExistsError):
            TraceWriter(self.path, **SHAPE)
        with self.assertRaisesRegex(TraceError, "top_k is 2 there and 3 here"):
            TraceWriter(self.path, **(SHAPE | {"top_k": 3}), resume=True)
        self.assertEqual(TraceWriter(self.path, **SHAPE, resume=True).append(draw(4), [4]), 1)
        self.assertEqual(Trace(self.path).numbers, [0, 1])

    def test_what_was_killed_before_its_header_goes_on(self):
        self.path.mkdir()
        (self.path / ".trace.json.tmp").write_text("{", encoding="utf-8")
        with self.assertRaises(FileExistsError):
            TraceWriter(self.path, **SHAPE)
        self.assertEqual(TraceWriter(self.path, **SHAPE, resume=True).append(draw(4), [4]), 0)
        foreign = self.path.with_name("foreign")
        foreign.mkdir()
        (foreign / "notes.txt").touch()
        with self.assertRaises(FileExistsError):
            TraceWriter(foreign, **SHAPE, resume=True)

    def test_ranks_become_one_trace(self):
        for rank in range(3):
            writer = TraceWriter(self.path.with_name(f"rank{rank}"), **SHAPE)
            for number in range(3 if rank else 2):  # rank 0 was killed a step earlier
                writer.append(draw(4 + rank, seed=10 * rank + number), [4 + rank])
        merged = merge_ranks([self.path.with_name(f"rank{rank}") for rank in range(3)], self.path)
        self.assertEqual(merged.numbers, [0, 1])
        self.assertEqual(merged[1].source_ranks.tolist(), [0] * 4 + [1] * 5 + [2] * 6)
        np.testing.assert_array_equal(merged[1].ids[:, 9:], draw(6, seed=21))
        self.verify(self.path)

    def test_micro_batches_are_one_step_and_most_steps_are_left_out(self):
        ids = draw(6)
        with Recorder(TraceWriter(self.path, **SHAPE), every=2) as recorder:
            for step in range(3):
                for part in (slice(0, 4), slice(4, 6)):
                    for i, layer in enumerate(SHAPE["layers"]):
                        recorder.choose(layer, ids[i, part] if step != 1 else np.zeros((2, 2), int))
                recorder.choose(99, ids[0])  # no layer of the trace
                recorder.step([4, 2])
        self.assertEqual(Trace(self.path).numbers, [0, 2])
        np.testing.assert_array_equal(Trace(self.path)[1].ids, ids)

    def test_the_job_hears_of_a_step_that_cannot_be(self):
        recorder = Recorder(TraceWriter(self.path, **SHAPE))
        recorder.choose(1, draw(4)[0])
        with self.assertRaisesRegex(TraceError, r"layers \[3\] were not called"):
            recorder.step()
        for layer in SHAPE["layers"]:
            recorder.choose(layer, np.zeros((4, 2), int))
        recorder.step()
        with self.assertRaisesRegex(TraceError, "twice"):
            recorder.close()

    def test_an_archive_is_imported_again(self):
        writer, ids = TraceWriter(self.path, **SHAPE), draw(6)
        writer.append(ids, [4, 2], weights=np.random.default_rng(2).random((2, 6, 2)))
        archive, back = self.path.with_suffix(".npz"), self.path.with_name("back")
        moesim.save_npz(Trace(self.path), archive)
        subprocess.run([MOESIM, "trace", "import", "npz", archive, "-o", back, "--experts", "8", "--layers", "1,3"],
                       capture_output=True, check=True)
        np.testing.assert_array_equal(Trace(back)[0].ids, ids)
        np.testing.assert_array_equal(Trace(back)[0].weights, Trace(self.path)[0].weights)
        self.assertEqual(Trace(back)[0].sequence_lengths.tolist(), [4, 2])

    def test_an_import_without_its_kind_names_one(self):
        rows = pathlib.Path(self.scratch.name) / "rows.jsonl"
        rows.write_text("", encoding="utf-8")
        for word, said in ((rows, f"moesim trace import table {rows} -o NAME"), ("table", "INPUT is missing")):
            done = subprocess.run([MOESIM, "trace", "import", str(word), "-o", str(self.path)], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)

    def test_a_table_has_every_expert_of_every_step(self):
        writer = TraceWriter(self.path, **SHAPE)
        writer.append(draw(6), [6], number=5)
        writer.append(draw(6, seed=2), [6], number=9)
        table = self.path.with_suffix(".csv")
        moesim.save_csv(Trace(self.path), table)
        lines = table.read_text(encoding="utf-8").splitlines()
        self.assertEqual((lines[0], len(lines)), ("step,layer,expert,tokens", 1 + 2 * 2 * 8))
        loads = Trace(self.path).loads()
        self.assertIn(f"9,3,4,{loads[1, 1, 4]}", lines)
        self.assertEqual(sum(int(line.split(",")[3]) for line in lines[1:]), loads.sum())

    def test_a_killed_job_loses_one_step_at_most(self):
        environment = {"PYTHONPATH": str(ROOT / "scripts/python"), "PATH": "/usr/bin:/bin"}
        moments = random.Random(1)
        for _ in range(20):
            job = subprocess.Popen([sys.executable, "-c", JOB, self.path], stdout=subprocess.PIPE, text=True, env=environment)
            ended = int(job.stdout.readline())
            time.sleep(moments.uniform(0, 0.03))
            job.send_signal(signal.SIGKILL)
            ended = max([ended, *map(int, job.stdout.read().split())])
            job.wait()
            job.stdout.close()
            numbers = Trace(self.path).numbers
            self.assertEqual(numbers, list(range(len(numbers))))
            self.assertGreaterEqual(len(numbers), ended - 1)
        self.assertGreaterEqual(len(numbers), 20)
        self.verify(self.path)


class Package(unittest.TestCase):
    def test_it_installs_from_the_checkout(self):
        for module in ("venv", "pip", "setuptools", "wheel"):
            if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True, check=False).returncode != 0:
                self.skipTest(f"no Python package {module}")
        with tempfile.TemporaryDirectory() as folder:
            source, fresh = pathlib.Path(folder) / "source", pathlib.Path(folder) / "fresh"
            shutil.copytree(ROOT / "scripts/python", source, ignore=shutil.ignore_patterns("build", "*.egg-info", "__pycache__"))
            for command in ([sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", fresh],
                            [fresh / "bin/python", "-m", "pip", "install", "-q", "--no-build-isolation", "--no-deps", source],
                            [fresh / "bin/python", "-c", "import moesim; moesim.TraceWriter('t', experts=8, top_k=2, layers=[0])"]):
                done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertTrue((pathlib.Path(folder) / "t/trace.json").exists())
            self.assertTrue(list(fresh.glob("lib/*/site-packages/moesim/__init__.py")))


class Results(unittest.TestCase):
    def test_a_comparison_is_records(self):
        result = moesim.compare("scenarios/quickstart.yaml", topology="h100-rail", policy=["alltoall", "llep"], repeat=32)
        self.assertEqual([case["policy"] for case in result.records()], ["alltoall", "llep"])
        self.assertEqual(result.best()["policy"], "alltoall")
        self.assertTrue(all(not isinstance(item, dict) for record in result.records() for item in record.values()))
        with self.assertRaises(LookupError):
            result.best(policy="hecate")

    def test_a_run_of_an_iteration_and_a_change(self):
        flags = {"policy": "alltoall", "routing": "balanced", "set": {"topology.node.gpu": "h100-sxm"}}
        result = moesim.run("scenarios/iteration.yaml", **flags)
        self.assertEqual(result.time, "step_s")
        self.assertGreater(result.best()["step_s"], 0)

    def test_routing_is_drawn_from_a_dict(self):
        flags = {"topology": "h100-rail", "model": "tiny-moe", "policy": "alltoall", "steps": "0", "set": {"topology.nodes": 1}}
        result = moesim.compare(synth={"tokens": 512, "sequences": 8, "skew": 0.5, "seed": 7}, **flags)
        self.assertEqual(result.document["trace"]["name"], "synthetic routing (skew 0.5, seed 7)")
        self.assertEqual(result.document["trace"]["synth"]["tokens"], 512)

    def test_the_best_is_neither_a_what_if_nor_lossy(self):
        def case(policy, seconds, routing="recorded", lossy=""):
            return {"policy": policy, "routing": routing, "step_s": seconds, "lossy": lossy}

        cases = [case("a", 1, routing="balanced"), case("a", 4), case("b", 2, lossy="drops 18 %"), case("c", 3),
                 {"policy": "d", "routing": "recorded", "unsuitable": "does not fit"}]
        result = moesim.Result({"format": "moesim-result", "software": {"name": "megatron-core"}, "cases": cases})
        self.assertEqual(result.best()["policy"], "c")
        self.assertEqual(result.best(software="megatron-core")["policy"], "c")
        with self.assertRaisesRegex(LookupError, "ideal"):
            result.best(software="ideal")
        self.assertEqual(result.best(lossy="allow")["policy"], "b")
        self.assertEqual(result.best(routing="balanced")["policy"], "a")
        self.assertEqual(result.best(policy="b")["policy"], "b")
        with self.assertRaisesRegex(LookupError, "lossy"):
            moesim.Result({"format": "moesim-result", "cases": [cases[2], case("e", 1, lossy="fp8 rows")]}).best()

    def test_bad_input_says_what_moesim_says(self):
        with self.assertRaisesRegex(moesim.MoesimError, "h100-rial") as raised:
            moesim.run("scenarios/quickstart.yaml", topology="h100-rial", policy="llep")
        self.assertEqual(raised.exception.code, 2)


if __name__ == "__main__":
    import os
    MOESIM = str(pathlib.Path(sys.argv[1]).resolve())
    os.environ["MOESIM"] = MOESIM
    os.chdir(ROOT)
    unittest.main(argv=sys.argv[:1])
