# SPDX-License-Identifier: Apache-2.0
"""scripts/predict_rows.py reads its rows, and sums up what became of them."""
import argparse
import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
try:
    import predict_rows as rows
    import published_rows
    import rows_page
    import rows_state
except ModuleNotFoundError as missing:  # PyYAML
    print(missing)
    sys.exit(77)

MOESIM = sys.argv.pop() if len(sys.argv) > 1 else ""


class PredictRows(unittest.TestCase):
    def test_keeps_errors_of_rows_and_pairs(self):
        def row(name, error, rate, **more):
            return {"id": name, "error": error, "rate": rate, "model": "m", "gpus": 8, **more}

        a = [row("x-1", 0.2, 1), row("y-1", -0.2, 2), row("z-2", 0.1, 3), row("w-1", 0.3, 1),
             row("v-1", 0.4, 4, model="n"), row("u-1", 0.5, 5, fitted=True), {"id": "failed"}]
        state = rows_state.state_of([({"id": "A", "releases": True}, a), ({"id": "B", "times": False}, a)])
        self.assertEqual(state["absolute"], {"A/x-1": 0.2, "A/y-1": -0.2, "A/z-2": 0.1, "A/w-1": 0.3, "A/v-1": 0.4})
        self.assertEqual(state["relative"], {"A/x-1 over y-1": 0.5, "A/y-1 over x-1": round(0.8 / 1.2 - 1, 4),
                                             "A/y-1 over w-1": round(0.8 / 1.3 - 1, 4), "A/w-1 over y-1": 0.625})
        self.assertIn("A/x-1 over z-2", rows_state.state_of([({"id": "A"}, a)])["relative"])

    def test_kept_errors_are_of_the_rows(self):
        with open(ROOT / "papers/iterations-state.json", encoding="utf-8") as f:
            kept = json.load(f)["absolute"]
        rows_ = {f"{s['id']}/{r['id']}" for s in rows.read_rows() if s.get("times", True)
                 for r in s["all"] if not r.get("fitted")}
        self.assertEqual(set(kept), rows_)

    def test_reads_every_row(self):
        sections = rows.read_rows()
        self.assertEqual({"A-H100", "A-B200", "B.1", "B.2", "C.1", "D", "E.1", "E.2", "F", "G", "H"} -
                         {s["id"] for s in sections}, set())
        for section in sections:
            self.assertEqual(len({r["id"] for r in section["all"]}), len(section["all"]))
            for row in section["all"]:
                self.assertTrue((ROOT / "models/moe" / f"{row['model']}.yaml").exists(), row["model"])
                self.assertTrue(published_rows.gpu_name(row["machine"]["gpu"], "measured"))
                self.assertGreaterEqual(rows.microbatches(row), 1)

    def test_a_repeated_row_keeps_what_it_does_not_change(self):
        table = {r["id"]: r for s in rows.read_rows() if s["id"] == "A-B200" for r in s["all"]}
        self.assertEqual(rows.scenario(table["qwen3-30b-26.02"], "measured")["batch"],
                         {"global": 512, "micro": 1, "sequence": 4096})

    def test_rows_state_only_what_differs_from_their_software(self):
        table = {f"{s['id']}/{r['id']}": rows.scenario(r, "measured")
                 for s in rows.read_rows() for r in s["all"]}
        overlap, plain = table["B.1/overlap"], table["B.1/no-overlap"]
        self.assertIn("topology.node.nics.bandwidth=43.5 GB/s", overlap["set"])
        self.assertNotIn("topology.node.nics.bandwidth=41 GB/s", table["E.1/qwen2-fsdp-ep"]["set"])  # only rings
        self.assertIn("topology.node.nics.bandwidth=41 GB/s", table["E.1/qwen2-tp-ep-dp"]["set"])
        self.assertIn("policy.dispatch.sms=16", overlap["set"])
        self.assertNotIn("policy.dispatch.sms=16", plain["set"])  # nothing runs next to it
        self.assertEqual(overlap["software"], "megatron-bridge")
        self.assertEqual(overlap["host"], {"graphs": ["moe_router", "moe_preprocess"]})
        self.assertNotIn("host", table["B.2/overlap"])
        self.assertEqual(table["G/dualpipe"]["software"], "deepseek")
        self.assertIn("topology.node.gpu=b200-training", table["H/ep8-4"]["set"])
        for name in ("C.1/deepep-overlap", "E.1/mixtral-fsdp", "F/megatron-240", "H/ep8-4", "MCore/deepseek-v3"):
            self.assertNotIn("software", table[name], name)  # the default
            self.assertNotIn("gradient_bytes", table[name], name)
            for change in table[name]["set"]:
                self.assertFalse(change.startswith(("gpu.", "transport")), (name, change))

    def test_parts_of_a_stage_are_those_of_its_own_turns(self):
        row = next(r for s in rows.read_rows() if s["id"] == "G" for r in s["all"])
        case = {"step_s": 20.0, "flop_per_token": 1e9, "parts_s": {}, "overlapped_s": 0.0, "took_s": 0.0,
                "turns_s": {"1F": 1.5}, "stage_turns_s": [{"1F": 1.0}, {"1F": 2.0}]}
        self.assertEqual(rows.result_of(row, case, "")["turns"], {"1F": 1.0})

    def test_writes_the_tables_of_the_page_between_their_marks(self):
        section = {"id": "X", "title": "two rows", "source": "a test"}
        known = {"section": "X", "model": "m", "gpus": 1, "unit": "s", "measured_parts": {"bubble": 1}, "turns": {"bubble": 2}}
        everything = [
            {**known, "id": "a", "error": 0.25, "predicted_s": 5, "measured_s": 4, "rate": 1, "measured_rate": 2,
             "parts": {"bubble": 2, "experts": 3}},
            {**known, "id": "b", "why": "too large"},
            {**known, "id": "c", "error": -0.04, "predicted_s": 4.8, "measured_s": 5, "rate": 1, "measured_rate": 2,
             "measured_parts": {}, "parts": {"experts": 4.8}},
            {**known, "id": "d", "error": 0.15, "predicted_s": 5.75, "measured_s": 5, "rate": 1, "measured_rate": 2,
             "measured_parts": {}, "parts": {"experts": 5.75}}]
        judged = [(section, rows.summed_up(section, everything))]
        self.assertIn("3 of 4 published rows are predicted: median absolute error 15.0%",
                      rows_page.total_of(judged))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "page.md"
            path.write_text("\n".join(("before", *rows_page.TOTALS, "between", *rows_page.ROWS, "after")))
            rows_page.write(path, judged, everything)
            rows_page.write(path, judged, everything)  # once more, in place of what is there
            page = path.read_text()
        for text in ("before\n", "between\n", "\nafter", "| X | 3 of 4 | 15.0% | 25.0% | 0 of 0 | - | - |",
                     "| a | 5.00 | 4.00 | +25.0% | experts 60%; bubble 2.00 of 1.00 s (+100%) |",
                     "| b | - | - | - | not predicted: too large |\n\nWithin 15%: 2 of 4 rows.\n"):
            self.assertEqual(page.count(text), 1, text)

    def test_names_rows_that_lack_their_recorded_routing(self):
        row = next(r for s in rows.read_rows() for r in s["all"] if "trace" in r)
        case = {"step_s": 5.0, "flop_per_token": 1e9, "parts_s": {}, "overlapped_s": 0.0, "took_s": 0.0}
        section = {"id": row["section"], "title": "a row", "source": "a test"}
        with tempfile.TemporaryDirectory() as folder:
            for traces, lacks in ((None, True), (folder, True), (folder, False)):
                if not lacks:
                    (Path(folder) / row["trace"]).mkdir()
                args = argparse.Namespace(traces=traces)
                self.assertEqual(rows.trace_of(row, args), None if lacks else str(Path(folder) / row["trace"]))
                result = {**rows.result_of(row, case, ""), "lacks_trace": rows.lacks_trace(row, args)}
                total = rows_page.total_of([(section, rows.summed_up(section, [result]))])
                name = f"balanced, for want of their recorded routing (--traces): {row['section']}/{row['id']}"
                self.assertEqual(total.endswith(name), lacks, total)

    def test_tells_whether_rows_fit_as_the_program_does(self):
        table = {r["id"]: r for s in rows.read_rows() if s["id"] == "B.3-nano" for r in s["all"]}
        capacity = 70

        def result(name, gib):
            case = {"step_s": 0.5, "flop_per_token": 1e9, "parts_s": {"experts": 0.5}, "overlapped_s": 0.0,
                    "took_s": 0.0, "peak_memory": {"bytes": gib * 2**30, "gpu_memory_bytes": capacity * 2**30}}
            return rows.result_of(table[name], case, "")

        results = [result("none", capacity + 1), result("moe_act", capacity - 1), result("moe", capacity)]
        self.assertEqual([r["fits"] for r in results], [False, True, True])
        self.assertNotIn("error", results[0])  # it ran out of memory: no time
        section = {"id": "B.3-nano", "title": "fits", "source": "a test", "times": False}
        of = rows.summed_up(section, results)
        self.assertEqual((of["rows"], of["ran"], len(of["errors"]), of["fits"]), (3, 3, 1, [True, False, True]))
        self.assertIn("fits or not 2 of 3", rows_page.totals([(section, of)]))
        page = rows_page.rows([(section, of)], results)
        self.assertIn(f"- none: {capacity + 1:.2f} GiB; out of memory\n", page)
        self.assertIn(f"- moe_act: {capacity - 1:.2f} GiB; fits, measured out of memory\n", page)

    def test_measured_values_become_seconds(self):
        row = {"global": 512, "sequence": 4096, "gpus": 8, "unit": "tokens", "measured": 26214.4}
        self.assertAlmostEqual(rows.measured_seconds(row, {}), 10)
        row.update(unit="mfu", measured=50)
        self.assertAlmostEqual(rows.measured_seconds(row, {"flop_per_token": 989.5e12 / 52428.8}), 10)

    def test_percentile_and_order(self):
        self.assertEqual(rows.percentile([5, 1, 4, 2, 3, 10, 9, 8, 7, 6], 90), 9)
        rates = [(1, 1), (2, 2), (2.04, 1.9), (1.5, 3)]
        results = [{"measured_rate": m, "rate": p} for m, p in rates]
        # 2 and 2.04 are too near; 1.5 is measured below both, and predicted above.
        self.assertEqual(rows.ranked(results), (5, 3))

    def test_further_microbatches_take_what_the_last_ones_took(self):
        first = {"step_s": 3.0, "overlapped_s": 0.0, "parts_s": {"experts": 2.0}, "took_s": 1,
                 "turns_s": {"1F": 1.0}}
        second = {"step_s": 5.0, "overlapped_s": 1.0, "parts_s": {"experts": 4.0}, "took_s": 1,
                  "turns_s": {"1F": 1.5}}
        self.assertEqual(rows.extended(first, second, 2)["step_s"], 9.0)
        self.assertEqual(rows.extended(first, second, 2)["parts_s"], {"experts": 8.0})
        self.assertEqual(rows.extended(first, second, 2)["turns_s"], {"1F": 2.5})
        first["stage_turns_s"], second["stage_turns_s"] = [{"1F": 1.0}, {"1F": 2.0}], [{"1F": 2.0}, {"1F": 2.5}]
        self.assertEqual(rows.extended(first, second, 2)["stage_turns_s"], [{"1F": 4.0}, {"1F": 3.5}])

    @unittest.skipIf(not MOESIM, "no moesim")
    def test_draws_the_routing_that_a_row_describes_once(self):
        row = {"model": "deepseek-v3", "drawn": {"layers": "3:2", "tokens": 64, "sequences": 2, "skew": 0.1}}
        with tempfile.TemporaryDirectory() as folder:
            args = argparse.Namespace(moesim=MOESIM, cache=None, traces=None, scratch=folder)
            trace = rows.trace_of(row, args)
            with open(Path(trace) / "trace.json", encoding="utf-8") as f:
                drawn = json.load(f)
            self.assertEqual(rows.trace_of(row, args), trace)
            self.assertNotEqual(rows.trace_of({**row, "drawn": {**row["drawn"], "skew": 0.2}}, args), trace)
            self.assertEqual((drawn["experts"], drawn["top_k"]), (256, 8))
            args.cache = str(Path(folder) / "kept")  # there by the program that draws, too
            self.assertEqual(Path(rows.trace_of(row, args)).parent, Path(args.cache))
            self.assertNotEqual(Path(rows.trace_of(row, args)).name, Path(trace).name)
            (Path(folder) / "known").mkdir()
            self.assertEqual(rows.trace_of({"trace": "known"}, args), None)
            args.traces = folder
            self.assertEqual(rows.trace_of({"trace": "known"}, args), str(Path(folder) / "known"))
        full = next(r for s in rows.read_rows() if s["id"] == "G" for r in s["all"])
        self.assertEqual(rows.scenario(full, "measured", trace=trace)["routing"], "recorded")
        self.assertEqual(rows.scenario(full, "measured")["routing"], "balanced")

    @unittest.skipIf(not MOESIM, "no moesim")
    def test_predicts_a_row(self):
        row = next(r for s in rows.read_rows() if s["id"] == "H" for r in s["all"])
        args = argparse.Namespace(gpu="measured", set=[], whole=False, moesim=MOESIM, timeout=300, cache=None,
                                  traces=None, scratch=None)
        case, why = rows.predict(row, args)
        self.assertEqual(why, "")
        result = rows.result_of(row, case, why)
        self.assertLess(abs(result["error"]), 0.5)

    @unittest.skipIf(not MOESIM, "no moesim")
    def test_flags_of_a_user_give_what_the_row_says(self):
        with open(ROOT / "papers/iterations-state.json", encoding="utf-8") as f:
            error = json.load(f)["absolute"]["D/gpt-oss-120b"]
        flags = ("--topology h100-measured --set topology.nodes=8 --model gpt-oss-120b --policy deepep-normal "
                 "--set policy.routing=in-turn --software automodel --ep 64 --global-batch 512 --micro-batch 2 "
                 "--sequence 4096 --routing balanced --set microbatches.distinct=2 --memory ignore --json -")
        ran = subprocess.run([MOESIM, "run", *flags.split()], capture_output=True, text=True, check=True)
        case = json.loads(ran.stdout)["cases"][0]
        self.assertAlmostEqual(case["step_s"] / 4.30 - 1, error, places=3)


if __name__ == "__main__":
    unittest.main()
