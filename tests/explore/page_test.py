# SPDX-License-Identifier: Apache-2.0
"""The page of moesim explore in a real browser: every control, drags, comparing, drops, cancelling.

usage: page_test.py MOESIM [PICTURES]      with the second, pictures of the page are kept in that folder
"""
import json
import pathlib
import statistics
import sys
import tempfile
import time
import unittest

from served import ROOT, Served
from browser import Browser, find_browser

MOESIM = str(pathlib.Path(sys.argv.pop(1)).resolve())
PICTURES = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") and "." not in sys.argv[1] else None
STEP = ("quickstart", "--topology", "h100-rail", "--policy", "alltoall,llep", "--steps", "0", "--set", "topology.nodes=8")
READY = "!document.getElementById('cancel') && document.getElementById('status').textContent.startsWith('answered') && Boolean(document.querySelector('#tab-timeline'))"


class PageTest(unittest.TestCase):
    scenario = STEP
    anew = True  # a page for each test

    @classmethod
    def setUpClass(cls):
        cls.served = Served(MOESIM, *cls.scenario).__enter__()
        cls.browser = Browser(1280, 720, patience=60, serves=cls.served.address.split("?")[0])
        cls.page = cls.browser.__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.page.__exit__()
        cls.served.__exit__()

    def setUp(self):
        if self.anew or self.page.value("location.href") == "about:blank":
            # What a tab keeps goes with its origin, and so does what was drawn.
            self.page.go("about:blank")
            self.page.go(self.served.address)
            self.settle()
        self.addCleanup(lambda: self.assertEqual(self.page.complaints(), []))

    def settle(self):
        """Waits until the charts of what was asked for are there."""
        self.page.until(f"performance.getEntriesByName('charts').length > {getattr(self, 'charts', 0)} && {READY}")
        self.charts = self.page.value("performance.getEntriesByName('charts').length")

    def text(self, selector):
        return self.page.value(f"document.querySelector({json.dumps(selector)}).textContent")

    def texts(self, selector):
        return self.page.value(f"[...document.querySelectorAll({json.dumps(selector)})].map(each => each.textContent)")

    def choose(self, label, value):
        self.page.value(f"""(() => {{
            const list = document.querySelector('select[aria-label="{label}"]');
            list.value = {json.dumps(value)};
            if (list.value !== {json.dumps(value)}) throw new Error("no such choice");
            list.dispatchEvent(new Event("change"));
        }})()""")

    def slide(self, slider, steps, rest=True):
        """Moves a slider by steps, as a drag that ends (or not)."""
        self.page.value(f"""(() => {{
            const range = document.getElementById({json.dumps(slider)});
            range.value = Number(range.value) + {steps};
            range.dispatchEvent(new Event("input"));
            {'range.dispatchEvent(new Event("change"));' if rest else ""}
        }})()""")

    def press_button(self, text):
        self.page.value(f"[...document.querySelectorAll('button')].find(each => each.textContent === {json.dumps(text)}).click()")

    def picture(self, name):
        if PICTURES:
            PICTURES.mkdir(parents=True, exist_ok=True)
            (PICTURES / f"{name}.png").write_bytes(self.page.picture())

    def drop(self, name, content):
        self.page.value(f"""(() => {{
            const data = new DataTransfer();
            data.items.add(new File([{json.dumps(content)}], {json.dumps(name)}));
            dispatchEvent(new DragEvent("drop", {{dataTransfer: data, cancelable: true}}));
        }})()""")


class Read(PageTest):
    """What changes nothing that is asked for, so that one page does for all."""
    anew = False

    def setUp(self):
        super().setUp()
        self.page.click("#tab-time")

    def test_the_headline_and_the_bars_are_those_of_the_document(self):
        self.assertRegex(self.text("h1"), r"^(alltoall|llep) is the fastest of 2 cases")
        self.assertEqual(self.page.value("document.querySelectorAll('#panel .row').length"), 2)
        expected = self.served.run({"base": "given"}, "other")["document"]["cases"]
        parts = self.page.value("[...document.querySelectorAll('#panel .row')].map(row => [...row.querySelectorAll('.part')].map(bar => [bar.dataset.part, Number(bar.getAttribute('width'))]))")
        for drawn, case in zip(parts, expected):
            total = sum(width for _, width in drawn)
            for part, width in drawn:
                self.assertAlmostEqual(width / total, case["breakdown"][part] / case["step_s"], delta=0.004)

    def test_the_address_holds_no_token(self):
        self.assertNotIn("token", self.page.value("location.href"))
        self.press_button("Share")
        self.assertNotIn(self.served.token, self.page.value("document.querySelector('dialog input').value + document.querySelector('dialog textarea').value + location.href"))
        self.press_button("Close")

    def test_every_tab_draws(self):
        for tab in self.page.value("[...document.querySelectorAll('.tabs button')].map(each => each.dataset.tab)"):
            self.page.click(f"#tab-{tab}")
            self.assertEqual(self.page.value("document.querySelector('.tabs [aria-selected=true]').dataset.tab"), tab)
            self.assertTrue(self.page.value("document.querySelector('#panel section h2').textContent"), tab)
            self.picture(f"step-{tab}")
        self.page.click("#tab-time")
        self.page.press("ArrowRight")
        self.assertEqual(self.page.value("document.activeElement.dataset.tab"), "path")

    def test_explain_this_bar(self):
        self.page.click("#panel .row")
        self.press_button("Explain")
        self.page.until("/no dispatch can beat/.test((document.querySelector('#e-explain pre') || {}).textContent || '')")

    def test_a_report(self):
        self.page.value("URL.createObjectURL = blob => { window.saved = blob; return '#'; }; HTMLAnchorElement.prototype.click = () => {}")
        self.press_button("Report")
        self.page.until("Boolean(window.saved)")
        self.assertIn('"moesim-report"', self.page.value("window.saved.text()"))

    def test_labels_and_roles(self):
        nameless = self.page.value("""[...document.querySelectorAll("button, select, input, [role=button], [role=tab]")].filter(each => !each.hidden &&
            !(each.textContent.trim() || each.getAttribute("aria-label") || each.labels && each.labels.length)).map(each => each.outerHTML)""")
        self.assertEqual(nameless, [])
        self.assertEqual(self.page.value("document.getElementById('status').getAttribute('aria-live')"), "polite")
        self.assertFalse(self.page.value("document.documentElement.scrollWidth > innerWidth"))

    def test_light_and_dark(self):
        for dark in (False, True):
            self.page.use_theme(dark)
            self.page.until(f"document.documentElement.dataset.theme === '{'dark' if dark else 'light'}'")
            self.picture(f"step-{'dark' if dark else 'light'}")
        self.page.use_theme(False)


class Steps(PageTest):
    def test_every_slider_moves_something_that_is_asked_for(self):
        sliders = self.page.value("[...document.querySelectorAll('#controls input[type=range]')].map(each => each.id)")
        for expected in ("s-ep", "s-tokens_per_rank", "s-repeat", "s-nodes", "s-node-gpus", "s-node-nvlink-bandwidth", "s-node-nics-count",
                         "s-node-nics-bandwidth", "s-node-nics-latency", "s-fabric-oversubscription"):
            self.assertIn(expected, sliders)
        for slider in sliders:
            before = self.page.value(f"document.querySelector('#{slider}').previousSibling.textContent")
            down = self.page.value(f"Number(document.getElementById('{slider}').value) > 0")
            self.slide(slider, -1 if down else 1)
            self.page.until("/^(answered|.*error)/.test(document.getElementById('status').textContent) && !document.getElementById('cancel')")
            self.assertNotEqual(self.page.value(f"document.querySelector('#{slider}').previousSibling.textContent"), before, slider)
            self.press_button("Undo")
            self.settle()

    def test_a_request_that_is_overtaken_replaces_nothing(self):
        self.page.value("""(() => {
            const send = fetch;
            let delayed = 0;
            window.fetch = async (path, more) => {
                if (path === "/api/run" && !delayed++) await new Promise(done => setTimeout(done, 150));
                return send(path, more);
            };
        })()""")
        self.slide("s-nodes", -1)
        self.settle()
        self.assertEqual(self.text("output[for=s-nodes]"), "4")

    def test_sliders_change_the_answer_as_compare_does(self):
        self.slide("s-nodes", -1)
        self.settle()
        self.assertEqual(self.text("output[for=s-nodes]"), "4")
        expected = self.served.run({"base": "given", "set": ["topology:h100-rail.nodes=4"]}, "other")["document"]["cases"]
        self.page.click("#tab-cases")
        shown = self.page.value("[...document.querySelectorAll('#e-cases tbody tr')].map(row => row.cells[1].textContent)")
        self.assertEqual(len(shown), 2)
        for text, case in zip(shown, expected):
            number, unit = text.split()
            self.assertAlmostEqual(float(number) * {"s": 1, "ms": 1e-3, "us": 1e-6}[unit], case["step_s"], delta=case["step_s"] * 0.005)

    def test_lists(self):
        self.choose("add policy", "deepep-normal")
        self.settle()
        self.assertEqual(self.page.value("document.querySelectorAll('#panel .row').length"), 3)
        self.page.click(".chosen[aria-label='chosen: policy'] .out")
        self.settle()
        self.assertEqual(self.page.value("document.querySelectorAll('#panel .row').length"), 2)
        self.choose("add cluster", "a100-rail")
        self.settle()
        self.assertEqual(self.page.value("document.querySelectorAll('#panel .facet').length"), 2)
        self.choose("routing trace", "")
        self.settle()
        self.assertIn("s-synth-skew", self.page.value("[...document.querySelectorAll('input[type=range]')].map(each => each.id)"))
        self.slide("s-synth-skew", 1)
        self.settle()

    def test_undo_and_redo_by_key(self):
        self.slide("s-nodes", -1)
        self.settle()
        first = self.text("h1")
        for shift, nodes in ((False, "8"), (True, "4")):
            self.page.value(f"dispatchEvent(new KeyboardEvent('keydown', {{key: 'z', ctrlKey: true, shiftKey: {json.dumps(shift)}}}))")
            self.settle()
            self.assertEqual(self.text("output[for=s-nodes]"), nodes)
        self.assertEqual(self.text("h1"), first)

    def test_two_states_compared(self):
        self.press_button("Pin")
        self.slide("s-node-nics-bandwidth", -2)
        self.settle()
        self.page.click("#tab-compare")
        moved = self.texts(".moved li")
        self.assertEqual(len(moved), 2)
        self.assertRegex(moved[0], r"(alltoall|llep) on h100-rail [\d.]+ ms → [\d.]+ m?s \(\+[\d.]+ %\): tokens \+")
        self.assertEqual(self.texts("#e-compare tbody td"), ["h100-rail: NIC", "as in the scenario", "25 GB/s"])
        self.picture("compare")

    def test_a_shared_address_opens_the_same_state(self):
        self.slide("s-nodes", -1)
        self.settle()
        title = self.text("h1")
        self.press_button("Share")
        link = self.page.value("document.querySelector('dialog input').value")
        yaml = self.page.value("document.querySelector('dialog textarea').value")
        self.page.go("about:blank")
        self.charts = 0
        self.page.go(link)  # this tab has the token: the door, which browsers note as a 401, lets it in
        self.settle()
        self.page.events.clear()
        self.assertEqual((self.text("h1"), self.text("output[for=s-nodes]")), (title, "4"))
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "shared.yaml")
            file.write_text(yaml)
            with Served(MOESIM, file) as again:
                cases = again.run({"base": "given"})["document"]["cases"]
        expected = self.served.run({"base": "given", "set": ["topology:h100-rail.nodes=4"]}, "other")["document"]["cases"]
        self.assertEqual([case["step_s"] for case in cases], [case["step_s"] for case in expected])

    def test_drops(self):
        topology = (ROOT / "topologies/h100-rail.yaml").read_text()
        self.drop("mine.yaml", topology)
        self.settle()
        self.assertEqual(self.texts(".chosen[aria-label='chosen: cluster'] .word"), ["mine.yaml"])
        result = json.dumps(self.served.run({"base": "given"}, "other")["document"])
        self.drop("result.json", result)
        self.page.until("Boolean(document.querySelector('#e-compare'))")
        self.drop("scenario.yaml", (ROOT / "scenarios/quickstart.yaml").read_text().replace("0:8", "0"))
        self.settle()
        self.assertEqual(len(self.texts(".chosen[aria-label='chosen: cluster'] .word")), 3)

    def test_a_wrong_file(self):
        self.drop("wrong.yaml", "nodes: many\n")
        self.page.until("document.getElementById('status').classList.contains('error')")
        self.assertIn("not a topology", self.text("#status"))
        self.picture("wrong-file")

    def test_a_mistake_leaves_the_last_answer(self):
        title = self.text("h1")
        self.choose("model", "deepseek-v3")
        self.page.until("document.getElementById('status').classList.contains('error')")
        self.assertIn("the trace has 32 experts", self.text("#status"))
        self.assertEqual(self.text("h1"), title)
        self.picture("mistake")
        self.press_button("Undo")
        self.settle()

    def test_a_second_client_is_asked_for_the_token(self):
        with Browser(serves=self.served.address.split("?")[0]) as second:
            second.go(self.served.address.split("?")[0])
            self.assertIn("needs its token", second.value("document.body.textContent"))
            self.assertNotIn("Policies", second.value("document.documentElement.outerHTML"))
            self.assertEqual(second.value("fetch('/api/choices').then(answer => answer.status)"), 401)
            second.value(f"document.getElementById('token').value = {json.dumps(self.served.address)}")
            second.value("document.querySelector('button').click()")
            second.until("Boolean(document.querySelector('#panel .row'))")

    def test_drag_of_a_step(self):
        report_drag(self, "s-node-nics-bandwidth", "answer", "a step of 64 GPUs")


class Iterations(PageTest):
    scenario = ("iteration", "--policy", "alltoall,llep", "--set", "topology.nodes=8", "--set", "batch.global=128", "--steps", "12", "--set", "warmup=null")

    def test_first_the_balanced_answer(self):
        self.assertGreaterEqual(self.page.value("performance.getEntriesByName('first answer').length"), 1)
        self.slide("s-node-nics-bandwidth", -2)
        self.page.until("Boolean(document.querySelector('#status .quick'))")
        self.assertIn("balanced", self.text("#status .quick"))
        self.settle()
        self.assertFalse(self.page.value("Boolean(document.querySelector('#status .quick'))"))

    def test_drag_of_an_iteration(self):
        report_drag(self, "s-node-nics-bandwidth", "first answer", "a balanced iteration of 64 GPUs", drags=4)
        for dark in (False, True):
            self.page.use_theme(dark)
            self.page.click("#tab-timeline")
            self.picture(f"iteration-{'dark' if dark else 'light'}")
        self.page.use_theme(False)

    def test_cancel(self):
        title = self.text("h1")
        self.slide("s-batch-global", 4)
        self.page.until("Boolean(document.getElementById('cancel'))")
        self.picture("running")
        self.page.value("document.getElementById('cancel').click()")
        self.page.until("document.getElementById('status').textContent.startsWith('cancelled')")
        self.assertTrue(title)
        self.press_button("Undo")
        self.settle()


def report_drag(test, slider, name, what, drags=8):
    """Prints how long answers take while a slider moves: from the move to the drawn bars."""
    test.page.value("performance.clearMeasures()")
    for i in range(drags):
        before = test.page.value(f"performance.getEntriesByName('{name}').length")
        test.slide(slider, 1 if i % 4 < 2 else -1, rest=False)
        test.page.until(f"performance.getEntriesByName('{name}').length > {before}")
    took = sorted(test.page.value(f"performance.getEntriesByName('{name}').map(each => each.duration)"))
    test.assertGreaterEqual(len(took), drags)
    print(f"\n{what}: {len(took)} answers while a slider is dragged, median {statistics.median(took):.0f} ms, "
          f"95th percentile {took[int(0.95 * (len(took) - 1))]:.0f} ms", flush=True)
    test.charts = 0
    test.slide(slider, 0)
    time.sleep(0.1)


if __name__ == "__main__":
    if not find_browser():
        print("there is no Chromium: scripts/setup tests installs one")
        sys.exit(77)
    unittest.main()
