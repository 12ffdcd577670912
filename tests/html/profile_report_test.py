# SPDX-License-Identifier: Apache-2.0
"""The report of a profiled step next to the simulated one, in a real browser: bars, kinds and both timelines.

usage: profile_report_test.py MOESIM
"""
import json
import pathlib
import sys
import unittest

from report_page import SCRATCH, ReportTest, find_browser, moesim

STEP = ["scenarios/quickstart.yaml", "--topology", "h100-rail", "--policy", "alltoall", "--steps", "0:2"]
CHANGES = [flag for change in ("topology=h100-rail", "policy=alltoall", "steps=0:2") for flag in ("--set", change)]


def validated():
    """(the report, its result): a step that was simulated is measured on GPUs of half the memory bandwidth."""
    report, result, trace = (pathlib.Path(SCRATCH.name, f"profile.{suffix}") for suffix in ("html", "json", "trace.json"))
    if not report.exists():
        moesim("run", *STEP, "--set", "gpu.memory_bandwidth=1.6 TB/s", "--timeline", trace, "--timeline-ranks", "0,1")
        moesim("validate", "profile", trace, "--scenario", "scenarios/quickstart.yaml", *CHANGES, "--report", report, "--json", result)
    return report, json.loads(result.read_text(encoding="utf-8"))


class Profile(ReportTest):
    def setUp(self):
        report, self.result = validated()
        self.open(report)

    def test_bars_are_as_long_as_their_parts(self):
        widths = self.page.value("""[...document.querySelectorAll("#r1-time .row")].map(row =>
            [...row.querySelectorAll(".part")].map(bar => [bar.dataset.part, Number(bar.getAttribute("width"))]))""")
        walls = [self.result[side]["wall_s"] for side in ("measured", "simulated")]
        self.assertGreater(walls[0], walls[1] * 1.01)
        sums = [sum(width for _, width in row) for row in widths]
        self.assertAlmostEqual(sums[0] / sums[1], walls[0] / walls[1], delta=0.01)
        for side, row, wall, total in zip(("measured", "simulated"), widths, walls, sums):
            shown, step = dict(row), self.result[side]
            self.assertAlmostEqual(shown["both"] / total if "both" in shown else 0, step["both_s"] / wall, delta=0.01)
            exposed = sum(step["exposed_s"].get(kind, 0) for kind in self.result["groups"]["products"])
            self.assertAlmostEqual(shown["products"] / total, exposed / wall, delta=0.01)
            self.assertAlmostEqual(sum(step["exposed_s"].values()) + step["both_s"] + step["idle_s"], wall, delta=1e-9)

    def test_every_group_and_kind_has_a_row(self):
        kinds = {kind for side in ("measured", "simulated") for kind in self.result[side]["kinds_s"]}
        self.assertEqual(self.count("#r1-all tbody tr"), len(kinds))
        self.assertEqual(set(self.texts("#r1-all tbody tr td:first-child")), kinds)
        self.page.click("#r1-all th button", 2)
        measured = [self.result["measured"]["kinds_s"].get(kind, 0) for kind in self.texts("#r1-all tbody tr td:first-child")]
        self.assertEqual(measured, sorted(measured))
        error = self.result["simulated"]["wall_s"] / self.result["measured"]["wall_s"] - 1
        self.assertEqual(self.texts(".answers .figure")[0], f"−{-100 * error:.1f} %")

    def test_one_timeline_has_both(self):
        self.assertEqual(self.texts("#r1-timeline svg text.strong"), ["measured", "simulated"])
        self.assertGreater(self.count("#r1-timeline .op"), 20)
        self.assertIn("products", self.texts("#r1-timeline .legend li"))
        self.assertNotIn("unknown", self.texts("#r1-timeline .legend li"))
        self.page.hover("#r1-timeline .op rect.part")
        said = self.page.value("document.getElementById('tip').textContent")
        self.assertIn("measured", said)
        self.assertNotIn("microbatch", said)

    def test_labels_do_not_overlap_in_light_and_dark(self):
        for ground in ("rgb(255, 255, 255)", "rgb(20, 23, 28)"):
            self.assertEqual(self.page.value("getComputedStyle(document.body).backgroundColor"), ground)
            for section in ("time", "kinds", "timeline"):
                self.assertEqual(self.overlaps(f"#r1-{section}"), [], section)
            self.page.click("#theme")

    def test_a_result_of_json_is_drawn_without_timelines(self):
        report = pathlib.Path(SCRATCH.name, "again.html")
        moesim("report", report.with_name("profile.json"), "-o", report)
        self.open(report)
        self.assertEqual((self.count("#r1-timeline"), self.count("#r1-kinds .row") > 3), (0, True))


if __name__ == "__main__":
    if find_browser() is None:
        print("no Chromium here")
        sys.exit(77)
    unittest.main()
