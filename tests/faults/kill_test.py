#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random moments of a comparison, an import, a recording and a sweep: nothing that was done is lost.

usage: kill_test.py MOESIM ROOT [--moments N] [--seed N]

N moments for all four together (12). After each: what has its final name is whole, and no process is left. Then the same
command again: it ends with what it gives undisturbed, and leaves nothing next to it.
"""
import argparse
import contextlib
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

import numpy as np

from runs import CASE, environment, files_of, wait_until_gone

RECORD = """
import sys
sys.path.insert(0, sys.argv[1] + "/scripts/python")
import numpy as np
from moesim import TraceWriter
writer = TraceWriter("recorded", experts=64, top_k=4, layers=[0, 1, 2], resume=True)
for step in range(writer.last + 1, 40):
    scores = np.random.default_rng(step).random((3, 2048, 64))
    writer.append(scores.argsort(2)[:, :, -4:].astype(np.uint8), [1024, 1024])
"""
GRID = (pathlib.Path(__file__).parents[1] / "sweep/grid.yaml").read_text(encoding="utf-8")


class Work:
    """A command in a folder of its own, and what it gives undisturbed."""
    again = 0  # exit code of the command where all is done

    def __init__(self, name, command, env, prepare=lambda folder: None):
        self.name, self.command, self.env, self.prepare = name, command, env, prepare
        with tempfile.TemporaryDirectory(prefix="moesim-kill-") as folder:
            prepare(pathlib.Path(folder))
            self.inputs = files_of(folder)
            began = time.monotonic()
            process = self.start(folder)
            error = process.communicate()[1]
            self.seconds = time.monotonic() - began
            if process.returncode != 0:
                raise RuntimeError(f"{name}: {error.decode()}")
            self.expected = self.content(folder)

    def start(self, folder):
        return subprocess.Popen(self.command, cwd=folder, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                start_new_session=True)

    def content(self, folder):
        """By name, all that is there."""
        return files_of(folder)

    def done(self, folder):
        """Of that, what has its final name: it must be what it is at the end, now and from now on."""
        return {name: data for name, data in self.content(folder).items() if name in self.expected}


class Import(Work):
    again = 2  # a trace is never written over

    def done(self, folder):
        found = super().done(folder)
        if (pathlib.Path(folder) / "imported").exists() and found != self.expected:
            raise AssertionError(f"half an import: {sorted(found)}")
        return found


class Sweep(Work):
    def content(self, folder):
        found = files_of(folder)
        found.pop("sweep.sqlite", None)
        found.update({f"row {number}": row for number, row in rows_of(pathlib.Path(folder) / "sweep.sqlite").items()})
        return found


def rows_of(path):
    if not path.exists():
        return {}
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        try:
            return {row["id"]: {key: row[key] for key in row.keys() if row[key] is not None}
                    for row in connection.execute("SELECT * FROM scenarios")}
        except sqlite3.OperationalError:  # killed before there was a table
            return {}


def works(moesim, root):
    def arrays(folder):
        ids = np.random.default_rng(1).random((60000, 4, 32)).argsort(2)[:, :, :4].astype(np.uint8)
        np.save(folder / "ids.npy", ids)

    env = environment(root, PYTHONDONTWRITEBYTECODE="1")
    compare = [moesim, "compare", *CASE, "--policy", "alltoall,dedup", "--workers", "2", "--json", "r.json", "--report",
               "r.html", "--timeline", "t.json"]
    importing = [moesim, "trace", "import", "npy", "ids.npy", "-o", "imported", "--experts", "32", "--layers", "0:4",
                 "--order", "tlk", "--step-tokens", "2048"]
    return [Work("run", compare, env), Import("import", importing, env, arrays),
            Work("record", ["/usr/bin/python3", "-c", RECORD, str(root)], env),
            Sweep("sweep", [moesim, "sweep", "grid.yaml", "-o", "sweep.sqlite", "-j", "2"], env,
                  lambda folder: (folder / "grid.yaml").write_text(GRID))]


class Kill(unittest.TestCase):
    def test_at_random_moments(self):
        chance = random.Random(OPTIONS.seed)
        for work in works(OPTIONS.moesim, OPTIONS.root):
            with self.subTest(work=work.name):
                self.strike(work, chance, OPTIONS.moments // 4)

    def strike(self, work, chance, moments):
        """Kills runs one after the other in one folder, a new one whenever a run has come to its end."""
        folder, killed, resumed = None, 0, 0
        for _ in range(moments):
            if folder is None:
                folder = pathlib.Path(tempfile.mkdtemp(prefix="moesim-kill-"))
                self.addCleanup(shutil.rmtree, folder, True)
                work.prepare(folder)
            before = work.done(folder)
            resumed += len(work.content(folder)) > len(work.inputs)
            process = work.start(folder)
            time.sleep(chance.uniform(0, work.seconds))
            process.kill()
            error = process.communicate()[1]
            self.assertIn(process.returncode, (0, -signal.SIGKILL), error)
            self.assertEqual(wait_until_gone(process.pid), [])
            killed += process.returncode != 0
            after = work.done(folder)
            self.assertLessEqual(before.keys(), after.keys(), "something is lost")
            for name, data in after.items():
                self.assertEqual(data, work.expected[name], f"{name} is not whole")
            if after.keys() == work.expected.keys():
                self.finish(work, folder, work.again)
                folder = None
        if folder is not None:
            self.finish(work, folder, 0)
        print(f"{work.name}: {moments} moments, {killed} before the end, {resumed} of runs that went on")

    def finish(self, work, folder, code):
        process = work.start(folder)
        error = process.communicate()[1]
        self.assertEqual(process.returncode, code, error)
        found = work.content(folder)
        self.assertEqual(sorted(found), sorted(work.expected), "other files")
        self.assertEqual(found, work.expected)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("moesim", type=lambda path: pathlib.Path(path).resolve())  # commands run in other folders
    parser.add_argument("root", type=lambda path: pathlib.Path(path).resolve())
    parser.add_argument("--moments", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    OPTIONS = parser.parse_args()
    unittest.main(argv=sys.argv[:1])
