#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""moesim-hw as a process of its own, one rank without mpirun: how it ends, what it shows, and which moesim validates.

usage: one_process_test.py MOESIM_HW ROOT
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

HW, ROOT = sys.argv[1], pathlib.Path(sys.argv[2])
GPU = ["--topology", "h100-rail", "--set", "topology.nodes=1", "--set", "topology.node.gpus=1", "--model", "tiny-moe",
       "--set", "model.hidden=16"]
STEP = [*GPU, "--set", "model.expert_ffn=8", "--trace", str(ROOT / "traces/tiny-moe-train"), "--tokens-per-rank", "32",
        "--steps", "0", "--layers", "1", "--policy", "dedup", "--warmup-runs", "0", "--repeats", "1"]
# In place of the simulator: keeps its words and the measurements that it is given.
SIMULATOR = """#!/bin/sh
echo "$0 $*" > {folder}/words
/bin/cp "$2" {folder}/measurements
{ending}
"""


def environment(**variables):
    env = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")}
    env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", MOESIM_DATA=str(ROOT))
    return env | variables


def run(*words, program=HW, **variables):
    return subprocess.run([program, *words], env=environment(**variables), cwd=ROOT, capture_output=True, text=True,
                          timeout=100, check=False)


class InFolder(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="moesim-hw-"))
        self.addCleanup(shutil.rmtree, self.folder)


class Ends(InFolder):
    def test_bad_launches_are_bad_input(self):
        done = run("--launcher", "tcp", "run", *STEP)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("RANK is not set", done.stderr)

    def test_a_run_that_fails_says_where(self):
        done = run("run", *STEP, "--fault", "nan:fc1@0")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "moesim-hw: the run failed: rank 0, op .* 'fc1' of layer 1: "
                                      "a number in its results is not finite")

    def test_the_header_outlives_a_rank_that_is_killed(self):
        done = run("run", *STEP, "--fault", "kill:fc1@0")
        self.assertEqual(done.returncode, -signal.SIGKILL)
        self.assertRegex(done.stdout, r"\A# moesim-hw, .*, 1 rank on 1 host, for h100-rail")

    def test_json_stands_alone_on_standard_output(self):
        done = run("run", *STEP, "--json", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([case["policy"] for case in json.loads(done.stdout)["cases"]], ["dedup"])
        self.assertIn("# moesim-hw, ", done.stderr)
        self.assertIn("#wrong", done.stderr)


class Progress(InFolder):
    rounds = 25

    def setUp(self):
        super().setUp()
        self.times = self.folder / "mine.times.jsonl"

    def lines(self):
        """Of the file of times, but its head."""
        return self.times.read_text().splitlines()[1:] if self.times.exists() else []

    def wait_for_lines(self, process, count):
        while len(self.lines()) < count:
            self.assertIsNone(process.poll(), "it has ended early")
            time.sleep(0.001)

    def calibrate(self, already, *flags):
        """How many plans there are, and what is told of progress: round, plan and share. A stop makes it a work of
        more than two seconds, of which terminals are told. Ends when a round is measured."""
        ours, theirs = pty.openpty()
        self.addCleanup(os.close, ours)
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        with subprocess.Popen([HW, "calibrate", *GPU, "--quick", "--rounds", str(self.rounds), "--rows", "128", "-o",
                               self.folder / "mine", *flags], env=environment(), cwd=ROOT, stdout=subprocess.PIPE,
                              stderr=theirs) as process:
            os.close(theirs)
            head = process.stdout.readline() + process.stdout.readline()
            self.wait_for_lines(process, already + 1)
            process.send_signal(signal.SIGSTOP)
            time.sleep(2.1)
            process.send_signal(signal.SIGCONT)
            shown = b""
            while not re.search(rb"%, .* left", shown):
                shown += os.read(ours, 4096)
            plans = int(re.search(rb"; (\d+) plans, 25 rounds:", head)[1])
            self.wait_for_lines(process, already + plans)
            process.terminate()
            process.communicate()
        text = shown.decode().replace("\x1b[K", "")
        round_, plan, share = re.search(r"\rround (\d+) of 25: ([^;]+); (\d+) %, ", text).groups()
        return plans, int(round_), plan, int(share)

    def assert_share(self, already, plans, round_, plan, share):
        measured = [(line["round"] + 1, line["plan"]) for line in map(json.loads, self.lines())]
        done = measured.index((round_, plan)) if (round_, plan) in measured else len(measured)
        self.assertEqual(round_, done // plans + 1)
        self.assertEqual(share, round(100 * (done - already) / (self.rounds * plans - already)))

    def test_shows_round_plan_and_share_of_what_is_left_to_measure(self):
        told = self.calibrate(0)
        self.assert_share(0, *told)
        plans = told[0]
        head = self.times.read_text().splitlines()[0]
        known = [json.dumps(json.loads(line) | {"round": round_})
                 for round_ in range(15) for line in self.lines()[:plans]]
        self.times.write_text("".join(line + "\n" for line in [head, *known]))
        self.assert_share(len(known), *self.calibrate(len(known), "--resume"))


class Validate(InFolder):
    def setUp(self):
        super().setUp()
        self.program = self.place_program("bin")

    def place_program(self, name):
        program = self.folder / name / "moesim-hw"
        program.parent.mkdir(parents=True)
        shutil.copy(HW, program)
        return program

    def place_simulator(self, name, ending="exit 0"):
        path = self.folder / name / "moesim"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(SIMULATOR.format(folder=self.folder, ending=ending))
        path.chmod(0o755)

    def validate(self, *words, program=None):
        """No moesim of this machine is on PATH; none of its temporary files is left."""
        (self.folder / "tmp").mkdir(exist_ok=True)
        others = [name for name in os.environ["PATH"].split(":") if not pathlib.Path(name, "moesim").exists()]
        done = run("validate", *STEP, *words, program=program or self.program, TMPDIR=str(self.folder / "tmp"),
                   PATH=":".join([str(self.folder / "path"), *others]))
        self.assertEqual(list((self.folder / "tmp").glob("*moesim*")), [])
        return done

    def words(self):
        return (self.folder / "words").read_text().split()

    def test_hands_measurements_and_flags_to_the_simulator(self):
        self.place_simulator("bin", "exit 3")
        kept, result = str(self.folder / "kept.json"), str(self.folder / "validation.json")
        done = self.validate("--tolerance", "5%", "--json", result, "--measured", kept)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(self.words(), [str(self.folder / "bin/moesim"), "validate", kept, "--tolerance", "5%",
                                        "--json", result])
        case = json.loads(pathlib.Path(kept).read_text())["cases"][0]
        # first and last run of 16 of 32 tokens in a layer of 16 columns
        self.assertEqual(case["compared"]["outputs"], 2 * 16 * 16)

    def test_keeps_no_measurements_unless_asked(self):
        self.place_simulator("bin")
        done = self.validate()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.words()[1], "validate")
        self.assertTrue(self.words()[2].startswith(str(self.folder / "tmp/moesim-measured-")), self.words())
        self.assertEqual(len(self.words()), 3)
        self.assertEqual(len(json.loads((self.folder / "measurements").read_text())["cases"]), 1)

    def test_fails_with_the_simulator(self):
        self.place_simulator("bin", "kill -9 $$")
        self.assertEqual(self.validate().returncode, 1)

    def test_finds_the_simulator_in_the_same_build_and_on_path(self):
        done = self.validate()
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("moesim is neither next to moesim-hw nor on PATH", done.stderr)
        self.place_simulator("path")
        self.assertEqual(self.validate().returncode, 0)
        self.assertEqual(self.words()[0], str(self.folder / "path/moesim"))
        program = self.place_program("build/realhw/cli")
        self.place_simulator("build/sim/cli")
        self.assertEqual(self.validate(program=program).returncode, 0)
        self.assertEqual(self.words()[0], str(self.folder / "build/sim/cli/moesim"))

    def test_reads_its_flags_before_it_measures(self):
        self.place_simulator("bin")
        for flags, message in ((["--tolerance", "12"], "'12' is not a share"),
                               (["--json", "/no/such/folder/v"], "there is no folder"),
                               (["--measured", "/no/such/folder/m"], "there is no folder")):
            done = self.validate(*flags)
            self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
            self.assertEqual(done.stderr.count(message), 1, done.stderr)

    def test_nothing_measured_is_nothing_to_validate(self):
        self.place_simulator("bin")
        done = self.validate("--policy", "hiermoe-hd3", "--fault", "kill:fc1@1")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertFalse((self.folder / "words").exists())


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
