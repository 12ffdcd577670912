# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu_adopt: results that a fake machine wrote become a model, a page and lines; parts of them what they can.

usage: gpu_adopt_test.py [MOESIM MOESIM_HW ROOT]    with programs also what they measure on this host, under mpirun
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "gpu_adopt"
PROGRAMS = [str(pathlib.Path(path).resolve()) for path in sys.argv[1:3]]
GPU = "NVIDIA H100 80GB HBM3, 81559 MiB, 580.65"

# Fits anything, and finds every policy 10 % too fast.
HW = """#!/bin/sh
while [ "$1" != --times ]; do shift; done
grep -q broken "$2" && { echo "$2:1: error: this is not a file of times" >&2; exit 2; }
echo "links: measured" > "$4.calib.yaml"; echo "name: gpu" > "$4.gpu.yaml"
"""
MOESIM = f"""#!{sys.executable}
import json, sys
file, out = sys.argv[2], sys.argv[sys.argv.index("--json") + 1]
cases = json.load(open(file))["cases"]
policies = [dict(policy=c["policy"], measured_s=c["step_s"], simulated_s=c["step_s"] * 0.9, error=-0.1, spread=0.02, wrong=c["wrong"])
            for c in cases if "step_s" in c]
pairs = len(policies) * (len(policies) - 1) // 2
json.dump(dict(mean_absolute_error=0.1, valid=False, arguments=sys.argv[1:],
               results=[dict(ranks=4, pairs=pairs, ordered_pairs=pairs, policies=policies)]), open(out, "w"))
print("the simulator is not valid here", file=sys.stderr)
sys.exit(1)
"""


class GpuAdopt(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.results = self.folder / "gpu-check"
        (self.results / "calibration").mkdir(parents=True)
        self.out = self.folder / "adopted"
        for name, text in (("moesim", MOESIM), ("moesim-hw", HW)):
            path = self.folder / name
            path.write_text(text)
            path.chmod(0o755)
        self.write("found.json", {"gpus": [GPU], "nvcc": "/usr/local/cuda/bin/nvcc", "nccl": "libnccl.so.2", "commit": "abc1234"})
        self.write("phases.json", {"find": {"state": "done", "seconds": 0.1, "detail": ""},
                                   "sanitize": {"state": "skipped", "seconds": 0, "detail": "no time left"}})
        (self.results / "kernels-CudaTopk.log").write_text("[==========] 3 tests ran.\n[  PASSED  ] 3 tests.\n")
        (self.results / "calibration" / "gpu.times.jsonl").write_text('{"format": "moesim-hw-times", "ranks": 4}\n')
        self.measure({"policy": "alltoall", "step_s": 0.004, "wrong": 0}, {"policy": "dedup", "step_s": 0.002, "wrong": 0},
                     {"policy": "hecate", "unsuitable": "no attention"})
        for way, seconds in (("grouped", 0.001), ("one-by-one", 0.002), ("on-streams", 0.0015)):
            self.write(f"gemm-{way}.json", {"cases": [{"policy": "dedup", "step_s": seconds}]})

    def write(self, name, content):
        (self.results / name).write_text(json.dumps(content))

    def measure(self, *cases):
        self.write("measured-gpu.json", {"ranks": 4, "description": "NCCL 2.28.9, NVIDIA H100 80GB HBM3 (sm_90)",
                                         "date": "2026-12-01", "cases": cases})

    def adopt(self, results=None, *more):
        words = [sys.executable, str(SCRIPT), str(results or self.results), "--out", str(self.out),
                 "--moesim", str(self.folder / "moesim"), "--moesim-hw", str(self.folder / "moesim-hw"), *more]
        return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)

    def page(self, name="h100"):
        return (self.out / f"gpu-{name}.md").read_text()

    def test_a_whole_run(self):
        done = self.adopt()
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        page = self.page()
        for text in ("# h100: measured against simulated", "| dedup | 2.000 | 1.800 | -10.0 % | 2.0 % | 0 |",
                     "1 of 1 pairs are in the measured order", "| dedup | 1.000 | 2.000 | 1.500 |", "| CudaTopk | 3 | 0 |",
                     f"| GPUs | {GPU} |", "| sources | abc1234 |", "| measured | 2026-12-01 |",
                     "Elements that differ from the reference: 0."):
            self.assertIn(text, page)
        for text in ("Rehearsal", "Missing"):
            self.assertNotIn(text, page)
        self.assertEqual((self.out / "readme.md").read_text(),
                         "| steps of 2 policies (gpu) | 4 ranks on h100, calibrated there | mean 10.0 %, worst 10.0 % (dedup); "
                         "1 of 1 pairs in order | [h100](docs/results/" "gpu-h100.md) |\n")
        self.assertIn("h100.gpu.yaml: for models/gpu/", done.stdout)
        compared = json.loads((self.out / "validation-gpu.json").read_text())["arguments"]
        self.assertEqual(compared[-2:], ["--set", f"topology.calibration={self.out}/h100.calib.yaml"])

    def test_one_policy_has_no_order(self):
        self.measure({"policy": "dedup", "step_s": 0.002, "wrong": 0})
        self.assertEqual(self.adopt().returncode, 0)
        self.assertNotIn("pairs", self.page())
        self.assertEqual((self.out / "readme.md").read_text(), "| a step of a policy (gpu) | 4 ranks on h100, calibrated there "
                         "| mean 10.0 %, worst 10.0 % (dedup) | [h100](docs/results/" "gpu-h100.md) |\n")

    def test_an_archive_tells_its_hash(self):
        archive = self.folder / "gpu-check.tar.gz"
        with tarfile.open(archive, "w:gz") as packed:
            packed.add(self.results, "gpu-check")
        done = self.adopt(archive)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(self.page(), r"\| archive, SHA-256 \| [0-9a-f]{64} \|")

    def test_an_archive_that_leaves_its_folder_is_refused(self):
        (self.folder / "link").symlink_to("/etc")
        for file, name in (("moesim", "../evil"), ("link", "gpu-check/link")):
            archive = self.folder / "evil.tar.gz"
            with tarfile.open(archive, "w:gz") as packed:
                packed.add(self.folder / file, name)
            done = self.adopt(archive)
            self.assertEqual(done.returncode, 2)
            self.assertIn("is not a plain file of one folder", done.stderr)

    def test_a_rehearsal_is_called_one_and_gives_no_lines(self):
        self.write("found.json", {"gpus": ["Stand-in, 80000 MiB, 999.9"]})
        done = self.adopt(None, "--name", "fake")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("**Rehearsal: no GPU made these figures.**", self.page("fake"))
        self.assertEqual((self.out / "readme.md").read_text(), "")
        self.assertIn("(a rehearsal)", done.stdout)

    def test_what_emulated_gpus_measured_is_a_rehearsal(self):
        self.write("measured-gpu.json", {"ranks": 4, "description": "NCCL 2.28.9, emulated (sm_90)", "cases": []})
        self.adopt()
        self.assertIn("Rehearsal", self.page())

    def test_parts_of_a_run(self):
        for path in (self.results / "calibration" / "gpu.times.jsonl", self.results / "measured-gpu.json",
                     self.results / "gemm-on-streams.json", self.results / "kernels-CudaTopk.log"):
            path.unlink()
        done = self.adopt()
        self.assertEqual((done.returncode, done.stderr), (1, ""))
        for what in ("a GPU model: no calibration was measured", "a comparison: no step was measured",
                     "gemm-on-streams.json: the run ended before it was written", "kernels: their tests did not run"):
            self.assertIn(f"missing: {what}\n", done.stdout)
            self.assertIn(f"- {what}\n", self.page())
        self.assertIn("| dedup | 1.000 | 2.000 | - |", self.page())

    def test_a_file_that_was_cut_short(self):
        (self.results / "measured-gpu.json").write_text('{"cases": [')
        (self.results / "calibration" / "gpu.times.jsonl").write_text("broken")
        done = self.adopt()
        self.assertEqual(done.returncode, 1)
        self.assertIn("missing: measured-gpu.json: ", done.stdout)
        self.assertIn("error: this is not a file of times", done.stdout)

    def test_without_a_calibration_of_as_many_ranks(self):
        (self.results / "calibration" / "gpu.times.jsonl").rename(self.results / "calibration" / "pair.times.jsonl")
        (self.results / "calibration" / "pair.times.jsonl").write_text('{"ranks": 2}\n')
        done = self.adopt()
        self.assertIn("missing: a calibration for measured-gpu.json: it is compared with the data sheet", done.stdout)
        self.assertNotIn("--set", json.loads((self.out / "validation-gpu.json").read_text())["arguments"])

    def test_failures_and_wrong_numbers_are_told(self):
        self.write("phases.json", {"kernels": {"state": "failed", "seconds": 3, "detail": "exit code 1, a|b"}})
        self.write("measured-gpu.json", {"ranks": 4, "cases": [{"policy": "dedup", "step_s": 0.002, "wrong": 7}]})
        done = self.adopt()
        self.assertEqual(done.returncode, 1)
        self.assertIn("failed: kernels: exit code 1, a|b\nwrong: 7 elements\n", done.stdout)
        self.assertIn("| exit code 1, a/b |", self.page())

    def test_without_programs_the_page_says_what_they_did_not_do(self):
        (self.folder / "moesim").unlink()
        (self.folder / "moesim-hw").unlink()
        done = self.adopt()
        self.assertEqual(done.returncode, 1)
        self.assertIn("missing: the fit of gpu.times.jsonl: ", done.stdout)
        self.assertIn("missing: the comparison of measured-gpu.json: ", done.stdout)

    def test_a_comparison_that_writes_nothing_is_missing(self):
        (self.folder / "moesim").write_text("#!/bin/sh\nexit 1\n")
        done = self.adopt()
        self.assertEqual(done.returncode, 1)
        self.assertIn("missing: the comparison of measured-gpu.json: it wrote nothing", done.stdout)

    def test_no_results(self):
        empty = self.folder / "empty"
        empty.mkdir()
        done = self.adopt(empty)
        self.assertEqual(done.returncode, 2)
        self.assertIn("neither found.json nor phases.json of gpu_check is there", done.stderr)

    @unittest.skipIf(not PROGRAMS or shutil.which("mpirun") is None, "no programs or no mpirun")
    def test_what_this_host_measures(self):
        """Two ranks on CPUs in place of GPUs, by the real programs from end to end."""
        env = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMPI_MCA_rmaps_base_oversubscribe="1",
                   OMPI_MCA_hwloc_base_binding_policy="none", PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe", MOESIM_DATA=str(ROOT))
        moesim, hardware = PROGRAMS

        def run(*command):
            done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)

        pair = ["--set", "topology.nodes=2", "--set", "topology.node.gpus=1"]
        measured, times = self.results / "measured-gpu.json", self.results / "calibration" / "gpu"
        run("mpirun", "-n", "2", hardware, "run", "scenarios/gpu.yaml", "--policy", "alltoall,dedup", "--steps", "0:1", *pair,
            "--warmup-runs", "0", "--repeats", "2", "--json", str(measured))
        run("mpirun", "-n", "2", hardware, "calibrate", "--topology", "h100-rail", "--model", "tiny-moe", "--quick", *pair, "-o", str(times))
        self.write("found.json", {"gpus": []})
        words = [sys.executable, str(SCRIPT), str(self.results), "--out", str(self.out), "--moesim", moesim, "--moesim-hw", hardware]
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=False, timeout=240)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertRegex(self.page("gpu"), r"\| alltoall \| \d+\.\d{3} \| \d+\.\d{3} \| [-+]\d+\.\d % \| \d+\.\d % \| 0 \|")
        self.assertIn("Rehearsal", self.page("gpu"))
        self.assertIn("name: ", (self.out / "gpu.gpu.yaml").read_text())


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
