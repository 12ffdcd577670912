# SPDX-License-Identifier: Apache-2.0
"""moesim sweep as a whole: the same rows whoever computes them, and whatever is killed meanwhile.

usage: sweep_command_test.py MOESIM
"""
import json
import os
import pathlib
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).parents[2]
MOESIM = ""
GRID = (ROOT / "tests/sweep/grid.yaml").read_text(encoding="utf-8")
SCENARIOS = 96


def environment(more=None):
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_", "SLURM_"))}
    return clean | {"MOESIM_DATA": str(ROOT)} | (more or {})


def rows_of(path):
    """{id: {column: value}}, what is null left out."""
    with sqlite3.connect(path) as db:
        db.row_factory = sqlite3.Row
        rows = [dict(row) for row in db.execute("SELECT * FROM scenarios")]
    return {row["id"]: {name: value for name, value in row.items() if value is not None} for row in rows}


class SweepCommand(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.grid = self.folder / "grid.yaml"
        self.grid.write_text(GRID, encoding="utf-8")

    def command(self, output, *flags):
        return [MOESIM, "sweep", str(self.grid), "-o", str(self.folder / output), "-q", *flags]

    def sweep(self, output, *flags, code=0):
        done = subprocess.run(self.command(output, *flags), capture_output=True, text=True, check=False,
                              env=environment(), cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def expected(self):
        self.sweep("one.sqlite", "-j", "1")
        rows = rows_of(self.folder / "one.sqlite")
        self.assertEqual(sorted(rows), list(range(SCENARIOS)))
        return rows

    def test_figures_are_those_of_compare(self):
        rows = self.expected()
        wanted = [row for row in rows.values() if row["topology.nodes"] == 2 and row["ep"] == 8
                  and row["topology.node.nics.bandwidth"] == "25 GB/s"]
        done = subprocess.run(
            [MOESIM, "compare", "--topology", "h100-rail", "--model", "gpt-oss-20b", "--trace", "tiny-moe-train",
             "--policy", "megatron,dedup,hiermoe-hd", "--steps", "0", "--layers", "1", "--ep", "8", "--fidelity",
             "analytic,port", "--set", "topology.nodes=2", "--set", "topology.node.nics.bandwidth=25 GB/s",
             "--format", "json"], capture_output=True, text=True, check=True, env=environment())
        cases = {(case["policy"], case["fidelity"]): case for case in json.loads(done.stdout)["cases"]}
        self.assertEqual(len(wanted), len(cases))
        for row in wanted:
            case = cases[row["policy"], row["fidelity"]]
            self.assertEqual(row["step_s"], case["step_s"])
            self.assertEqual(row["total.compute_s"], case["total"]["compute_s"])
            self.assertEqual(row["peak_memory_bytes"], case["peak_memory_bytes"])
            self.assertEqual(row["bound_by"], case["bound_by"])

    def test_what_cannot_be_is_a_row_with_its_reason(self):
        rows = self.expected()
        refused = [row for row in rows.values() if row["topology.nodes"] in (1, 3) and row["ep"] == 16]
        self.assertTrue(refused)
        for row in refused:
            self.assertEqual(row["state"], "unsuitable")
            self.assertIn("must divide", row["reason"])
            self.assertNotIn("step_s", row)
        self.assertEqual(sum(row["state"] == "ok" for row in rows.values()), SCENARIOS - len(refused))

    def test_scenario_of_a_row_runs_alone(self):
        row = self.expected()[95]
        scenario = self.folder / "again.yaml"
        scenario.write_text(row["scenario"], encoding="utf-8")
        done = subprocess.run([MOESIM, "run", str(scenario), "--format", "json"], capture_output=True, text=True,
                              check=True, env=environment())
        self.assertEqual(json.loads(done.stdout)["cases"][0]["step_s"], row["step_s"])

    def test_workers_and_shards_make_no_difference(self):
        rows = self.expected()
        self.sweep("two.sqlite", "-j", "3")
        self.assertEqual(rows_of(self.folder / "two.sqlite"), rows)
        for shard in ("0/3", "2/3", "1/3"):
            self.sweep("parts.sqlite", "--shard", shard, "-j", "1")
        self.sweep("parts.sqlite", "--merge")
        self.assertEqual(rows_of(self.folder / "parts.sqlite"), rows)
        self.assertEqual(sorted(path.name for path in self.folder.glob("parts.sqlite*")), ["parts.sqlite"])

    def test_kills_lose_and_repeat_nothing(self):
        rows = self.expected()
        chance = random.Random(1)
        for moment in range(20):
            process = subprocess.Popen(self.command("killed.sqlite", "-j", "2"), env=environment(), cwd=self.folder,
                                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(chance.uniform(0.02, 0.12))
            before = rows_of_or_none(self.folder / "killed.sqlite")
            children = children_of(process.pid)
            if moment % 2 and children:
                kill(chance.choice(children))
                time.sleep(chance.uniform(0, 0.05))
            process.kill()
            process.wait()
            after = rows_of_or_none(self.folder / "killed.sqlite")
            self.assertLessEqual(before.items(), after.items())
        self.sweep("killed.sqlite", "-j", "2")
        self.assertEqual(rows_of(self.folder / "killed.sqlite"), rows)

    def test_killed_shards_go_on_where_they_were(self):
        """As those of a requeued job do, with another restart count of Slurm."""
        rows = self.expected()
        shard = self.command("parts.sqlite", "--shard", "1/2", "-j", "1")
        for _ in range(5):
            process = subprocess.Popen(shard, env=environment(), cwd=self.folder, stdout=subprocess.DEVNULL)
            time.sleep(0.1)
            process.kill()
            process.wait()
        for part in ("0/2", "1/2"):
            self.sweep("parts.sqlite", "--shard", part, "-j", "1")
        self.sweep("parts.sqlite", "--merge")
        self.assertEqual(rows_of(self.folder / "parts.sqlite"), rows)

    def test_killed_workers_are_replaced(self):
        rows = self.expected()
        process = subprocess.Popen(self.command("killed.sqlite", "-j", "2"), env=environment(), cwd=self.folder,
                                   stdout=subprocess.DEVNULL)
        for _ in range(3):
            time.sleep(0.03)
            for child in children_of(process.pid)[:1]:
                kill(child)
        self.assertEqual(process.wait(), 0)
        found = rows_of(self.folder / "killed.sqlite")
        self.assertEqual(sorted(found), sorted(rows))
        for number, row in found.items():
            self.assertTrue(row == rows[number] or "twice: the worker was killed by signal 9" in row["reason"])

    def test_interrupted_sweep_says_how_to_go_on(self):
        self.grid.write_text(GRID.replace("[1, 2, 3, 4]", str(list(range(1, 33)))), encoding="utf-8")
        process = subprocess.Popen(self.command("stopped.sqlite", "-j", "1"), env=environment(), cwd=self.folder,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        while not rows_of_or_none(self.folder / "stopped.sqlite"):
            time.sleep(0.01)
        for ending in (signal.SIGINT, signal.SIGTERM):
            before = len(rows_of(self.folder / "stopped.sqlite"))
            process.send_signal(ending)
            _, error = process.communicate()
            self.assertEqual(process.returncode, -ending)  # by the signal: a loop of a shell ends with it
            self.assertIn("the same command continues", error)
            self.assertGreaterEqual(len(rows_of(self.folder / "stopped.sqlite")), before)
            before = len(rows_of(self.folder / "stopped.sqlite"))
            process = subprocess.Popen(self.command("stopped.sqlite", "-j", "1"), env=environment(), cwd=self.folder,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            while len(rows_of_or_none(self.folder / "stopped.sqlite")) <= before:
                time.sleep(0.01)
        process.kill()
        process.communicate()

    def test_flags_alone_are_a_sweep_too(self):
        flags = ("--topology", "h100-rail", "--model", "gpt-oss-20b", "--trace", "tiny-moe-train")
        command = [MOESIM, "sweep", *flags, "--policy", "alltoall,dedup", "--steps", "0:1", "--layers", "3", "-q"]
        subprocess.run(command, check=True, capture_output=True, env=environment(), cwd=self.folder)
        self.assertEqual(sorted(row["policy"] for row in rows_of(self.folder / "sweep.sqlite").values()),
                         ["alltoall", "dedup"])

    def test_another_grid_is_refused(self):
        self.expected()
        self.grid.write_text(GRID.replace("[8, 16]", "[8]"), encoding="utf-8")
        self.assertIn("another grid", self.sweep("one.sqlite", code=2))

    @unittest.skipUnless(shutil.which("mpirun"), "no mpirun here")
    def test_mpirun_makes_the_same_rows(self):
        rows = self.expected()
        mpirun = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "4"]
        done = subprocess.run(mpirun + self.command("mpi.sqlite"), capture_output=True, text=True, check=False,
                              env=environment({"OMPI_MCA_hwloc_base_binding_policy": "none"}), cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(rows_of(self.folder / "mpi.sqlite"), rows)
        self.assertEqual(sorted(path.name for path in self.folder.glob("mpi.sqlite*")), ["mpi.sqlite"])


def rows_of_or_none(path):
    try:
        return rows_of(path)
    except sqlite3.Error:
        return {}


def children_of(process):
    try:
        return [int(word) for word in
                pathlib.Path(f"/proc/{process}/task/{process}/children").read_text(encoding="ascii").split()]
    except OSError:
        return []


def kill(process):
    try:
        os.kill(process, signal.SIGKILL)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    MOESIM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
