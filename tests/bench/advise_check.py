#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds moesim advise against whole grids, and how sure it says to be against how often it is right.

usage: advise_check.py MOESIM

First 400 combinations on three clusters and three traces: is the fastest found, and with how many simulations at port?
Then 30 grids of 40 combinations, where few simulations are allowed. Prints Markdown tables, as in docs/results/advise.md.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

MOESIM = str(pathlib.Path(sys.argv[1]).resolve())
CLUSTERS = ["h100-rail", "laer-a100", "hiermoe-a6000"]
TRACES = {
    "even": [],
    "skewed": ["--skew", "0.8"],
    "communities": ["--skew", "0.4", "--affinity", "0.6"],
    "sticky": ["--skew", "0.6", "--stickiness", "0.5"],
    "very skewed": ["--skew", "1.2"],
}
POLICIES = ["alltoall", "dedup", "hiermoe-hd", "hiermoe-hd2", "deepep-normal", "tutel-2dh", "deepspeed-hierarchical", "llep",
            "laer", "fastermoe"]
SCHEDULES = ["{kind: sequential}", "{kind: sequential, chunks: 2}", "{kind: sequential, chunks: 4}",
             "{kind: sequential, chunks: 8}", "{kind: overlap}"]
LARGE = {"ep": [4, 8, 16, 32], "policy.schedule": SCHEDULES, "accumulate": [1, "never"]}
SMALL = {"ep": [8, 16], "policy.schedule": SCHEDULES[0:3:2]}
PARTS = [0.1, 0.2, 0.3]  # of the small grids' candidates that can be


def run(*words, folder):
    done = subprocess.run([MOESIM, *map(str, words)], cwd=folder, check=False, text=True, capture_output=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))}: {done.stderr}")
    return done


def write_grid(folder, cluster, trace, axes, tokens=None):
    lines = [f"topology: {cluster}", "model: gpt-oss-20b", f"trace: {trace.replace(' ', '-')}", "layers: recorded", "steps: 0",
             "memory: model", f"policy: [{', '.join(POLICIES)}]"]
    lines += [f"tokens_per_rank: {tokens}"] if tokens else []
    lines += ["axes:"] + [f"  {key}: {json.dumps(values)}" for key, values in axes.items()]
    (folder / "grid.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def all_times(folder):
    """Seconds of every combination that can be, at port."""
    (folder / "grid.sqlite").unlink(missing_ok=True)
    run("sweep", "grid.yaml", "-q", folder=folder)
    rows = json.loads(run("query", "grid.sqlite", "--format", "json", folder=folder).stdout)["scenarios"]
    return sorted(row["step_s"] for row in rows)


def advice(folder, *flags):
    """Its best time, simulations at port, how sure it is, and how many its bounds ruled out."""
    done = run("advise", "grid.yaml", "--finals", "0", "--format", "json", "-q", *flags, folder=folder)
    best = json.loads(done.stdout)["candidates"][0]
    said = re.search(r", (\d+) at port.*\n# (\d+) % sure[^;]*; (\d+) ", done.stderr)
    runs, sure, beaten = map(int, said.groups())
    return next(value for name, value in best.items() if name.startswith("time")), runs, sure / 100, beaten


def large_grids(folder):
    print("| cluster | trace | possible | at `port` | out by bounds | sure | fastest |")
    print("|---|---|---|---|---|---|---|")
    for cluster in CLUSTERS:
        for trace in list(TRACES)[:3]:
            write_grid(folder, cluster, trace, LARGE)
            times = all_times(folder)
            best, runs, sure, beaten = advice(folder)
            missed = "" if best <= times[0] * (1 + 1e-12) else f", {best / times[0] - 1:.1%} faster than what was found"
            print(f"| {cluster} | {trace} | {len(times)} | {runs} | {beaten} | {sure:.0%} | {times[0] * 1e3:.3f} ms{missed} |",
                  flush=True)


def small_grids(folder):
    answers = {part: [] for part in PARTS}
    for cluster in CLUSTERS:
        for trace in TRACES:
            for tokens in (128, 1024):
                write_grid(folder, cluster, trace, SMALL, tokens)
                times = all_times(folder)
                for part in PARTS:
                    best, runs, sure, _ = advice(folder, "--part", part, "--top", 1)
                    answers[part].append((sure, best <= times[0] * (1 + 1e-12), runs / len(times)))
    print("\n| simulated at `port` | grids | said | right | Brier score |\n|---|---|---|---|---|")
    every = [answer for some in answers.values() for answer in some]
    for name, some in [*((f"{sum(a[2] for a in found) / len(found):.0%}", found) for found in answers.values()), ("all", every)]:
        print(f"| {name} | {len(some)} | {mean(a[0] for a in some):.0%} | {mean(a[1] for a in some):.0%} | "
              f"{mean((a[0] - a[1]) ** 2 for a in some):.3f} |")
    print("\n| said | answers | right |\n|---|---|---|")
    for low, high in ((0, 0.5), (0.5, 0.8), (0.8, 0.95), (0.95, 0.98), (0.98, 1.01)):
        some = [a for a in every if low <= a[0] < high]
        if some:
            print(f"| {low:.0%} to {min(high, 1):.0%} | {len(some)} | {mean(a[1] for a in some):.0%} |")


def mean(values):
    values = list(values)
    return sum(values) / len(values)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for trace, flags in TRACES.items():
            run("trace", "synth", "-o", trace.replace(" ", "-"), "--experts", "32", "--top-k", "4", "--tokens", "32768",
                "--sequences", "64", *flags, folder=folder)
        large_grids(folder)
        small_grids(folder)


if __name__ == "__main__":
    main()
