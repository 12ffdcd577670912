#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts the published iterations of tests/rows/rows.yaml, and holds them against what was measured.

  scripts/predict_rows.py [--only SECTION[/ROW] ...] [--unfitted] [--json FILE] [--markdown FILE]

Every row is a scenario for `moesim run`: balanced routing, two distinct microbatches, one process.
Nothing is fitted to a row: rows of one machine share its topology, those of a GPU its model.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import yaml

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROWS = os.path.join(ROOT, "tests", "rows", "rows.yaml")
PARALLEL = ("tp", "cp", "pp", "vpp", "ep", "etp", "layout", "embedding_as_layer", "loss_as_layer")
KNOWN = set(PARALLEL) | {
    "id", "same", "model", "gpus", "precision", "global", "micro", "sequence", "dispatcher",
    "pipeline", "delay_wgrad", "recompute", "zero", "mtp", "set", "measured", "note", "overlap"}


RAN = {}
FITTED = {}  # of rows.yaml: [GPU][type] part of its kernels' rate alone that a GPU keeps in training


def read_rows(path=ROWS):
    """All rows, each with the keys of its section and of the row that it repeats."""
    with open(path, encoding="utf-8") as f:
        data = yaml.safe_load(f)
    FITTED.update(data.get("fitted", {}))
    sections = []
    for section in data["sections"]:
        known = {}
        for row in list(section.get("rows", [])) + in_series(section):
            repeated = known.get(row.get("same"), {})
            full = {**data["defaults"], **section.get("base", {}), **repeated, **row}
            unknown = set(full) - KNOWN
            if unknown or ("same" in row and not repeated):
                raise ValueError(f"{section['id']}/{row['id']}: {unknown or row['same']}?")
            known[row["id"]] = {k: v for k, v in full.items() if k not in ("measured", "note", "id")}
            full["machine"] = data["machines"][section["machine"]]
            full["dispatch"] = data["dispatchers"][full["dispatcher"]]
            full["unit"] = section["unit"]
            full["section"] = section["id"]
            full["source"] = section["source"]
            section.setdefault("all", []).append(full)
        sections.append(section)
    return sections


def in_series(section):
    """The rows of a series: one per number of GPUs."""
    rows = []
    for series in section.get("series", []):
        for gpus, measured in zip(series["gpus"], series["measured"], strict=True):
            rows.append({**series, "id": f"{series['id']}-{gpus}", "gpus": gpus, "measured": measured})
    return rows


def scenario(row, gpu_suffix, fitted=True):
    """The row as a scenario of moesim."""
    machine, dispatch = row["machine"], row["dispatch"]
    parallel = {k: row[k] for k in PARALLEL if k in row}
    overlap = dict(row.get("overlap", {}))
    if row.get("delay_wgrad"):
        overlap["delay_wgrad"] = True
    out = {
        "topology": machine["topology"],
        "model": row["model"],
        "policy": dispatch["policy"],
        "parallel": parallel,
        "batch": {k: row[k] for k in ("global", "micro", "sequence")},
        "routing": "balanced",
        "microbatches": {"distinct": 2},
        "precision": row.get("precision", "bf16"),
        "zero": row.get("zero", 1),
        "recompute": row.get("recompute", ["none"]),
        "memory": "ignore",
    }
    if "pipeline" in row:
        out["pipeline"] = row["pipeline"]
    if overlap:
        out["overlap"] = overlap
    changes = [f"topology.nodes={-(-row['gpus'] // machine['node'])}",
               f"topology.node.gpu={gpu_name(machine['gpu'], gpu_suffix)}"]
    if fitted:
        kept = FITTED.get(machine["gpu"], {})
        changes += [f"gpu.efficiency.training.{t}={v}" for t, v in kept.items()]
    changes += dispatch.get("set", []) + row.get("set", [])
    out["set"] = changes
    return out


def gpu_name(gpu, suffix):
    for name in (f"{gpu}-{suffix}", f"{gpu}-sxm", f"{gpu}-sxm-80gb", gpu):
        if os.path.exists(os.path.join(ROOT, "models", "gpu", name + ".yaml")):
            return name
    raise ValueError(f"no model of GPU {gpu}")


def measured_seconds(row, predicted):
    """What was measured as seconds. TFLOP/s and MFU become so with the flop that moesim counts."""
    unit, value = row["unit"], row["measured"]
    tokens = row["global"] * row["sequence"]
    if unit == "s":
        return value
    if unit == "ms":
        return value * 1e-3
    if unit == "tokens":
        return tokens / (row["gpus"] * value)
    peak = 989.5 if unit == "mfu" else 100.0
    return tokens * predicted["flop_per_token"] / (row["gpus"] * value / 100 * peak * 1e12)


def microbatches(row):
    replicas = row["gpus"] // (row.get("tp", 1) * row.get("cp", 1) * row.get("pp", 1))
    return row["global"] // (row["micro"] * replicas)


def fewer(row):
    """Two numbers of microbatches that show what each further one takes, or none for short rows."""
    pp, chunks = row.get("pp", 1), row.get("vpp", 1)
    first = pp * max(2 + chunks // 4, -(-16 // pp))
    second = first + pp * max(1, 8 // pp)
    return (first, second) if microbatches(row) > 1.25 * second else None


def predict(row, args):
    """The case of `moesim run --json`, or why there is none. Of many microbatches some are run: once
    a pipeline is full, each further one takes the same time."""
    sizes = fewer(row)
    if args.whole or not sizes:
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
    for key in ("iteration_s", "overlapped_s"):
        case[key] = add(first[key], second[key])
    case["parts_s"] = {k: add(first["parts_s"][k], v) for k, v in second["parts_s"].items()}
    case["took_s"] = first["took_s"] + second["took_s"]
    return case


def run(row, args):
    """One `moesim run`; scenarios that have run before are not run again."""
    key = json.dumps(scenario(row, args.gpu, not args.unfitted), sort_keys=True)
    if key not in RAN:
        RAN[key] = simulate(row, args)
    return RAN[key]


def simulate(row, args):
    with tempfile.TemporaryDirectory() as folder:
        path, result = os.path.join(folder, "row.yaml"), os.path.join(folder, "row.json")
        with open(path, "w", encoding="utf-8") as f:
            yaml.safe_dump(scenario(row, args.gpu, not args.unfitted), f)
        start = time.monotonic()
        ran = subprocess.run([args.moesim, "run", path, "--workers", "1", "--json", result],
                             capture_output=True, text=True, check=False, timeout=args.timeout)
        if ran.returncode != 0:
            lines = [x for x in ran.stderr.strip().splitlines() if "error:" in x] or ["failed"]
            return None, lines[0].split("error: ", 1)[-1]
        with open(result, encoding="utf-8") as f:
            case = json.load(f)["cases"][0]
        case["took_s"] = time.monotonic() - start
        return case, ""


def percentile(values, part):
    """The least value that so many per cent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, max(0, -(-len(ordered) * part // 100) - 1))]


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
           "unit": row["unit"], "note": row.get("note", ""), "why": why}
    if case is None:
        return out
    measured = measured_seconds(row, case)
    predicted = case["iteration_s"]
    work = row["global"] * row["sequence"] * (case["flop_per_token"] or 1) * 1e-12 / row["gpus"]
    out.update(predicted_s=predicted, measured_s=measured, error=predicted / measured - 1,
               rate=work / predicted, measured_rate=work / measured,
               parts=case["parts_s"], overlapped=case["overlapped_s"], took_s=case["took_s"])
    return out


def line_of(r):
    if "error" not in r:
        return f"{r['section']:7} {r['id']:24} not predicted: {r['why']}"
    parts = " ".join(f"{k.replace(' ', '-')} {v / r['predicted_s']:.0%}"
                     for k, v in r["parts"].items() if v > 0.015 * r["predicted_s"])
    return (f"{r['section']:7} {r['id']:24} {r['predicted_s']:8.3f} {r['measured_s']:8.3f} "
            f"{r['error']:+7.1%}  {parts}; {r['took_s']:.0f} s")


def summary(section, results):
    ran = [r for r in results if "error" in r]
    if not ran:
        return f"{section['id']}: no row predicted"
    errors = [abs(r["error"]) for r in ran]
    pairs, right = ranked(ran)
    text = (f"{section['id']}: {len(ran)} of {len(results)} rows, median {statistics.median(errors):.1%}, "
            f"90th percentile {percentile(errors, 90):.1%}, order {right} of {pairs}")
    by_id = {r["id"]: r for r in ran}
    for before, after in section.get("gains", []):
        if before in by_id and after in by_id:
            a, b = by_id[before], by_id[after]
            text += (f"; {before} / {after}: {a['predicted_s'] / b['predicted_s']:.3f}, "
                     f"measured {a['measured_s'] / b['measured_s']:.3f}")
    return text


def write_json(path, results):
    if path:
        with open(path, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)


def markdown(sections, everything):
    """The tables of docs/results/whole-steps.md."""
    lines = []
    for section in sections:
        results = [r for r in everything if r["section"] == section["id"]]
        if not results:
            continue
        lines += ["", f"### {section['id']}: {section['title']}", "", f"Source: {section['source']}.", "",
                  "| row | predicted, s | measured, s | error | most of it |", "|---|---|---|---|---|"]
        for r in results:
            if "error" not in r:
                lines.append(f"| {r['id']} | - | - | - | not predicted: {r['why'][:90]} |")
                continue
            most = sorted(r["parts"].items(), key=lambda part: -part[1])[:3]
            told = ", ".join(f"{k} {v / r['predicted_s']:.0%}" for k, v in most)
            lines.append(f"| {r['id']} | {r['predicted_s']:.2f} | {r['measured_s']:.2f} | {r['error']:+.1%} | {told} |")
        lines += ["", summary(section, results) + "."]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], help="SECTION or SECTION/ROW")
    parser.add_argument("--gpu", default="measured", help="suffix of the GPU models")
    parser.add_argument("--moesim", default=os.path.join(ROOT, "build", "sim", "cli", "moesim"))
    parser.add_argument("--timeout", type=float, default=600)
    parser.add_argument("--unfitted", action="store_true", help="leaves out what was fitted")
    parser.add_argument("--fit", action="append", default=[], help="GPU.TYPE=VALUE in its place")
    parser.add_argument("--whole", action="store_true", help="runs all microbatches of every row")
    parser.add_argument("--json", help="writes all results")
    parser.add_argument("--markdown", help="writes them as tables")
    args = parser.parse_args()
    everything, summaries = [], []
    sections = read_rows()
    for change in args.fit:
        place, value = change.split("=")
        gpu, kind = place.split(".")
        FITTED.setdefault(gpu, {})[kind] = float(value)
    for section in sections:
        results = []
        for row in section["all"]:
            name = f"{section['id']}/{row['id']}"
            if args.only and section["id"] not in args.only and name not in args.only:
                continue
            results.append(result_of(row, *predict(row, args)))
            print(line_of(results[-1]), flush=True)
            write_json(args.json, everything + results)
        if results:
            everything += results
            summaries.append(summary(section, results))
    ran = [abs(r["error"]) for r in everything if "error" in r]
    print("\n" + "\n".join(summaries))
    if ran:
        print(f"all: {len(ran)} of {len(everything)} rows, median {statistics.median(ran):.1%}, "
              f"90th percentile {percentile(ran, 90):.1%}")
    if args.markdown:
        with open(args.markdown, "w", encoding="utf-8") as f:
            f.write(markdown(sections, everything))
    return 0


if __name__ == "__main__":
    sys.exit(main())
