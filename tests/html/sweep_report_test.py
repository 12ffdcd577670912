#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages of sweeps in a real browser: curves, Pareto front and reasons are those of the file.

usage: sweep_report_test.py MOESIM
"""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from report_test import SCRATCH, ReportTest, find_browser, moesim  # noqa: E402

GRID = """topology: h100-rail
model: gpt-oss-20b
trace: tiny-moe-train
policy: [alltoall, dedup, hiermoe-hd2]
steps: 0
layers: recorded
axes:
  topology.nodes: [1, 2, 4]
  topology.node.nics.bandwidth: [25 GB/s, 50 GB/s]
"""


def grid():
    """(the report, its rows, the command line that asks its file) of a sweep."""
    file, report, results = (pathlib.Path(SCRATCH.name, f"grid.{suffix}") for suffix in ("yaml", "grid.html", "sqlite"))
    if not report.exists():
        file.write_text(GRID, encoding="utf-8")
        moesim("sweep", file, "-o", results, "-q")
        moesim("report", results, "-o", report)
    ask = ["query", results, "--format", "json"]
    return report, json.loads(moesim(*ask))["scenarios"], ask


class SweptGrid(ReportTest):
    def setUp(self):
        report, self.rows, self.ask = grid()
        self.open(report)

    def dots(self, section):
        """id -> place of every point."""
        return {int(dot): at for dot, *at in self.page.value(f"""[...document.querySelectorAll("{section} .dot:not(.faint)")]
            .map(dot => [dot.dataset.id, Number(dot.getAttribute("cx")), Number(dot.getAttribute("cy"))])""")}

    def test_curves_are_the_best_of_each_place(self):
        best = {}
        for row in self.rows:
            key = row["policy"], row["topology.nodes"]
            best[key] = min(best.get(key, row), row, key=lambda each: (each["step_s"], each["id"]))
        dots = self.dots("#r1-curves")
        self.assertEqual(set(dots), {row["id"] for row in best.values()})
        for a in best.values():
            for b in best.values():
                self.assertEqual(dots[a["id"]][1] < dots[b["id"]][1], a["step_s"] > b["step_s"], "less time is further down")

    def test_curves_along_another_axis_of_other_figures(self):
        self.choose("along", "topology.node.nics.bandwidth", "#r1-curves")
        self.choose("topology.nodes", "4", "#r1-curves")
        self.choose("figure", "peak_memory_bytes", "#r1-curves")
        self.choose("scale", "log", "#r1-curves")
        self.assertEqual(set(self.dots("#r1-curves")), {row["id"] for row in self.rows if row["topology.nodes"] == 4})
        self.page.hover("#r1-curves .dot", 1)
        self.assertIn("peak_memory_bytes", self.texts("#tip td"))
        self.choose("lines", "", "#r1-curves")
        self.assertEqual(self.count("#r1-curves .dot"), 2)

    def test_the_front_is_that_of_the_query(self):
        for figures in (("step_s", "peak_memory_bytes"), ("total.exposed_communication_s", "slowest_compute_s")):
            self.choose("right", figures[0], "#r1-pareto")
            self.choose("up", figures[1], "#r1-pareto")
            front = json.loads(moesim(*self.ask, "--pareto", ",".join(figures)))["scenarios"]
            self.assertEqual(set(self.dots("#r1-pareto")), {row["id"] for row in front})
            self.assertEqual(self.count("#r1-pareto tbody tr"), len(front))

    def test_what_was_not_run_says_why_and_where(self):
        cells = self.texts("#r1-not-run tbody td")
        self.assertEqual(int(cells[0]), 18 - len(self.rows))
        self.assertEqual(cells[1], "unsuitable")
        self.assertIn("depth", cells[2])
        self.assertIn("policy hiermoe-hd2; topology.nodes 1", cells[3])
        self.assertEqual(self.count("#r1-scenarios tbody tr"), len(self.rows))

    def test_the_pages_sections_are_in_its_contents(self):
        self.assertEqual(self.texts("#contents a"), ["Curves", "Pareto front", "Not run", "Scenarios", "Inputs"])


if __name__ == "__main__":
    if find_browser() is None:
        print("no Chromium (Debian: chromium-headless-shell): reports are not opened")
        sys.exit(77)
    unittest.main()
