# SPDX-License-Identifier: Apache-2.0
"""scripts/gpu_check: what it would run, and its phases with stand-ins for a GPU, moesim-hw and the tests of kernels."""
import fnmatch
import gzip
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "gpu_check"
GOLDEN = pathlib.Path(__file__).parent / "golden" / "dry-run.txt"

# Tells its arguments, and what launches it; FAIL names words of the runs that end with exit code 3.
HW = """#!/bin/sh
[ "$2" = --help ] && { echo --saved ${LEAN---topology}; exit 0; }
case "$*" in *${FAIL:-nothing}*) [ "$RANK" = 1 ] && { echo broken on purpose; exit 3; } ;; esac
case "$*" in *${HANG:-nothing}*) sleep 60 ;; esac
echo "$RANK of $WORLD_SIZE at $MASTER_ADDR:$MASTER_PORT gpu $LOCAL_RANK host ${NCCL_HOSTID:-shared} nccl $MOESIM_NCCL"
echo "service ${CUDA_MPS_PIPE_DIRECTORY:-none}, ${CUDA_MPS_ACTIVE_THREAD_PERCENTAGE:-100} %, $CUDA_DEVICE_MAX_CONNECTIONS queues"
json= prefix=
for word; do
  [ "$json" = next ] && json=$word; [ "$word" = --json ] && json=next
  [ "$prefix" = next ] && prefix=$word; [ "$word" = -o ] && prefix=next
done
case "$*" in
  *--times*) : > "$prefix.calib.yaml" ;;
  *calibrate*--saved*) [ "$RANK" = 0 ] && : > "$prefix.times.jsonl" ;;
esac
[ -n "$json" ] && [ "$RANK" = 0 ] && echo '{"cases": [{"policy": "dedup", "step_s": 0.0025, "wrong": 0},
  {"policy": "hecate", "unsuitable": "no attention"}]}' > "$json"
exit 0
"""

# Tells how it was called; what it is told on its input ends it.
SERVICE = """#!/bin/sh
[ -n "$REFUSES" ] && { echo no service here >&2; exit 1; }
if [ "$1" = -d ]; then
  echo "began at $CUDA_MPS_PIPE_DIRECTORY" >> "$0.told"; echo served > "$CUDA_MPS_LOG_DIRECTORY/server.log"
else
  echo "told $(cat) at $CUDA_MPS_PIPE_DIRECTORY" >> "$0.told"
fi
"""

# As much of PyTorch as a message between two ranks takes.
TORCH = """
float32, __version__ = 0, "9.9"
class Tensor:
    def __ne__(self, other): return self
    def sum(self): return 0
    def any(self): return False
def arange(*sizes, **options): return Tensor()
def zeros_like(tensor): return Tensor()
class cuda:
    def set_device(gpu): pass
    def synchronize(): pass
    class nccl:
        def version(): return (2, 28, 9)
"""
DISTRIBUTED = """
def init_process_group(backend): pass
def send(tensor, peer): pass
def recv(tensor, peer): pass
"""


class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for library in (self.nccl(), self.nvidia("cu13") / "libcublas.so.13"):
            library.parent.mkdir(parents=True)
            library.touch()
        self.program("nvidia-smi", "#!/bin/sh\necho Stand-in, 80000 MiB, 999.9\n")
        self.program("moesim-hw", HW)
        self.program("cuda-tests", "#!/bin/sh\necho kernels are right\n")
        self.program("compute-sanitizer", "#!/bin/sh\necho memory is right\n")
        self.program("moesim", "#!/bin/sh\necho simulated is measured\n")
        torch = self.folder / "modules" / "torch"
        torch.mkdir(parents=True)
        (torch / "__init__.py").write_text(TORCH)
        (torch / "distributed.py").write_text(DISTRIBUTED)
        self.steps = self.folder / "case.moesim"
        self.out = self.folder / "out"
        self.save(ranks=4)

    def save(self, ranks, name="case"):
        header = {"cluster": {"gpus": [{}] * ranks},
                  "scenario": {"topology": ["pair"], "model": "tiny-moe",
                               "set": ["topology.nodes=2", "policy.k=1", "model.hidden=64"]}}
        path = self.folder / f"{name}.moesim"
        with gzip.open(path, "wt") as file:
            file.write(json.dumps(header) + "\n")
        return str(path)

    def save_calibration(self, name="links", ranks=2):
        path = self.folder / f"{name}.moesim-calibration"
        with gzip.open(path, "wt") as file:
            file.write(json.dumps({"format": "moesim-calibration", "ranks": ranks}) + "\n")
        return str(path)

    def program(self, name, text):
        path = self.bin / name
        path.write_text(text)
        path.chmod(0o755)

    def environment(self, **more):
        env = {"PATH": f"{self.bin}:/usr/bin:/bin", "VIRTUAL_ENV": str(self.folder / "python"),
               "PYTHONPATH": str(self.folder / "modules")}
        return {**env, **more}

    def check(self, *arguments, env=None, steps=True):
        words = [sys.executable, str(SCRIPT), "--out", str(self.out), *arguments]
        return subprocess.run([*words, *([str(self.steps)] if steps else [])], env=self.environment(**(env or {})),
                              capture_output=True, text=True, check=False, timeout=120)

    def full(self, *arguments, **more):
        return self.check("--binary", str(self.bin / "moesim-hw"), *arguments, **more)

    def phases(self):
        return json.loads((self.out / "phases.json").read_text())

    def states(self):
        return {name: phase["state"] for name, phase in self.phases().items()}

    def test_dry_run_prints_what_it_would_run_and_touches_nothing(self):
        self.save(ranks=2)
        self.program("nvcc", "")
        done = self.check("--dry-run", self.save_calibration(), self.save(1, "one"), env={"PATH": str(self.bin)})
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        text = done.stdout.replace(str(self.folder), "FOLDER").replace(str(ROOT), "ROOT").replace(sys.executable, "PYTHON")
        limits = [int(words[-2]) for words in map(str.split, text.splitlines()) if words[:1] == ["#"] and words[-1] == "s"]
        self.assertEqual(sum(limits) - 300, 540)  # nine minutes; 300 s to build
        if os.environ.get("MOESIM_ACCEPT") == "1":
            GOLDEN.write_text(text)
        self.assertEqual(text, GOLDEN.read_text())
        self.assertFalse(self.out.exists())

    def test_an_nvcc_off_the_path_is_put_there_for_meson_and_ninja(self):
        home = self.folder / "cuda"
        (home / "bin").mkdir(parents=True)
        (home / "lib").mkdir()
        self.program("../cuda/bin/nvcc", "")
        found = {"PATH": str(self.bin), "CUDA_HOME": str(home)}
        of_a_package = self.check("--dry-run", env=found).stdout
        (home / "lib64").mkdir()
        whole = self.check("--dry-run", env=found).stdout
        for tool in ("meson", "ninja"):
            path = f"PATH={home}/bin:{self.bin}"
            self.assertIn(f"{path} LIBRARY_PATH={home}/lib {tool} ", of_a_package)
            self.assertIn(f"{path} {tool} ", whole)

    def test_all_phases(self):
        done = self.full(self.save(1, "one"), self.save_calibration())
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        states = self.states()
        self.assertEqual(states.pop("build"), "skipped")
        self.assertEqual(set(states.values()), {"done"}, self.phases())
        self.assertEqual(list(states), ["find", "kernels", "alone", "gemm", "pytorch", "numerics", "calibrate", "measure",
                                        "sanitize", "validate"])
        self.assertIn("case.moesim --backend nccl --check 16 --repeats 3", (self.out / "measure-case.log.0").read_text())
        self.assertIn("one.moesim", (self.out / "gemm-grouped.log").read_text())
        self.assertIn("PyTorch 9.9 NCCL (2, 28, 9) wrong 0", (self.out / "pytorch.log.1").read_text())
        with tarfile.open(f"{self.out}.tar.gz") as packed:
            names = packed.getnames()
        self.assertLessEqual({"out/summary.txt", "out/kernels-CudaTopk.log", "out/calibration/links.times.jsonl"}, set(names))
        self.assertEqual((self.out / "numerics-case.log.3").read_text().splitlines()[1],
                         f"3 of 4 at 127.0.0.1:29573 gpu 0 host rank3 nccl {self.nccl()}")
        self.assertRegex(done.stdout, r"dedup +2\.500 ms  0\nhecate +-  -\n")
        self.assertIn((self.out / "summary.txt").read_text(), done.stdout)
        self.assertEqual(json.loads((self.out / "found.json").read_text())["gpus"], ["Stand-in, 80000 MiB, 999.9"])

    def served(self, *arguments, **more):
        """Of the ranks of a step: where their service is and what each has; and what the service was told."""
        self.program("nvidia-cuda-mps-control", SERVICE)
        done = self.full("--to", "numerics", *arguments, **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        told = self.bin / "nvidia-cuda-mps-control.told"
        ranks = {(self.out / f"numerics-case.log.{rank}").read_text().splitlines()[2] for rank in range(4)}
        return ranks, told.read_text().splitlines() if told.exists() else [], done.stdout

    def test_ranks_that_share_a_gpu_are_served_side_by_side(self):
        ranks, told, _ = self.served()
        self.assertEqual(len(told), 2)
        place = told[0].removeprefix("began at ")
        self.assertEqual(told[1], f"told quit at {place}")
        self.assertEqual(ranks, {f"service {place}, 25 %, 8 queues"})
        self.assertFalse(pathlib.Path(place).exists())
        self.assertEqual((self.out / "mps-server.log").read_text(), "served\n")

    def test_ranks_take_turns_if_told_or_without_a_service(self):
        alone = {"service none, 100 %, 32 queues"}
        self.assertEqual(self.served("--turns")[:2], (alone, []))
        ranks, told, said = self.served(env={"REFUSES": "1"})
        self.assertEqual((ranks, told), (alone, []))
        self.assertIn("no Multi-Process Service: no service here", said)
        self.program("nvidia-smi", "#!/bin/sh\nfor i in 1 2 3 4; do echo Stand-in; done\n")
        self.assertEqual(self.served()[:2], (alone, []))

    def nvidia(self, package):
        return self.folder / "python/lib/python3.11/site-packages/nvidia" / package / "lib"

    def nccl(self):
        return self.nvidia("nccl") / "libnccl.so.2"

    def test_a_rank_per_gpu_where_there_are_enough(self):
        self.program("nvidia-smi", "#!/bin/sh\nfor g in 0 1 2 3; do echo Stand-in, 80000 MiB, 999.9; done\n")
        self.assertEqual(self.full().returncode, 0)
        self.assertIn("gpu 3 host shared", (self.out / "numerics-case.log.3").read_text())

    def test_a_phase_that_fails_loses_no_other(self):
        done = self.full(env={"FAIL": "calibrate"})
        self.assertEqual(done.returncode, 1)
        states = self.states()
        self.assertEqual(states["calibrate"], "failed")
        self.assertEqual({states[name] for name in ("numerics", "measure", "sanitize", "gemm", "validate")}, {"done"})
        self.assertIn("exit code 3", self.phases()["calibrate"]["detail"])
        self.assertIn("broken on purpose", done.stdout)

    def test_goes_on_from_a_phase(self):
        self.full(env={"FAIL": "calibrate"})
        (self.out / "kernels-CudaTopk.log").unlink()
        done = self.full("--from", "calibrate")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertFalse((self.out / "kernels-CudaTopk.log").exists())
        self.assertEqual(self.states()["kernels"], "done")

    def test_ends_with_a_phase(self):
        self.full("--to", "pytorch")
        self.assertEqual(list(self.states()), ["find", "build", "kernels", "alone", "gemm", "pytorch"])

    def test_a_suite_that_crashes_hides_no_other(self):
        self.program("cuda-tests", "#!/bin/sh\ncase $1 in *Activation*) kill -9 $$ ;; esac\necho kernels are right\n")
        self.full("--to", "kernels")
        self.assertEqual(self.states()["kernels"], "failed")
        self.assertIn("kernels-CudaActivation.log", self.phases()["kernels"]["detail"])
        self.assertIn("kernels are right", (self.out / "kernels-CudaTopk.log").read_text())

    def test_every_suite_of_kernels_is_run(self):
        text = SCRIPT.read_text()
        patterns = re.search(r'SUITES = \((.*?)\)', text, re.S).group(1).replace('"', "").split(",")
        for source in (ROOT / "tests/realhw/cuda").glob("*_test.cpp"):
            for suite in re.findall(r"^TEST(?:_F|_P)?\((\w+),", source.read_text(), re.M):
                self.assertTrue([p for p in patterns if fnmatch.fnmatch(suite, p.strip())], suite)

    def test_the_sanitizer_leaves_out_errors_on_purpose(self):
        self.full()
        command = (self.out / "sanitize.log").read_text().splitlines()[0]
        self.assertIn("--report-api-errors no", command)
        self.assertIn("'--gtest_filter=-*Product*:CudaDevice.*:CudaScratch.*'", command)

    def test_without_git(self):
        self.program("nvcc", "")
        done = self.full("--to", "find", env={"PATH": str(self.bin)})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(json.loads((self.out / "found.json").read_text())["commit"], "unknown")

    def test_nccl_tells_its_first_errors_unless_told_otherwise(self):
        self.program("moesim-hw", HW.replace('echo "$RANK of', 'echo "debug $NCCL_DEBUG"; echo "$RANK of'))
        for env, expected in (({}, "debug WARN"), ({"NCCL_DEBUG": "INFO"}, "debug INFO")):
            self.full("--to", "numerics", env=env)
            self.assertIn(expected, (self.out / "numerics-case.log.0").read_text())

    def test_without_models_next_to_the_binary_times_are_fitted_at_home(self):
        elsewhere = self.folder / "packed"
        (elsewhere / "scripts").mkdir(parents=True)
        (elsewhere / "realhw" / "cuda").mkdir(parents=True)
        for script in (SCRIPT, SCRIPT.with_name("pytorch_message.py")):
            shutil.copy(script, elsewhere / "scripts")
        shutil.copy(ROOT / "realhw/cuda/find_cuda.py", elsewhere / "realhw/cuda")
        words = [sys.executable, str(elsewhere / "scripts" / "gpu_check"), "--out", str(self.out), "--binary",
                 str(self.bin / "moesim-hw"), str(self.steps), self.save_calibration(ranks=4)]
        run = lambda: subprocess.run(words, env=self.environment(), capture_output=True, text=True, check=False, timeout=120)
        done = run()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("at home, in out: moesim-hw calibrate --times calibration/links.times.jsonl", done.stdout)
        for name in ("models", "topologies"):
            (self.bin / name).mkdir()
        self.assertNotIn("at home", run().stdout)
        self.assertTrue((self.out / "calibration/links.calib.yaml").is_file())

    def test_the_budget_ends_what_hangs(self):
        begin = time.monotonic()
        done = self.full("--budget", "2", env={"HANG": "calibrate"})
        self.assertLess(time.monotonic() - begin, 40)
        self.assertEqual(done.returncode, 1)
        states = self.states()
        self.assertEqual((states["numerics"], states["calibrate"], states["measure"]), ("done", "failed", "skipped"))
        self.assertIn("ran longer", self.phases()["calibrate"]["detail"])
        self.assertEqual(self.phases()["measure"]["detail"], "no time left")

    def test_calibrates_by_saved_calibrations_and_fits_where_it_can(self):
        done = self.full(self.save_calibration())
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(sorted(os.listdir(self.out / "calibration")), ["links.calib.yaml", "links.times.jsonl"])
        self.assertIn("calibrate --saved", (self.out / "calibrate-links.log.1").read_text())
        self.assertFalse((self.out / "calibrate-links.log.2").exists())  # 2 ranks
        self.assertNotIn("--resume", (self.out / "calibrate-links.log.0").read_text())
        self.assertNotIn("at home", done.stdout)

    def compared_with(self):
        """The calibration with which moesim validate was called; None: with none."""
        words = (self.out / "validate-case.log").read_text().splitlines()[0].split()
        return pathlib.Path(words[-1].split("=", 1)[1]).name if words[-2] == "--set" else None

    def test_compares_with_the_calibration_of_as_many_ranks(self):
        done = self.full(self.save_calibration())
        self.assertIsNone(self.compared_with(), done.stdout)  # 4 ranks and 2
        done = self.full(self.save_calibration(), self.save_calibration("others", ranks=4))
        self.assertEqual(self.compared_with(), "others.calib.yaml", done.stdout)
        done = self.full(self.save_calibration("others", ranks=4), self.save_calibration("case", ranks=4))
        self.assertEqual(self.compared_with(), "case.calib.yaml", done.stdout)

    def test_what_cannot_be_fitted_here_is_compared_at_home(self):
        done = self.full(self.save_calibration(ranks=4), env={"LEAN": ""})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("  at home, in out: moesim-hw calibrate --times calibration/links.times.jsonl -o links; "
                      "moesim validate measured-case.json --set topology.calibration=links.calib.yaml\n", done.stdout)
        self.assertFalse((self.out / "validate-case.log").exists())

    def test_without_yaml_saved_calibrations_are_measured_and_fitted_at_home(self):
        done = self.full(self.save_calibration(), env={"LEAN": ""})
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertEqual(os.listdir(self.out / "calibration"), ["links.times.jsonl"])
        home = "moesim-hw calibrate --times calibration/links.times.jsonl -o links"
        self.assertIn(f"  at home, in out: {home}\n", done.stdout)
        (self.bin / "moesim").unlink()
        done = self.full("--from", "calibrate", self.save_calibration(), env={"LEAN": ""})
        self.assertIn("--resume", (self.out / "calibrate-links.log.0").read_text())
        self.assertIn(f"at home, in out: {home}; moesim validate measured-case.json", done.stdout)

    def test_without_yaml_and_saved_calibrations_nothing_is_calibrated(self):
        self.assertEqual(self.full(env={"LEAN": ""}).returncode, 0)
        self.assertEqual(self.states()["calibrate"], "skipped")
        self.assertIn("steps/NAME.moesim-calibration", self.phases()["calibrate"]["detail"])

    def test_calibrations_without_steps(self):
        done = self.full(self.save_calibration(), steps=False)
        self.assertEqual(done.returncode, 0, done.stdout)
        states = self.states()
        self.assertEqual({states[name] for name in ("alone", "numerics", "measure", "gemm", "validate")}, {"skipped"})
        self.assertEqual(states["calibrate"], "done")
        self.assertEqual(self.phases()["validate"]["detail"], "nothing was measured")

    def test_without_a_gpu(self):
        self.program("nvidia-smi", "#!/bin/sh\nexit 9\n")
        self.program("cuda-tests", "#!/bin/sh\necho skipped: there is no GPU; exit 77\n")
        done = self.full()
        self.assertEqual(done.returncode, 1)
        self.assertEqual(self.states()["find"], "failed")
        self.assertEqual(self.phases()["kernels"], {**self.phases()["kernels"], "state": "skipped"})

    def test_without_a_simulator_it_says_what_to_run_at_home(self):
        (self.bin / "moesim").unlink()
        done = self.full()
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("at home, in out: moesim validate measured-case.json\n", done.stdout)

    def test_interrupted(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name), tempfile.TemporaryDirectory() as folder:
                out = pathlib.Path(folder)
                hanging = subprocess.Popen([sys.executable, str(SCRIPT), "--out", folder, "--binary",
                                            str(self.bin / "moesim-hw"), str(self.steps)], stdout=subprocess.DEVNULL,
                                           stderr=subprocess.PIPE, text=True, start_new_session=True,
                                           env=self.environment(HANG="nccl --warmup-runs"))
                while not (out / "numerics-case.log.2").exists():  # ranks still begin
                    time.sleep(0.01)
                hanging.send_signal(number)
                _, err = hanging.communicate(timeout=120)
                self.assertEqual(hanging.returncode, 130)
                self.assertIn("interrupted", err)
                phases = json.loads((out / "phases.json").read_text())
                self.assertEqual(phases["kernels"]["state"], "done")
                self.assertNotIn("numerics", phases)

    def test_bad_arguments(self):
        for words, complaint in ((["--from", "nowhere"], "invalid choice"), (["--budget", "0"], "must be positive"),
                                 (["--binary", "/no/such"], "cannot be run")):
            done = self.check(*words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(complaint, done.stderr)
        self.steps.write_bytes(b"no gzip")
        self.assertIn("holds no saved steps", self.check("--dry-run").stderr)
        self.assertIn("no saved steps: name files", self.check("--dry-run", steps=False).stderr)


if __name__ == "__main__":
    unittest.main()
