#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What is written destroys nothing: links stay, inputs stay, two outputs never share a name, sets are whole; what is not a file is not read.

usage: outputs_test.py MOESIM ROOT
"""
import json
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

from runs import CASE, environment, files_of

MOESIM, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
COMPARE = ["compare", *CASE, "--policy", "alltoall,dedup", "--steps", "0", "--layers", "1"]
COSTS = ["export", "rank-costs", "h100-rail", "--set", "nodes=1"]
GRID = "topology: h100-rail\nmodel: tiny-moe\ntrace: tiny-moe-train\nsteps: 0\npolicy: [alltoall]\naxes:\n  topology.nodes: [1, 2]\n"
SCENARIO = "topology: h100-rail\nmodel: tiny-moe\ntrace: tiny-moe-train\nsteps: 0\nlayers: [1]\npolicy: [alltoall]\nset: [topology.nodes=2]\n"


class Commands(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="moesim-outputs-"))
        self.addCleanup(shutil.rmtree, self.folder, True)

    def run_moesim(self, *words, stdout=subprocess.PIPE):
        return subprocess.run([MOESIM, *words], cwd=self.folder, env=environment(ROOT), stdout=stdout, stderr=subprocess.PIPE, text=True,
                              stdin=subprocess.DEVNULL, check=False, timeout=100)

    def done(self, *words, **more):
        done = self.run_moesim(*words, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done

    def refused(self, reason, *words):
        """With nothing written and nothing gone."""
        before = files_of(self.folder)
        done = self.run_moesim(*words)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, reason)
        self.assertEqual(files_of(self.folder), before)


class Outputs(Commands):
    def test_a_link_to_standard_output_stays(self):
        link = self.folder / "stdout"
        link.symlink_to("/proc/self/fd/1")
        with open(self.folder / "out", "w", encoding="utf-8") as out:
            self.done(*COSTS, "-o", "stdout", stdout=out)
        self.assertEqual(os.readlink(link), "/proc/self/fd/1")
        json.loads((self.folder / "out").read_text(encoding="utf-8"))
        json.loads(self.done(*COSTS, "-o", "stdout").stdout)  # a pipe
        with open(self.folder / "table", "w", encoding="utf-8") as out:
            done = self.done(*COMPARE, "--json", "stdout", stdout=out)
        json.loads((self.folder / "table").read_text(encoding="utf-8"))
        self.assertIn("dedup", done.stderr)

    def test_links_are_followed_and_stay(self):
        (self.folder / "far").mkdir()
        (self.folder / "far/old.json").write_text("old", encoding="utf-8")
        for name, target in (("link", "far/old.json"), ("dangling", "far/new.json"), ("twice", "link")):
            with self.subTest(link=name):
                (self.folder / name).symlink_to(target)
                self.done(*COMPARE, "--json", name)
                self.assertTrue((self.folder / name).is_symlink())
                json.loads((self.folder / name).read_text(encoding="utf-8"))
        self.assertEqual(sorted(os.listdir(self.folder / "far")), ["new.json", "old.json"])
        (self.folder / "circle").symlink_to("circle")
        self.refused("circle: error:", *COMPARE, "--json", "circle")

    def test_a_sweep_by_a_link(self):
        (self.folder / "grid.yaml").write_text(GRID, encoding="utf-8")
        (self.folder / "link").symlink_to("s.sqlite")
        self.done("sweep", "grid.yaml", "-o", "link", "-q")
        self.assertTrue((self.folder / "link").is_symlink())
        self.assertEqual(sorted(os.listdir(self.folder)), ["grid.yaml", "link", "s.sqlite"])

    @unittest.skipUnless(os.geteuid() == 0, "gives a link to another user")
    def test_a_link_that_another_user_planted(self):
        for_all = self.folder / "tmp"
        for_all.mkdir()
        for_all.chmod(0o1777)
        (self.folder / "precious").write_text("precious", encoding="utf-8")
        (for_all / "out").symlink_to("../precious")
        os.lchown(for_all / "out", 65534, 65534)
        self.refused("a link of another user", *COSTS, "-o", "tmp/out")

    def test_an_input_is_no_output(self):
        self.done(*COMPARE, "--json", "cmp.json")
        shutil.copy(ROOT / "tests/fixtures/logs/alltoall-1.log", self.folder / "a.log")
        shutil.copy(ROOT / "topologies/h100-rail.yaml", self.folder / "t.yaml")
        (self.folder / "s.yaml").write_text(SCENARIO, encoding="utf-8")
        (self.folder / "grid.yaml").write_text(GRID, encoding="utf-8")
        self.done("sweep", "grid.yaml", "-o", "s.sqlite", "-q")
        (self.folder / "link.yaml").symlink_to("s.yaml")
        os.link(self.folder / "s.yaml", self.folder / "hard.yaml")
        model = self.folder / "m.yaml"
        shutil.copy(ROOT / "models/moe/tiny-moe.yaml", model)
        both = "is both read and written"
        for words in (["query", "s.sqlite", "--report", "s.sqlite"], ["report", "cmp.json", "-o", "./cmp.json"],
                      ["report", "s.sqlite", "-o", "s.sqlite"], ["calibrate", "a.log", "-o", "a.log"],
                      ["compare", "s.yaml", "--json", "s.yaml"], ["compare", "s.yaml", "--report", "link.yaml"],
                      ["run", "hard.yaml", "--timeline", "s.yaml"], ["compare", "s.yaml", "--model", "m.yaml", "--json", "m.yaml"],
                      ["compare", "s.yaml", "--expect", "cmp.json", "--json", "cmp.json"],
                      ["explain", "s.yaml", "--json", "s.yaml"], ["plan", "s.yaml", "-o", "s.yaml"], ["plan", "s.yaml", "--save", "s.yaml"],
                      ["export", "goal", "s.yaml", "-o", "s.yaml"], ["export", "rank-costs", "t.yaml", "-o", "t.yaml"],
                      ["topology", "show", "t.yaml", "--json", "t.yaml"]):
            with self.subTest(words=words):
                self.refused(both, *words)

    def test_a_trace_holds_nothing_else(self):
        self.done("trace", "synth", "-o", "t", "--tokens", "20", "--experts", "32", "--top-k", "4")
        (self.folder / "choices.csv").write_text("layer,token,expert\n1,0,3\n1,1,2\n", encoding="utf-8")
        (self.folder / "grid.yaml").write_text(GRID.replace("tiny-moe-train", "./t"), encoding="utf-8")
        case = ["run", "--topology", "h100-rail", "--model", "tiny-moe", "--trace", "./t", "--policy", "alltoall", "--set", "topology.nodes=1"]
        for words in (["trace", "slice", "t", "--tokens", "10", "-o", "t/half"], ["trace", "slice", "t", "--tokens", "10", "-o", "t/step-00000000/new"],
                      ["trace", "synth", "-o", "t/new", "--tokens", "20", "--experts", "8", "--top-k", "2"],
                      ["trace", "serve", "t", "--batch", "4", "-o", "t/new"],
                      ["trace", "import", "table", "choices.csv", "--top-k", "1", "--experts", "8", "-o", "t/new"],
                      ["trace", "info", "t", "--json", "t/step-00000000/x.json"], [*case, "--json", "t/step-00000000/x.json"],
                      [*case, "--timeline", "t/x.json"], ["sweep", "grid.yaml", "-o", "t/step-00000000/x.sqlite"]):
            with self.subTest(words=words):
                self.refused("is inside the (trace|folder) '.*/t'.*\n.*outside of it", *words)

    def test_two_outputs_of_one_name(self):
        (self.folder / "old").write_text("old", encoding="utf-8")
        os.link(self.folder / "old", self.folder / "same")
        for names in (("z", "z"), ("z", "./z"), ("old", "same"), ("-", "-")):
            with self.subTest(names=names):
                self.refused("two outputs|two documents", *COMPARE, "--json", names[0], "--report", names[1])
        self.refused("two outputs", *COMPARE, "--json", "z", "--timeline", "z")
        json.loads(self.done(*COMPARE, "--json", "-", "--format", "json").stdout)  # once

    def test_an_export_replaces_its_set(self):
        chakra = ["export", "chakra", "--topology", "h100-rail", "--model", "tiny-moe", "--trace", "tiny-moe-train", "--policy", "alltoall",
                  "--steps", "0", "--layers", "1"]
        self.done(*chakra, "--set", "topology.nodes=2", "-o", "step")
        self.assertEqual(len(os.listdir(self.folder)), 16)
        (self.folder / "step.notes").write_text("mine", encoding="utf-8")
        self.done(*chakra, "--set", "topology.nodes=1", "-o", "step")
        self.assertEqual(sorted(os.listdir(self.folder)), sorted([f"step.{rank}.et" for rank in range(8)] + ["step.notes"]))
        (self.folder / "step.5.et").unlink()
        (self.folder / "step.5.et").mkdir()  # it cannot be written: none is
        self.refused("step.5.et", *["dedup" if word == "alltoall" else word for word in chakra], "--set", "topology.nodes=1", "-o", "step")


class Inputs(Commands):
    def test_what_is_no_file_is_not_read(self):
        os.mkfifo(self.folder / "fifo")
        for name in ("./fifo", "/dev/zero"):
            for words in (["compare", name], ["sweep", name], ["validate", name], ["report", name, "-o", "r.html"], ["query", name],
                          ["calibrate", name], ["topology", "show", name], ["compare", *CASE, "--policy", name],
                          ["compare", *CASE, "--expect", name], ["place", "--policy", "eplb", "--loads", name], ["papers", name]):
                with self.subTest(words=words):
                    done = self.run_moesim(*words)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertRegex(done.stderr, f"{name}.*not a regular file")

    def test_reports_check_what_they_draw(self):
        self.done(*COMPARE, "--json", "good.json")
        good = json.loads((self.folder / "good.json").read_text(encoding="utf-8"))

        def without(*keys):
            copy = json.loads(json.dumps(good))
            part = copy
            for key in keys[:-1]:
                part = part[key]
            del part[keys[-1]]
            return copy

        cases = {"is not a result of moesim": [{"format": 0, "format_version": 1}, {"format": ["moesim-result"]}, [], 7],
                 "of version 99 cannot be shown": [{**good, "format_version": 99}],
                 "'format_version' is not a number": [{**good, "format_version": "1"}],
                 "'cases' is not a list": [{**good, "cases": {}}], "'cases' is empty": [{**good, "cases": []}],
                 r"'cases\[0\]' is not an object": [{**good, "cases": [3]}],
                 r"'cases\[1\].step_s' is missing": [without("cases", 1, "step_s")],
                 r"'cases\[0\].total.traffic.other_host_bytes' is missing": [without("cases", 0, "total", "traffic")],
                 "'trace' is missing": [without("trace")]}
        for reason, documents in cases.items():
            for document in documents:
                with self.subTest(reason=reason):
                    (self.folder / "in.json").write_text(json.dumps(document), encoding="utf-8")
                    self.refused(f"in.json: error: .*{reason}", "report", "in.json", "-o", "out.html")

    def test_expected_results_of_any_form(self):
        for text in ("{\"format\": 3, \"cases\": [1, [], {\"policy\": {}}]}", "{\"cases\": 1}", "\u0000", "[" * 200):
            (self.folder / "e.json").write_text(text, encoding="utf-8")
            self.refused("e.json.*: error", *COMPARE, "--expect", "e.json")

    def test_a_sweep_that_is_not_utf8(self):
        (self.folder / "grid.yaml").write_text(GRID, encoding="utf-8")
        for column in ("policy", "step_s", "reason"):
            with self.subTest(column=column):
                self.done("sweep", "grid.yaml", "-o", "s.sqlite", "-q")
                with sqlite3.connect(self.folder / "s.sqlite") as db:
                    db.execute(f"UPDATE scenarios SET {column} = CAST(x'ff' AS TEXT) WHERE id = 0")
                db.close()
                reason = f"s.sqlite: error: text in the column '{column}' is not UTF-8"
                for words in (["query", "s.sqlite"], ["query", "s.sqlite", "--format", "json"], ["query", "s.sqlite", "--report", "q.html"],
                              ["report", "s.sqlite", "-o", "r.html"]):
                    self.refused(reason, *words)
                (self.folder / "s.sqlite").unlink()

    def test_what_sqlite_says_comes_with_the_file(self):
        (self.folder / "grid.yaml").write_text(GRID, encoding="utf-8")
        self.done("sweep", "grid.yaml", "-o", "s.sqlite", "-q")
        self.refused("s.sqlite: error: SQLite cannot run this", "query", "s.sqlite", "--where", "policy >")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
