#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts the published iterations of tests/rows/rows.yaml, and holds them against what was measured.

  scripts/predict_rows.py [--only SECTION[/ROW] ...] [--json FILE] [--page FILE]

Every row is a scenario for `moesim run`: balanced routing unless its own was recorded and --traces has it,
two distinct microbatches, one process.
Nothing is fitted to a row: rows of one machine share its topology, those of a GPU its model.
"""

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

import rows_page
import rows_state
from published_rows import ROOT, fewer, measured_seconds, microbatches, read_rows, scenario
from rows_page import percentile

RAN = {}  # of this run and, with --cache, of earlier ones of the same program and data


def predict(row, args):
    """The case of `moesim run --json`, or why there is none. Of many microbatches some are run, unless the
    row asks for all: once a pipeline is full, each further one takes nearly the same time."""
    sizes = fewer(row)
    if args.whole or row.get("whole") or not sizes:
        return run(row, args)
    cases = []
    for size in sizes:
        case, why = run({**row, "global": row["global"] // microbatches(row) * size}, args)
        if case is None:
            return None, why
        cases.append(case)
    return extended(*cases, (microbatches(row) - sizes[1]) / (sizes[1] - sizes[0])), ""


def extended(first, second, times):
    """`second`, and `times` more of what it takes longer than `first`."""
    def add(a, b):
        return b + times * (b - a)

    case = dict(second)
    for key in ("step_s", "overlapped_s"):
        case[key] = add(first[key], second[key])
    for parts in ("parts_s", "turns_s"):
        if parts in second:
            case[parts] = {k: add(first[parts][k], v) for k, v in second[parts].items()}
    if "stage_turns_s" in second:
        case["stage_turns_s"] = [{k: add(a[k], v) for k, v in b.items()}
                                 for a, b in zip(first["stage_turns_s"], second["stage_turns_s"], strict=True)]
    case["took_s"] = first["took_s"] + second["took_s"]
    return case


def run(row, args):
    """One `moesim run`; scenarios that have run before are not run again."""
    asked = scenario(row, args.gpu, args.set, trace_of(row, args))
    key = json.dumps(asked, sort_keys=True)
    if key not in RAN:
        RAN[key] = remembered(key, lambda: simulate(asked, args), args)
    return RAN[key]


def trace_of(row, args):
    """The folder of the row's routing, if any: of --traces, or as the row says how to draw it."""
    if "drawn" not in row:
        return None if "trace" not in row or lacks_trace(row, args) else os.path.join(args.traces, row["trace"])
    flags = ["--model", row["model"]]
    for name, value in row["drawn"].items():
        flags += [f"--{name}", str(value)]
    drawn_by = inputs_of(args) if args.cache else ""  # a kept trace is of the program that drew it
    name = hashlib.sha256((drawn_by + json.dumps(flags)).encode()).hexdigest()[:16]
    trace = os.path.join(args.cache or args.scratch, f"drawn-{name}")
    if not os.path.exists(trace):
        subprocess.run([args.moesim, "trace", "synth", "-o", trace, *flags], check=True, capture_output=True)
    return trace


def lacks_trace(row, args):
    """Whether the routing of the row was recorded and is not at hand, so that it runs balanced."""
    return "trace" in row and not (args.traces and os.path.isdir(os.path.join(args.traces, row["trace"])))


def remembered(key, simulated, args):
    if not args.cache:
        return simulated()
    path = Path(args.cache) / (hashlib.sha256((inputs_of(args) + key).encode()).hexdigest() + ".json")
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(simulated()), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def inputs_of(args):
    if "inputs" not in RAN:
        RAN["inputs"] = digest_of_inputs(args.moesim)
    return RAN["inputs"]


def digest_of_inputs(moesim):
    """Of the program and all that it may read."""
    root = Path(os.environ.get("MOESIM_DATA", ROOT))
    digest = hashlib.sha256(Path(moesim).read_bytes())
    for path in sorted(p for kind in ("models", "topologies", "transports") for p in (root / kind).rglob("*.yaml")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def simulate(asked, args):
    with tempfile.TemporaryDirectory() as folder:
        path, result = os.path.join(folder, "row.yaml"), os.path.join(folder, "row.json")
        with open(path, "w", encoding="utf-8") as f:
            yaml.safe_dump(asked, f)
        start = time.monotonic()
        try:
            ran = subprocess.run([args.moesim, "run", path, "--workers", "1", "--json", result],
                                 capture_output=True, text=True, check=False, timeout=args.timeout)
        except subprocess.TimeoutExpired:
            return None, f"not simulated within {args.timeout:.0f} s"
        if ran.returncode != 0:
            lines = [x for x in ran.stderr.strip().splitlines() if "error:" in x] or ["failed"]
            return None, lines[0].split("error: ", 1)[-1]
        with open(result, encoding="utf-8") as f:
            case = json.load(f)["cases"][0]
        case["took_s"] = time.monotonic() - start
        return case, ""


def ranked(results):
    """Of the pairs of a section whose rates differ by more than 5 %: how many, and how many in order.
    Rows that are one scenario, measured with other software, are no pair."""
    pairs = right = 0
    for i, a in enumerate(results):
        for b in results[:i]:
            ma, mb = a["measured_rate"], b["measured_rate"]
            if a["rate"] == b["rate"] or max(ma, mb) / min(ma, mb) <= 1.05:
                continue
            pairs += 1
            right += (a["rate"] > b["rate"]) == (ma > mb)
    return pairs, right


def result_of(row, case, why):
    out = {"section": row["section"], "id": row["id"], "model": row["model"], "gpus": row["gpus"],
           "unit": row["unit"], "note": row.get("note", ""), "fitted": row.get("fitted", False), "why": why}
    if case is None:
        return out
    predicted = case["step_s"]
    out.update(predicted_s=predicted, parts=case["parts_s"], overlapped=case["overlapped_s"], took_s=case["took_s"])
    if "measured" in row:  # not where it ran out of memory
        measured = measured_seconds(row, case)
        work = row["global"] * row["sequence"] * (case["flop_per_token"] or 1) * 1e-12 / row["gpus"]
        out.update(measured_s=measured, error=predicted / measured - 1, rate=work / predicted,
                   measured_rate=work / measured)
    out["measured_parts"] = row.get("parts", {})
    out["turns"] = case["stage_turns_s"][row["parts_of"]] if "parts_of" in row else case.get("turns_s", {})
    if "memory" in row or "fits" in row:
        out["memory_gib"] = case["peak_memory"]["bytes"] / 2**30
    if "memory" in row:
        out.update(measured_gib=row["memory"], memory_error=out["memory_gib"] / row["memory"] - 1)
    if "fits" in row:
        peak = case["peak_memory"]
        out.update(fits=peak["bytes"] <= peak["gpu_memory_bytes"], measured_fits=row["fits"])
    return out


def line_of(r):
    if "predicted_s" not in r:
        return f"{r['section']:7} {r['id']:24} not predicted: {r['why']}"
    parts = " ".join(f"{k.replace(' ', '-')} {v / r['predicted_s']:.0%}"
                     for k, v in r["parts"].items() if v > 0.015 * r["predicted_s"])
    parts += "".join(f"; {k} {r['turns'][k]:.3f} for {v} s ({r['turns'][k] / v - 1:+.1%})"
                     for k, v in r["measured_parts"].items())
    measured = f"{r['measured_s']:8.3f} {r['error']:+7.1%}" if "error" in r else f"{'-':>8} {'-':>7}"
    return (f"{r['section']:7} {r['id']:24} {r['predicted_s']:8.3f} {measured}  "
            f"{parts}{rows_page.memory_of(r)}; {r['took_s']:.0f} s")


def summed_up(section, results):
    """What the predictions of a section are worth."""
    ran = [r for r in results if "predicted_s" in r]
    timed = [r for r in ran if "error" in r]
    errors = [abs(r["error"]) for r in timed]
    by_id = {r["id"]: r for r in timed}
    gains = [(a, b, by_id[a]["predicted_s"] / by_id[b]["predicted_s"],
              by_id[a]["measured_s"] / by_id[b]["measured_s"])
             for a, b in section.get("gains", []) if a in by_id and b in by_id]
    pairs, right = ranked(timed)
    fits = [r["fits"] == r["measured_fits"] for r in ran if "fits" in r]
    return {"section": section["id"], "rows": len(results), "ran": len(ran), "errors": errors,
            "pairs": pairs, "right": right, "gains": gains,
            "memory": [abs(r["memory_error"]) for r in ran if "memory_error" in r], "fits": fits,
            "lack_traces": [r["id"] for r in ran if r.get("lacks_trace")]}


def line_of_section(of):
    if not of["ran"]:
        return f"{of['section']}: no row predicted"
    text = (f"{of['section']}: {of['ran']} of {of['rows']} rows, median {statistics.median(of['errors']):.1%}, "
            f"90th percentile {percentile(of['errors'], 90):.1%}, order {of['right']} of {of['pairs']}")
    text += "".join(f"; {a} / {b}: {predicted:.3f}, measured {measured:.3f}"
                    for a, b, predicted, measured in of["gains"])
    if of["memory"]:
        text += f"; peak memory off by at most {max(of['memory']):.1%}"
    if of["fits"]:
        text += f"; fits or not: {sum(of['fits'])} of {len(of['fits'])} right"
    return text


def write_json(path, results):
    if path:
        with open(path, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], help="SECTION or SECTION/ROW")
    parser.add_argument("--gpu", default="measured", help="suffix of the GPU models")
    parser.add_argument("--moesim", default=os.path.join(ROOT, "build", "sim", "cli", "moesim"))
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--set", action="append", default=[], metavar="INPUT.PATH=VALUE",
                        help="changes of all rows, such as software.kept.gh100.bf16=0.8")
    parser.add_argument("--whole", action="store_true", help="runs all microbatches of every row")
    parser.add_argument("--traces", help="folder of recorded routing (laer-e8k2, laer-e16k4: scripts/laer_demand.py)")
    parser.add_argument("--cache", help="folder of what has run before, kept")
    parser.add_argument("--json", help="writes all results")
    parser.add_argument("--keep", help="writes the errors (papers/iterations-state.json), for intervals of iterations")
    parser.add_argument("--page", help="writes the tables of this page (docs/results/whole-steps.md) anew")
    args = parser.parse_args()
    scratch = tempfile.TemporaryDirectory()  # for what rows say how to draw
    args.scratch = scratch.name
    sections = read_rows()
    everything, judged = [], []
    for section in sections:
        results = []
        for row in section["all"]:
            name = f"{section['id']}/{row['id']}"
            if args.only and section["id"] not in args.only and name not in args.only:
                continue
            results.append(result_of(row, *predict(row, args)))
            results[-1]["lacks_trace"] = lacks_trace(row, args)
            print(line_of(results[-1]), flush=True)
            write_json(args.json, everything + results)
        if results:
            everything += results
            section["results"] = results
            judged.append((section, summed_up(section, results)))
    print("\n" + "\n".join(line_of_section(of) for _, of in judged))
    total = rows_page.total_of(judged)
    if total:
        print(total)
    if args.keep:
        rows_state.write(args.keep, [(section, section["results"]) for section, _ in judged])
    if args.page:
        rows_page.write(args.page, judged, everything)
    return 0


if __name__ == "__main__":
    sys.exit(main())
