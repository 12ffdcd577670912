#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU time and memory of whole commands, as docs/results/speed.md states them: medians of several runs of each.

usage: speed.py MOESIM [--runs 5] [--only WORD] [--against OTHER_MOESIM]

With another program both run by turns. Runs that nothing else disturbs need an idle core.
"""
import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEEPSEEK = ROOT / "scenarios/deepseek-v3-2048.yaml"
QWEN = ROOT / "scenarios/qwen3-235b-256.yaml"


def exchange(nodes, fidelity):
    return ["run", "--topology", "h100-rail", "--set", f"topology.nodes={nodes}", "--model", "deepseek-v3",
            "--set", f"model.experts={8 * nodes}", "--policy", "alltoall", "--synth", f"skew=0.5,tokens={8192 * nodes}",
            "--layers", "3", "--steps", "0", "--pass", "forward", "--transport", "ideal", "--tokens-per-rank", "1024", "--workers", "1",
            "--fidelity", fidelity]


def layers(policy):
    return ["run", "--topology", "h100-rail", "--set", "topology.nodes=32", "--model", "deepseek-v3",
            "--synth", "skew=0.5,tokens=1048576", "--tokens-per-rank", "4096", "--memory", "ignore",
            "--workers", "1", "--policy", policy]


def commands(folder):
    """(name, command, asked CPU seconds)."""
    for nodes, limit in ((8, 0.015), (32, 0.02), (128, 0.06), (512, 0.25)):
        yield f"port, {8 * nodes} GPUs", exchange(nodes, "port"), limit
    for nodes, limit in ((8, 0.03), (32, 0.2), (128, 4)):
        yield f"flow, {8 * nodes} GPUs", exchange(nodes, "flow"), limit
    for name, flags, limit in (("recorded", ["--routing", "recorded"], 10),
                               ("recorded, ideal links", ["--routing", "recorded", "--transport", "ideal"], 4),
                               ("balanced", ["--routing", "balanced"], 1),
                               ("recorded, analytic", ["--routing", "recorded", "--fidelity", "analytic"], 2),
                               ("balanced, analytic", ["--routing", "balanced", "--fidelity", "analytic"], 0.5)):
        yield f"deepseek-v3-2048, {name}", ["run", DEEPSEEK, "--workers", "1", *flags], limit
    yield "qwen3-235b-256, recorded", ["run", QWEN, "--workers", "1", "--routing", "recorded"], 6
    for policy, limit in (("alltoall", 0.4), ("hiermoe-hd2", 0.6), ("deepep-normal", 1), ("eplb", 1.5), ("hiermoe", 2)):
        yield f"58 layers, {policy}", layers(policy), limit
    yield "advise", ["advise", ROOT / "scenarios/quickstart.yaml"], 0.8
    grid = folder / "grid.yaml"
    grid.write_text(SWEEP)
    yield "sweep of 1,000", ["sweep", grid, "-j", "1", "-o", folder / "sweep.sqlite"], 2


SWEEP = f"""\
topology: h100-rail
model: gpt-oss-20b
trace: tiny-moe-train
layers: recorded
steps: 0:2
axes:
  topology.nodes: [2, 4]
  policy: [alltoall, dedup, hiermoe-hd, eplb, llep]
  topology.node.nics.bandwidth: [{", ".join(f"{rate} GB/s" for rate in range(10, 210, 10))}]
  tokens_per_rank: [16, 32, 64, 96, 128]
"""


def run(program, command):
    """CPU seconds and bytes of memory of one run."""
    for file in command:
        if str(file).endswith(".sqlite"):
            pathlib.Path(file).unlink(missing_ok=True)
    with tempfile.TemporaryFile() as errors:
        child = subprocess.Popen([program, *map(str, command)], stdout=subprocess.DEVNULL, stderr=errors)
        _, status, use = os.wait4(child.pid, 0)
        if status:
            errors.seek(0)
            sys.exit(f"{' '.join(map(str, command))}: {errors.read().decode()}")
    return use.ru_utime + use.ru_stime, use.ru_maxrss * 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("moesim")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--against")
    arguments = parser.parse_args()
    programs = [arguments.moesim] + ([arguments.against] if arguments.against else [])
    print(f"{'command':36}{'asked, s':>9}" + "".join(f"{'CPU, s':>9}{'least':>8}{'MB':>7}" for _ in programs))
    with tempfile.TemporaryDirectory() as folder:
        for name, command, limit in commands(pathlib.Path(folder)):
            if arguments.only not in name:
                continue
            runs = [[run(program, command) for program in programs] for _ in range(arguments.runs)]
            line = f"{name:36}{limit:9}"
            for each in zip(*runs):
                times = [seconds for seconds, _ in each]
                line += f"{statistics.median(times):9.3f}{min(times):8.3f}{max(memory for _, memory in each) / 1e6:7.0f}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
