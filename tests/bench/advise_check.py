#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds moesim advise against all of a grid, and how sure it says to be against how often it is right.

usage: advise_check.py MOESIM

Three clusters x three traces, 400 combinations each: does it find the fastest at port with at most a fifth of the
simulations? Then 30 grids of 40 combinations with 8 simulations each. Prints one line per grid, then both answers.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

MOESIM = str(pathlib.Path(sys.argv[1]).resolve())
CLUSTERS = {"h100-rail": "topology.node.nics.bandwidth", "leaf-spine-oversubscribed": "topology.node.nics.bandwidth",
            "laer-a100": "topology.node.nics.bandwidth"}
POLICIES = ["alltoall", "dedup", "hiermoe-hd", "hiermoe-hd2", "deepep-normal", "tutel-2dh", "llep", "laer"]
TRACES = {"even": [], "skewed": ["--skew", "0.8"], "communities": ["--skew", "0.4", "--affinity", "0.6"]}


def run(*words, folder):
    return subprocess.run([MOESIM, *map(str, words)], cwd=folder, check=True, text=True, capture_output=True).stdout


def grid_file(folder, cluster, trace, axes, policies):
    lines = [f"topology: {cluster}", "model: gpt-oss-20b", f"trace: {trace}", "layers: recorded", "steps: 0",
             f"policy: [{', '.join(policies)}]", "memory: ignore", "axes:"]
    lines += [f"  {key}: [{', '.join(values)}]" for key, values in axes.items()]
    (folder / "grid.yaml").write_text("\n".join(lines) + "\n", encoding="utf-8")


def compare(folder, part):
    """Whether advise finds the fastest, how sure it is, simulations at port, candidates."""
    (folder / "grid.sqlite").unlink(missing_ok=True)
    run("sweep", "grid.yaml", "-q", "-j", "2", folder=folder)
    rows = json.loads(run("query", "grid.sqlite", "--top", "1", "--format", "json", folder=folder))["scenarios"]
    total = int(run("query", "grid.sqlite", "--format", "csv", folder=folder).count("\n")) - 1
    done = subprocess.run([MOESIM, "advise", "grid.yaml", "-j", "2", "--finals", "0", "--part", str(part), "--format",
                           "json"], cwd=folder, check=True, text=True, capture_output=True)
    best = json.loads(done.stdout)["candidates"][0]
    time = next(value for name, value in best.items() if name.startswith("time"))
    return time <= rows[0]["step_s"] * (1 + 1e-12), sureness(done.stderr), port_runs(done.stderr), total


def port_runs(text):
    return int(text.split(" at port")[0].split()[-1])


def sureness(text):
    return int(text.split(" % sure")[0].split()[-1]) / 100


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for trace, flags in TRACES.items():
            run("trace", "synth", "-o", trace, "--experts", "32", "--top-k", "4", "--tokens", "32768", "--sequences",
                "64", *flags, folder=folder)
        found, most = 0, 0
        for cluster, key in CLUSTERS.items():
            for trace in TRACES:
                axes = {key: ["12.5 GB/s", "25 GB/s", "50 GB/s", "75 GB/s", "100 GB/s"],
                        "ep": ["4", "8"], "tokens_per_rank": ["64", "128", "256", "512", "1024"]}
                grid_file(folder, cluster, trace, axes, POLICIES)
                right, sure, runs, total = compare(folder, 0.2)
                print(f"{cluster} {trace}: {'found' if right else 'missed'}, {runs} of {total} at port, sure {sure:.2f}",
                      flush=True)
                found += right
                most = max(most, runs / total)
        print(f"# found {found} of 9, at most {most:.0%} of the simulations at port")
        sures, rights, grids = 0, 0, 0
        for cluster, key in CLUSTERS.items():
            for trace in TRACES:
                for tokens in ("128", "256", "512", "1024")[: 4 if grids < 12 else 3]:
                    if grids == 30:
                        break
                    grid_file(folder, cluster, trace, {key: ["12.5 GB/s", "25 GB/s", "50 GB/s", "100 GB/s", "200 GB/s"],
                                                       "tokens_per_rank": [tokens]}, POLICIES)
                    right, sure, runs, total = compare(folder, 0.2)
                    sures, rights, grids = sures + sure, rights + right, grids + 1
        print(f"# {grids} small grids: said {sures / grids:.2f}, right {rights / grids:.2f}")


if __name__ == "__main__":
    main()
