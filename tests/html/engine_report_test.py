#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Pages of engine runs and of sweeps of them, in a real browser: charts hold what the results say.

usage: engine_report_test.py MOESIM
"""
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from report_page import SCRATCH, ReportTest, find_browser, moesim, reported  # noqa: E402

GRID = """topology: h100-rail
model: gpt-oss-20b
trace: tiny-moe-train
policy: [deepep-low-latency, megatron-allgather]
parallel: {tp: 1, ep: 16}
serving:
  engine: vllm
  requests: {count: 32, concurrency: 8, input: 512, output: 16}
routing: recorded
steps: 12:13
set: [topology.nodes=2]
axes:
  serving.requests.concurrency: [4, 16]
"""


class EngineRuns(ReportTest):
    def setUp(self):
        report, self.result = reported("engine", "compare", "scenarios/serving-engine.yaml")
        self.cases = self.result["cases"]
        self.open(report)

    def test_users_against_gpus(self):
        dots = dict(self.page.value("""[...document.querySelectorAll("#r1-users .dot")]
            .map(dot => [dot.dataset.id, [Number(dot.getAttribute("cx")), Number(dot.getAttribute("cy"))]])"""))
        self.assertEqual(len(dots), len(self.cases))
        for i, a in enumerate(self.cases):
            for j, b in enumerate(self.cases):
                self.assertEqual(dots[str(i)][0] < dots[str(j)][0], a["tokens_per_s_per_user"] < b["tokens_per_s_per_user"])
                self.assertEqual(dots[str(i)][1] > dots[str(j)][1], a["tokens_per_s_per_gpu"] < b["tokens_per_s_per_gpu"])

    def test_percentiles_of_every_latency(self):
        for key in ("ttft", "tpot", "gap", "latency"):
            self.choose("of", key, "#r1-latencies")
            shown = self.page.value("""[...document.querySelectorAll("#r1-latencies .dot")]
                .map(dot => [dot.dataset.percentile, Number(dot.dataset.s)])""")
            expected = [[name, case[key][name]] for case in self.cases for name in ("p50_s", "p90_s", "p95_s", "p99_s")]
            self.assertEqual(shown, expected)

    def test_load_over_time(self):
        for figure in ("running", "waiting", "KV tokens"):
            self.choose("of", figure, "#r1-load")
            samples = self.page.value('[...document.querySelectorAll("#r1-load .curve")].map(line => Number(line.dataset.samples))')
            self.assertEqual(samples, [len(case["samples"]) for case in self.cases])

    def test_parts_of_passes(self):
        shares = self.page.value('[...document.querySelectorAll("#r1-time .part")].map(bar => [bar.dataset.part, Number(bar.dataset.share)])')
        expected = [[part, share] for case in self.cases
                    for part, share in ((part, case["parts"][part]) for part in ("attention", "experts", "exchange", "wait", "other")) if share > 0]
        self.assertEqual(shares, expected)
        self.assertEqual(self.count("#r1-cases tbody tr"), len(self.cases))
        self.assertIn("the mean GPU's time in passes", " ".join(self.texts("#r1-time")))

    def test_cases_and_inputs_name_what_decides(self):
        heads = " ".join(self.texts("#r1-cases thead"))
        self.assertEqual("goodput/s" in heads, "sla" in self.result["serving"])
        self.assertEqual("$/Mtoken" in heads, "usd_per_million_tokens" in self.cases[0])
        page = " ".join(self.texts("body"))
        self.assertIn("parallel sizes", page)
        self.assertIn(f"ep {self.result['parallel']['ep']}", page)

    def test_texts_do_not_cover_each_other(self):
        for section in ("users", "latencies", "load", "time"):
            self.assertEqual(self.overlaps(f"#r1-{section}"), [])


class SweptEngines(ReportTest):
    def test_users_against_gpus_of_every_row(self):
        file, results, report = (pathlib.Path(SCRATCH.name, f"engines.{suffix}") for suffix in ("yaml", "sqlite", "html"))
        file.write_text(GRID, encoding="utf-8")
        moesim("sweep", file, "-o", results, "-q")
        moesim("report", results, "-o", report)
        rows = json.loads(moesim("query", results, "--format", "json"))["scenarios"]
        self.assertEqual(len(rows), 4)
        for row in rows:
            self.assertGreater(row["ttft.p95_s"], row["tpot.p50_s"])
        self.open(report)
        self.assertEqual(self.count("#r1-pareto .dot"), 4)
        label = self.texts("#r1-pareto svg text.unit")
        self.assertIn("tokens_per_s_per_user", label)
        self.assertIn("tokens_per_s_per_gpu", label)
        self.assertIn("ttft.p95_s", self.texts("#r1-scenarios th"))


if __name__ == "__main__":
    if find_browser() is None:
        print("no Chromium (Debian: chromium-headless-shell): reports are not opened")
        sys.exit(77)
    unittest.main()
