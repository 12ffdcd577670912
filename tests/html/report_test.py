# SPDX-License-Identifier: Apache-2.0
"""Reports in a real browser without a network: charts hold what the results say, nobody complains, controls work.

usage: report_test.py MOESIM [MOESIM_HW]      with it a measurement over MPI is opened, too
"""
import json
import pathlib
import subprocess
import sys
import unittest

from report_page import HW, MOESIM, MOST_BYTES, SCRATCH, ReportTest, find_browser, clusters, iteration, moesim, quickstart, sweep, validation


def shortened(times):
    """A tenth of all numbers."""
    if isinstance(times, dict):
        return {name: shortened(time) for name, time in times.items()}
    if isinstance(times, list):
        return [shortened(time) for time in times]
    return times / 10 if isinstance(times, float) else times


class Quickstart(ReportTest):
    def setUp(self):
        report, self.result = quickstart()
        self.open(report)

    def test_every_case_has_a_bar_and_a_line(self):
        self.assertEqual(self.count("#r1-time .facet .row"), len(self.result["cases"]))
        self.assertEqual(self.count("#r1-cases tbody tr"), len(self.result["cases"]))
        self.assertEqual(self.count("#r1-time .facet"), 3)

    def test_the_path_of_every_case_and_of_the_chosen_one(self):
        self.assertEqual(self.count("#r1-path .facet .row"), len(self.result["cases"]))
        for row in (0, 9, 14):
            self.check_path(row, self.result["cases"][row], self.result["cases"][row]["step_s"])
        self.page.click("#r1-path .facet .row text", 50)
        chosen = self.texts("#r1-path .chart figcaption")[-2]
        path = next(case for case in self.result["cases"] if f"The path of {case['policy']} on {case['topology']} " in chosen)["critical_path"]
        kinds = sorted(path["kinds"], key=lambda kind: -kind["s"])
        self.assertEqual(self.count("table.path tbody tr"), len(kinds))
        self.assertIn(max(kinds[0]["bound_by_s"], key=kinds[0]["bound_by_s"].get), self.texts("table.path tbody tr td")[3])
        self.assertEqual(self.count("#r1-path .layer"), len(path["layers"]))

    def test_the_path_by_what_binds_it(self):
        self.choose("parts", "resources", "#r1-path")
        lengths = self.lengths(0, "#r1-path")
        bound = self.result["cases"][0]["critical_path"]["bound_by_s"]
        self.assertEqual(set(lengths), set(bound))
        for what, width in lengths.items():
            self.assertAlmostEqual(width / sum(lengths.values()), bound[what] / sum(bound.values()), delta=0.004)

    def test_bounds_lie_where_they_should(self):
        for row in (0, 7, 14):
            case, shares = self.result["cases"][row], self.shares(row)
            self.assertEqual(set(shares), {"perfect_balance_s", "pure_compute_s", "pure_port_s", "no_communication_s", "dedup"})
            for bound, share in shares.items():
                dedup = case["perfect_dedup"]["bound_s"] / case["perfect_dedup"]["step_s"]
                self.assertAlmostEqual(share, dedup if bound == "dedup" else case["time_bounds"][bound] / case["step_s"], delta=1e-3)
                self.assertLessEqual(share, 1)
        self.page.hover("#r1-bounds .row .bound")
        self.assertIn("A plan of this policy cannot be faster than", self.texts("#tip")[0])

    def test_bars_are_as_long_as_their_parts(self):
        for row in (0, 7, 14):
            case = self.result["cases"][row]
            lengths = self.lengths(row)
            total = sum(lengths.values())
            for part, width in lengths.items():
                self.assertAlmostEqual(width / total, case["breakdown"][part] / case["step_s"], delta=0.003)
        longest = [max(sum(self.lengths(row).values()) for row in range(at, at + 5)) for at in (0, 5, 10)]
        self.assertAlmostEqual(min(longest), max(longest), delta=3)  # each cluster has its own scale

    def test_error_bars_are_those_of_the_result(self):
        ends = self.page.value("[...document.querySelectorAll('#r1-time .error')].map(bar => bar.dataset.ends.split(' ').map(Number))")
        self.assertEqual(ends, [case["intervals"]["speedup"] for case in self.result["cases"] if "told_apart" in case["intervals"]])
        self.assertRegex(self.texts(".answers .beside")[1], r"1\.8\d× \(90 %: [\d.]+–[\d.]+×\) as fast as alltoall")
        self.assertIn("told apart", self.texts("#r1-cases th"))

    def test_labels_do_not_overlap(self):
        for section in ("time", "path", "bounds"):
            self.assertEqual(self.overlaps(f"#r1-{section} .chart"), [], section)

    def test_one_scale_for_all(self):
        self.choose("scale", "one")
        ratio = sum(self.lengths(0).values()) / sum(self.lengths(4).values())
        self.assertAlmostEqual(ratio, self.result["cases"][0]["step_s"] / self.result["cases"][4]["step_s"], delta=0.01)
        self.assertLess(sum(self.lengths(14).values()), 4)

    def test_the_filter_holds_for_bars_and_table(self):
        self.page.click("input[type=search]")
        self.page.write("llep rail")
        for section in ("time", "path", "bounds"):
            self.assertEqual(self.texts(f"#r1-{section} .facet .row text:first-of-type"), ["llep"])
        self.assertEqual(self.count("#r1-cases tbody tr"), 1)
        self.assertEqual(self.texts(".count"), ["1 of 15 cases"])

    def test_a_list_of_clusters_filters(self):
        self.choose("topology", "h100-rail")
        self.assertEqual((self.count("#r1-time .facet"), self.count("#r1-cases tbody tr")), (1, 5))

    def test_the_order(self):
        self.choose("order", "time")
        self.assertEqual(self.texts("#r1-cases tbody tr:first-child td")[:2], ["llep", "gb200-nvl72"])

    def test_hovering_tells_the_figures(self):
        self.page.hover(".facet .row .part", 1)
        said = self.page.value("document.getElementById('tip').hidden ? '' : document.getElementById('tip').textContent")
        self.assertIn("alltoall: tokens", said)
        self.page.hover("h1")
        self.assertTrue(self.page.value("document.getElementById('tip').hidden"))

    def test_hidden_parts_leave_the_bars(self):
        self.page.click(".legend button", 1)
        self.assertNotIn("tokens_s", self.lengths(0))

    def test_sorting_by_a_column(self):
        steps = [case["step_s"] for case in self.result["cases"]]
        fastest = self.result["cases"][steps.index(min(steps))]
        self.page.click("#r1-cases th button", 2)
        self.assertEqual(self.texts("#r1-cases tbody tr:first-child td")[0], fastest["policy"])
        self.page.click("#r1-cases th button", 2)
        slowest = self.result["cases"][steps.index(max(steps))]
        self.assertEqual(self.texts("#r1-cases tbody tr:first-child td")[0], slowest["policy"])

    def test_keys_reach_a_bar(self):
        self.page.value("document.querySelectorAll('.facet .row')[3].focus({focusVisible: true})")
        self.page.press("Enter", "\r")
        self.assertEqual(self.page.value("document.querySelector('#r1-time .facet .row[aria-pressed=true]').getAttribute('aria-label')")
                         .split(":")[0], "hybridep-exact")

    def test_light_and_dark(self):
        ground = "getComputedStyle(document.body).backgroundColor"
        self.assertEqual(self.page.value(ground), "rgb(255, 255, 255)")
        self.page.click("#theme")
        self.assertEqual(self.page.value(ground), "rgb(20, 23, 28)")

    def test_it_prints(self):
        pdf = self.page.pdf()
        self.assertTrue(pdf.startswith(b"%PDF"))
        self.assertGreater(len(pdf), 20_000)

    def test_inputs_are_named_with_their_hashes(self):
        inputs = self.texts("dl.inputs")[0]
        for value in (self.result["trace"]["xxh3"], self.result["model"]["xxh3"], self.result["moesim"]):
            self.assertIn(value, inputs)


class Clusters(ReportTest):
    def setUp(self):
        report, self.result = clusters()
        self.open(report)

    def test_the_first_cluster_is_the_baseline(self):
        base, best = self.result["cases"][0], self.result["cases"][2]
        self.assertEqual([case["baseline"]["topology"] for case in self.result["cases"]], ["hybridep-l"] * 3)
        rate = [case["tokens"] / case["step_s"] for case in self.result["cases"]]
        self.assertEqual(best["tokens"], 2 * base["tokens"])
        self.assertAlmostEqual(best["speedup"], rate[2] / rate[0])
        self.assertRegex(self.texts("h1")[0], rf"^gb200-nvl72: {best['speedup']:.2f}× \(90 %: [\d.]+–[\d.]+×\) hybridep-l$")

    def test_every_cluster_is_told_with_what_it_costs(self):
        self.assertEqual(len(self.texts(".answers li")), 3)
        told = self.texts(".answers .figure")
        self.assertEqual(told[0], "hybridep-l")
        self.assertEqual(told[1], f"h100-rail: {self.result['cases'][1]['speedup']:.2f}×")
        self.assertRegex(self.texts(".answers .beside")[2], r"[\d.]+ \$ per million tokens")
        self.assertIn("$/Mtoken", self.texts("#r1-cases th"))

    def test_all_bars_are_on_one_scale(self):
        self.assertEqual(self.count("#r1-time .facet"), 1)
        self.assertEqual(self.texts("#r1-time .facet .row text:first-of-type"), ["hybridep-l", "h100-rail", "gb200-nvl72"])
        self.assertAlmostEqual(sum(self.lengths(1).values()) / sum(self.lengths(0).values()),
                               self.result["cases"][1]["step_s"] / self.result["cases"][0]["step_s"], delta=0.01)


class Sweep(ReportTest):
    def setUp(self):
        self.report, self.result = sweep()
        self.open(self.report)

    def test_more_than_a_hundred_cases(self):
        ran = [case for case in self.result["cases"] if "unsuitable" not in case]
        self.assertGreater(len(ran), 100)
        self.assertEqual(self.count("#r1-time .facet .row"), len(ran))
        self.assertEqual(self.count("#r1-cases tbody tr"), len(self.result["cases"]))
        self.assertEqual(self.count("tr.unsuitable"), len(self.result["cases"]) - len(ran))
        self.assertLess(self.report.stat().st_size, MOST_BYTES)

    def test_lossy_policies_are_no_winners(self):
        lossy = [case for case in self.result["cases"] if case.get("lossy")]
        self.assertGreater(len(lossy), 3)
        for case in lossy:
            self.assertNotIn(case["policy"], self.texts(".answers .figure"))
            self.assertIn(case["lossy"], self.texts("#r1-cases tbody td"))


class Iteration(ReportTest):
    def setUp(self):
        report, self.result = iteration()
        self.open(report)

    def test_details_of_the_chosen_case(self):
        self.assertGreater(self.count(".gantt .op"), 500)
        self.assertEqual(self.count("svg.memory"), 1)
        self.assertGreater(self.count("svg.cluster .cable"), 16)
        self.assertEqual(self.page.value("document.querySelector('#r1-loads .cells').dataset.cells"), "24x16")
        colours = self.page.value("""[...document.querySelectorAll("canvas")].map(canvas => new Set(
            canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data).size)""")
        self.assertTrue(colours and min(colours) > 4, colours)

    def test_lossy_policies_win_only_if_asked(self):
        document = json.loads(json.dumps(self.result))
        fastest = document["cases"][-1]
        for times in ("step_s", "overlapped_s", "parts_s", "time_bounds", "critical_path", "elasticities"):
            fastest[times] = shortened(fastest[times])
        fastest.update({"lossy": "drops 18 %", "intervals": None, "speedup": 10 * fastest["speedup"]})
        result = pathlib.Path(SCRATCH.name, "lossy.json")
        result.write_text(json.dumps(document), encoding="utf-8")
        for flags, wins in ((), False), (("--lossy", "allow"), True):
            report = result.with_suffix(".html")
            moesim("report", result, "-o", report, *flags)
            self.open(report)
            self.assertEqual(fastest["policy"] in self.texts(".answers .figure"), wins, flags)
            self.assertEqual(f"{fastest['policy']} is the fastest" in self.texts("h1")[0], wins, flags)
            self.assertIn("drops 18 %", self.texts("#r1-time .facet .row:last-of-type")[-1])

    def test_parts_of_an_iteration(self):
        self.assertEqual(self.count("#r1-time .facet .row"), len(self.result["cases"]))
        case, lengths = self.result["cases"][1], self.lengths(1)
        total = sum(lengths.values())
        for part, width in lengths.items():
            self.assertAlmostEqual(width / total, case["parts_s"][part] / case["step_s"], delta=0.004)


    def test_path_bounds_and_resources_of_an_iteration(self):
        for row, case in enumerate(self.result["cases"]):
            self.check_path(row, case, case["step_s"])
            shares = self.shares(row)
            self.assertEqual(set(shares), set(case["time_bounds"]))
            for bound, share in shares.items():
                self.assertAlmostEqual(share, case["time_bounds"][bound] / case["step_s"], delta=1e-3)
        self.choose("case", "1", "#r1-elasticities")
        telling = [each for each in self.result["cases"][1]["elasticities"] if abs(each["change"]) >= 5e-5]
        drawn = self.page.value("""[...document.querySelectorAll("#r1-elasticities .row")].map(row =>
            [row.dataset.resource, Number(row.querySelector(".part").getAttribute("width"))])""")
        self.assertEqual([resource for resource, _ in drawn], [each["resource"] for each in telling])
        self.assertAlmostEqual(drawn[1][1] / drawn[0][1], telling[1]["change"] / telling[0]["change"], delta=0.01)
        self.page.hover("#r1-elasticities .row .part")
        self.assertIn(telling[0]["resource"], self.texts("#tip")[0])


@unittest.skipIf(HW is None, "no moesim-hw")
class Validation(ReportTest):
    def test_measured_beside_simulated(self):
        report, result = validation()
        self.open(report)
        policies = result["results"][0]["policies"]
        self.assertEqual(len(policies), 2)
        self.assertEqual(self.count("#r1-measured .row .measured"), self.count("#r1-measured .row .simulated"))
        self.assertEqual(self.page.value("document.querySelector('#r1-measured figure').dataset.cases"), "2")
        places = dict(zip(("measured", "simulated"), self.page.value("""(() => {
            const row = document.querySelector("#r1-measured .row");
            const line = row.querySelector("line");
            return [line.getAttribute("x1"), line.getAttribute("x2")].map(Number);
        })()""")))
        slower = max(("measured", "simulated"), key=lambda kind: policies[0][f"{kind}_s"])
        self.assertEqual(max(places, key=places.get), slower)
        self.page.hover("#r1-measured .row circle")
        self.assertIn(policies[0]["policy"], self.texts("#tip")[0])


class Alone(ReportTest):
    def test_several_results_in_one_report(self):
        results = [pathlib.Path(SCRATCH.name, f"{made[0].stem}.json") for made in (quickstart(), iteration())]
        report = pathlib.Path(SCRATCH.name, "several.html")
        moesim("report", *results, "-o", report)
        self.open(report)
        self.assertEqual(self.count("article"), 2)
        self.assertEqual(self.count("#r1-time .facet") + self.count("#r2-time .facet"), 4)

    def test_an_interrupted_comparison_says_so(self):
        result = quickstart()[1]
        names = {key: result["cases"][3][key] for key in ("topology", "policy", "fidelity")}
        result["cases"][3] = names | {"unsuitable": "the comparison was interrupted", "interrupted": True}
        result["interrupted"] = {"done": 14, "cases": 15}
        partial, report = pathlib.Path(SCRATCH.name, "partial.json"), pathlib.Path(SCRATCH.name, "partial.html")
        partial.write_text(json.dumps(result), encoding="utf-8")
        moesim("report", partial, "-o", report)
        self.open(report)
        self.assertIn("14 of 15 cases", self.texts(".banner")[0])
        self.assertEqual((self.count("#r1-time .facet .row"), self.count("tr.unsuitable")), (14, 1))

    def test_names_are_no_markup(self):
        result = quickstart()[1]
        evil = "</script><script>window.taken = 1</script><img src=x onerror='window.taken = 1'>"
        result["cases"][0]["policy"] = result["trace"]["name"] = result["warnings"] = evil
        result["warnings"] = [evil]
        changed, report = pathlib.Path(SCRATCH.name, "evil.json"), pathlib.Path(SCRATCH.name, "evil.html")
        changed.write_text(json.dumps(result), encoding="utf-8")
        moesim("report", changed, "-o", report)
        self.open(report)
        self.assertEqual(self.page.value("typeof window.taken"), "undefined")
        self.assertIn(evil, self.texts("#r1-cases tbody tr:first-child td")[0])

    def test_without_the_library_tables_stay(self):
        report, result = quickstart()
        text = report.read_text(encoding="utf-8")
        before, _, rest = text.partition("<script>")
        plain = pathlib.Path(SCRATCH.name, "plain.html")
        plain.write_text(before + rest.partition("</script>")[2], encoding="utf-8")
        self.open(plain)
        self.assertIn("no charts", self.texts(".banner")[0])
        self.assertEqual(self.count("tbody tr"), len(result["cases"]))
        self.assertEqual(self.count(".facet"), 0)


class Refused(unittest.TestCase):
    """Files that a page could not draw."""

    def complaint(self, document):
        """What is said of a file, "" if it becomes a report."""
        file, report = (pathlib.Path(SCRATCH.name, name) for name in ("asked.json", "asked.html"))
        file.write_text(json.dumps(document), encoding="utf-8")
        return subprocess.run([MOESIM, "report", file, "-o", report], check=False, capture_output=True, text=True).stderr

    def test_a_row_of_a_sweep_has_a_value_for_each_column(self):
        sound = {"format": "moesim-sweep", "format_version": 1, "file": "f", "grid": "g", "scenarios": 2, "axes": [],
                 "columns": ["a", "b"], "versions": [], "inputs": {}, "rows": [[1, 2], [3, 4]]}
        self.assertEqual(self.complaint(sound), "")
        for row in ([3], [3, 4, 5], {"a": 3, "b": 4}):
            self.assertIn("'rows[1]' is not a list of 2 values, one for each column", self.complaint({**sound, "rows": [[1, 2], row]}))
        self.assertIn("'grid' is not a text", self.complaint({**sound, "grid": 3}))
        del sound["axes"]
        self.assertIn("'axes' is missing", self.complaint(sound))


if __name__ == "__main__":
    if find_browser() is None:
        print("no Chromium (Debian: chromium-headless-shell): reports are not opened")
        sys.exit(77)
    unittest.main()
