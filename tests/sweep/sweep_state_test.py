# SPDX-License-Identifier: Apache-2.0
"""What a sweep's file says stays true: what was away is tried again, rows of other inputs are not mixed, nothing is called nothing.

usage: sweep_state_test.py MOESIM
"""
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
MOESIM = str(pathlib.Path(sys.argv.pop(1)).resolve())
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_", "SLURM_"))}
ENVIRONMENT["MOESIM_DATA"] = str(ROOT)


def rows_of(path):
    """{id: {column: value}}"""
    with sqlite3.connect(path) as db:
        db.row_factory = sqlite3.Row
        return {row["id"]: dict(row) for row in db.execute("SELECT * FROM scenarios")}


class SweepState(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.grid = self.folder / "grid.yaml"

    def moesim(self, *words, code=0):
        done = subprocess.run([MOESIM, *words], capture_output=True, text=True, check=False, env=ENVIRONMENT, cwd=self.folder)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def sweep(self, output, *flags, code=0):
        return self.moesim("sweep", "grid.yaml", "-o", output, "-q", *flags, code=code)

    def query(self, *flags, code=2):
        return self.moesim("query", "s.sqlite", *flags, code=code)

    def write_small_grid(self, more=""):
        """Two traces and two clusters, of files that a test changes."""
        for name in ("a", "b"):
            shutil.copytree(ROOT / "traces/tiny-moe-train", self.folder / name)
        shutil.copy(ROOT / "models/moe/tiny-moe.yaml", self.folder / "m.yaml")
        self.grid.write_text("topology: h100-rail\nmodel: m.yaml\ntrace: ${trace}\npolicy: [dedup, alltoall]\nsteps: 0:1\n"
                             "layers: [1]\ntokens_per_rank: 64\naxes:\n  trace: [a, b]\n  topology.nodes: [1, 2]\n" + more,
                             encoding="utf-8")

    def states(self):
        return sorted(row["state"] for row in rows_of(self.folder / "s.sqlite").values())

    def test_what_is_away_for_a_moment_is_tried_again(self):
        self.write_small_grid()
        step = next((self.folder / "b").glob("step-*/ids.npy"))
        info, kept = self.folder / "b/trace.json", self.folder / "kept"

        def cut(path):
            shutil.copy(path, kept)
            os.truncate(path, 100)

        def away(path):
            path.rename(kept)

        def folder_away(path):
            path.parent.rename(self.folder / "elsewhere")

        for spoil, path in ((away, step), (cut, step), (cut, info), (away, info), (folder_away, info)):
            with self.subTest(spoil=spoil.__name__, path=path.name):
                spoil(path)
                told = self.sweep("s.sqlite", "-j", "1")
                self.assertEqual(self.states(), ["failed"] * 4 + ["ok"] * 4, told)
                self.assertIn("tries again", told)
                if spoil is folder_away:
                    (self.folder / "elsewhere").rename(path.parent)
                else:
                    shutil.move(kept, path)
                self.assertIn("8 ok, 0 unsuitable, 0 failed", self.sweep("s.sqlite", "-j", "1"))
                (self.folder / "s.sqlite").unlink()

    def test_what_a_cluster_cannot_host_is_not_tried_again(self):
        self.grid.write_text("topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: [dedup]\nsteps: '0'\nlayers: [1]\n"
                             "axes:\n  topology.nodes: [1, 2]\n  ep: [8, 16]\n", encoding="utf-8")
        for _ in range(2):
            self.assertIn("3 ok, 1 unsuitable, 0 failed", self.sweep("s.sqlite"))

    def test_rows_of_other_inputs_are_not_mixed(self):
        self.write_small_grid()
        self.sweep("s.sqlite")
        before = rows_of(self.folder / "s.sqlite")
        model, trace = self.folder / "m.yaml", self.folder / "a/trace.json"

        def edit(path, old, new):
            text = path.read_text(encoding="utf-8")
            self.assertIn(old, text)
            path.write_text(text.replace(old, new), encoding="utf-8")

        self.sweep("s.sqlite")
        self.assertEqual(rows_of(self.folder / "s.sqlite"), before)
        edit(model, "hidden: 128", "hidden: 256")
        self.assertRegex(self.sweep("s.sqlite", code=2), "s.sqlite: error: 8 of its rows .*the model 'm.yaml' changed since")
        self.assertEqual(rows_of(self.folder / "s.sqlite"), before)
        self.assertIn("8 scenarios of other inputs ran again", self.sweep("s.sqlite", "--again"))
        rows = rows_of(self.folder / "s.sqlite")
        for number, row in rows.items():
            self.assertNotEqual(row["model_xxh3"], before[number]["model_xxh3"])
        with open(next((self.folder / "a").glob("step-*/ids.npy")), "r+b") as ids:  # two layers' choices of one trace change places
            ids.seek(200)
            first, second = ids.read(1), ids.read(1)
            ids.seek(-2, os.SEEK_CUR)
            ids.write(second + first)
        if first != second:
            self.assertRegex(self.sweep("s.sqlite", code=2), "4 of its rows .*the trace '.*a' changed since")
        with sqlite3.connect(self.folder / "s.sqlite") as db:
            db.execute("UPDATE scenarios SET moesim = '0.1.9' WHERE id = 7")
        db.close()
        self.assertRegex(self.sweep("s.sqlite", code=2), r"moesim \(was 0\.1\.9\)")
        self.assertTrue(trace.exists())

    def test_inputs_that_no_longer_fit_or_are_gone_are_refused(self):
        self.write_small_grid()
        self.sweep("s.sqlite")
        before = rows_of(self.folder / "s.sqlite")
        model, trace, kept = self.folder / "m.yaml", self.folder / "b", self.folder / "kept"
        text = model.read_text(encoding="utf-8")

        def refused(rows, what):
            told = self.sweep("s.sqlite", code=2)
            self.assertRegex(told, f"s.sqlite: error: {rows} of its rows .* an input .*{what}.* changed since")
            self.assertEqual(rows_of(self.folder / "s.sqlite"), before)

        for old, new, what in (("experts: 32", "experts: 33", "experts"), ("name:", "garbage: 1\nname:", "garbage")):
            self.assertIn(old, text)
            model.write_text(text.replace(old, new, 1), encoding="utf-8")
            refused(8, what)
        model.write_text(text, encoding="utf-8")
        trace.rename(kept)
        refused(4, "there is no such folder")
        self.assertIn("4 ok, 0 unsuitable, 4 failed", self.sweep("s.sqlite", "--again"))
        kept.rename(trace)
        self.assertIn("8 ok", self.sweep("s.sqlite"))

    def test_files_that_inputs_name_are_inputs(self):
        for name, text in {
            "engine.yaml": (ROOT / "models/engine/vllm.yaml").read_text(encoding="utf-8"),
            "log.csv": "arrival,input,output\n0,200,20\n0.05,300,30\n",
            "nic.calib.yaml": "latency: 2 us\nbandwidth: [{size: 1 MiB, rate: 40 GB/s}]\n",
            "c.yaml": "exchange_overhead: 12 us\nnodes: 2\nnode:\n  gpu: h100-measured\n  gpus: 8\n"
                      "  nvlink: {kind: switch, bandwidth: 450 GB/s, latency: 0.5 us}\n"
                      "  pcie: {bandwidth: 64 GB/s, latency: 0.5 us}\n  nics: {count: 8, calibration: ./nic.calib.yaml}\n"
                      "fabric: {kind: rail, cross_rail: pxn}\n",
            "grid.yaml": "topology: ./c.yaml\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: deepep-low-latency\n"
                         "parallel: {tp: 1, ep: 16}\nserving: {engine: ./engine.yaml, requests: {file: ./log.csv}}\n"
                         "routing: balanced\nsteps: 12:13\naxes: {topology.nodes: [2]}\n"}.items():
            (self.folder / name).write_text(text, encoding="utf-8")
        self.sweep("s.sqlite")
        self.sweep("s.sqlite")
        for name, old, new, noun in (("log.csv", ",30", ",31", "requests"), ("nic.calib.yaml", "2 us", "3 us", "topology"),
                                     ("engine.yaml", "name: vllm", "name: own", "engine")):
            path = self.folder / name
            text = path.read_text(encoding="utf-8")
            self.assertIn(old, text)
            path.write_text(text.replace(old, new), encoding="utf-8")
            self.assertRegex(self.sweep("s.sqlite", code=2), f"1 of its rows .*the {noun}.* changed since")
            path.write_text(text, encoding="utf-8")
        self.sweep("s.sqlite")

    def test_parts_of_other_inputs_are_not_merged(self):
        self.write_small_grid()
        self.sweep("s.sqlite", "--shard", "0/2")
        model = self.folder / "m.yaml"
        model.write_text(model.read_text(encoding="utf-8").replace("hidden: 128", "hidden: 256"), encoding="utf-8")
        self.sweep("s.sqlite", "--shard", "1/2")
        self.assertRegex(self.sweep("s.sqlite", "--merge", code=2), "part-0-of-2: error: 4 of its rows .*the model 'm.yaml'")
        self.sweep("s.sqlite", "--shard", "0/2", code=2)
        self.sweep("s.sqlite", "--shard", "0/2", "--again")
        self.assertIn("8 ok", self.sweep("s.sqlite", "--merge"))

    def test_an_axis_that_a_policy_does_not_have_makes_one_row(self):
        self.grid.write_text("topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\npolicy: [alltoall, laer]\nsteps: '0'\n"
                             "layers: [1]\nset: [topology.nodes=1]\naxes:\n  'policy:laer.placement.slots': [5, 6]\n", encoding="utf-8")
        self.assertIn("4 of 4 scenarios; 4 ok", self.sweep("s.sqlite"))
        lines = self.query("--columns", "policy,policy:laer.placement.slots", "--sort", "policy", code=0).splitlines()
        self.assertEqual([line.split()[:2] for line in lines[1:]], [["alltoall", "any"], ["laer", "5"], ["laer", "6"]])
        self.assertIn("5", self.query("--pivot", "policy,policy:laer.placement.slots", code=0).splitlines()[1])

    def test_results_are_not_printed_but_kept(self):
        self.write_small_grid()
        self.assertIn("name a file; moesim query FILE prints it", self.sweep("-", code=2))
        self.assertFalse((self.folder / "-").exists())

    def test_texts_of_a_condition_are_in_quotes(self):
        self.write_small_grid()
        self.sweep("s.sqlite")
        self.assertIn("a text is in quotes, 'dedup'", self.query("--where", "policy=dedup"))
        self.query("--where", "policy='dedup'", code=0)

    def test_a_query_of_nothing_says_so(self):
        self.write_small_grid()
        self.sweep("s.sqlite")
        with sqlite3.connect(self.folder / "s.sqlite") as db:
            db.execute("UPDATE scenarios SET state = 'unsuitable', reason = 'too small' WHERE id > 2")
            db.execute("UPDATE scenarios SET state = 'failed', reason = 'away' WHERE id <= 2")
        db.close()
        for flags in ((), ("--top", "3"), ("--group", "policy"), ("--report", "r.html")):
            self.assertIn("s.sqlite: error: has no results: 3 failed, 5 unsuitable of 8 scenarios", self.query(*flags))
        self.assertIn("too small", self.query("--not-run", code=0))
        with sqlite3.connect(self.folder / "s.sqlite") as db:
            db.execute("DELETE FROM scenarios")
        db.close()
        self.assertIn("has no results yet: none of its 8 scenarios has ended", self.query())


if __name__ == "__main__":
    unittest.main()
