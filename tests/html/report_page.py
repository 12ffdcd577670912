# SPDX-License-Identifier: Apache-2.0
"""Reports that are written once, and pages in a browser that tests ask for what they show.

The command line of a test that imports this begins with MOESIM [MOESIM_HW].
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]
from browser import Browser, find_browser  # noqa: E402, F401
from measured import measure  # noqa: E402

MOESIM = str(pathlib.Path(sys.argv.pop(1)).resolve())
HW = str(pathlib.Path(sys.argv.pop(1)).resolve()) if len(sys.argv) > 1 else None
SCRATCH = tempfile.TemporaryDirectory(prefix="moesim-report-")
MOST_BYTES = 3_000_000
SWEEP = ("alltoall,dedup,deepep-low-latency,deepep-normal,deepspeed,deepspeed-hierarchical,eplb,exflow,fastermoe,fastmoe,fsdp-ep,"
         "fsep-flexmoe,fsep-fsdp-ep,fsep-smartmoe,grace-moe,hd2-smartmoe,hecate,hiermoe,hiermoe-h2,hiermoe-hd,hiermoe-hd2,hiermoe-hd3,"
         "hybridep,hybridep-exact,janus,laer,laer-even,laer-no-comm-opt,lazarus,llep,lplb,megatron,megatron-allgather,moetuner,"
         "occult,pro-prophet,schemoe,sglang-eplb,smartmoe,static-best,trt-llm,tutel,tutel-2dh,tutel-linear,vllm-eplb")


def moesim(*arguments):
    return subprocess.run([MOESIM, *map(str, arguments)], cwd=ROOT, check=True, capture_output=True, text=True).stdout


def reported(name, *arguments):
    """(the report, its result) of a run or a comparison."""
    report, result = (pathlib.Path(SCRATCH.name, f"{name}.{suffix}") for suffix in ("html", "json"))
    if not report.exists():
        moesim(*arguments, "--report", report, "--json", result)
    return report, json.loads(result.read_text(encoding="utf-8"))


def quickstart():
    return reported("quickstart", "compare", "scenarios/quickstart.yaml", "--bounds")


def clusters():
    """One policy on three clusters, the last with twice the GPUs and so twice the tokens."""
    return reported("clusters", "compare", "scenarios/quickstart.yaml", "--policy", "hiermoe-hd", "--set", "topology.price=2.5 $/h")


def sweep():
    return reported("sweep", "compare", "--topology", "h100-rail,laer-a100,b200-hgx", "--model", "gpt-oss-20b",
                    "--trace", "traces/tiny-moe-train", "--layers", "recorded", "--steps", "0", "--tokens-per-rank", "64",
                    "--policy", SWEEP)


def iteration():
    return reported("iteration", "compare", "scenarios/iteration.yaml", "--steps", "12", "--warmup", "2",
                    "--policy", "alltoall,llep", "--set", "batch.global=16", "--bounds", "--elasticities")


def validation():
    """(the report, its result) of what two ranks of this machine measured."""
    measured, report = (pathlib.Path(SCRATCH.name, name) for name in ("measured.json", "validation.html"))
    measure(HW, measured)
    result = report.with_suffix(".json")
    subprocess.run([MOESIM, "validate", measured, "--report", report, "--json", result], check=False, capture_output=True,
                   cwd=ROOT)  # exits with 1, as this machine is none that is described
    return report, json.loads(result.read_text(encoding="utf-8"))


class ReportTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.page = Browser().__enter__()

    @classmethod
    def tearDownClass(cls):
        cls.page.__exit__()

    def open(self, report):
        self.page.open(report)
        self.page.hover("h1")
        self.addCleanup(lambda: self.assertEqual(self.page.complaints(), []))

    def count(self, selector):
        return self.page.value(f"document.querySelectorAll({json.dumps(selector)}).length")

    def texts(self, selector):
        return self.page.value(f"[...document.querySelectorAll({json.dumps(selector)})].map(each => each.textContent)")

    def lengths(self, row, section="#r1-time"):
        """part -> width of its bar in a row of bars."""
        return dict(self.page.value(f"""[...document.querySelectorAll("{section} .facet .row")[{row}].querySelectorAll(".part")]
            .map(bar => [bar.dataset.part, Number(bar.getAttribute("width"))])"""))

    def overlaps(self, selector):
        """Pairs of texts of a drawing that cover each other, those within bars left out."""
        return self.page.value(f"""[...document.querySelectorAll({json.dumps(selector + " svg")})].flatMap(svg => {{
            const texts = [...svg.querySelectorAll("text")].filter(text => text.textContent && !text.classList.contains("within"))
                .map(text => ({{said: text.textContent, box: text.getBoundingClientRect()}}));
            return texts.flatMap((a, i) => texts.slice(i + 1).filter(b =>
                Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left) > 1 &&
                Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top) > 3).map(b => [a.said, b.said]));
        }})""")

    def shares(self, row):
        """bound -> its share of the simulated time, as its mark's place on the axis says."""
        return dict(self.page.value(f"""(() => {{
            const row = document.querySelectorAll("#r1-bounds .row")[{row}];
            const bar = row.querySelectorAll("rect")[1];
            return [...row.querySelectorAll(".bound")].map(mark => [mark.dataset.bound,
                (mark.transform.baseVal[0].matrix.e - bar.getAttribute("x")) / bar.getAttribute("width")]);
        }})()"""))

    def check_path(self, row, case, time):
        lengths = self.lengths(row, "#r1-path")
        kinds = {each["kind"]: each["s"] for each in case["critical_path"]["kinds"]}
        self.assertEqual(set(lengths), set(kinds))
        for kind, width in lengths.items():
            self.assertAlmostEqual(width / sum(lengths.values()), kinds[kind] / time, delta=0.004)

    def choose(self, label, value, section="article"):
        self.page.value(f"""(() => {{
            const list = document.querySelector('{section} select[aria-label="{label}"]');
            list.value = {json.dumps(value)};
            list.dispatchEvent(new Event("change"));
        }})()""")
