#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sixteen policies and an iteration on the mini-cluster, at link rates that it was not calibrated at.

  scripts/minicluster_policies.py FOLDER [--moesim BUILD] [--rate 120mbit ...] [--policy P ...]
                                  [--freeze FILE] [--score FILE] [--json FILE]

Calibrates at 200 Mbit/s, fits what the machine costs its ranks to four other policies at that rate,
measures each policy and the iteration at each rate, simulates the very plans that were measured, and
prints error, waiting and order. Whatever FOLDER already holds is not done again, so that a killed run
goes on; cases whose repeats are more than 5 % apart are measured again. Nothing is fitted to these policies or rates.

--freeze writes the predictions of what FOLDER has not measured, with hashes of program and inputs, and ends;
--score holds such a file against what was measured since. Exit codes: 0 within the limits, 1 beyond
them, 2 bad input, 77 skipped.
"""
import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys

import minicluster_host

ROOT = pathlib.Path(__file__).resolve().parent.parent
SKIPPED = 77
CALIBRATED = "200mbit"
POLICIES = [
    "alltoall", "dedup", "deepep-normal", "deepspeed", "eplb", "fastermoe", "grace-moe", "hiermoe",
    "hiermoe-hd2", "hybridep-exact", "laer", "lazarus", "llep", "schemoe", "smartmoe", "tutel-2dh"]
STEPS = ["--model", "tiny-moe", "--set", "model.hidden=256", "--set", "model.expert_ffn=32",
         "--attention", "false", "--trace", "traces/tiny-moe-train", "--tokens-per-rank", "512",
         "--steps", "6:8", "--transport", "ideal"]
# Two stages of four ranks; messages as long as those of the steps.
ITERATION = """
model: olmoe
trace: traces/tiny-moe-train
policy: alltoall
transport: ideal
parallel: {pp: 2, ep: 4}
batch: {global: 256, micro: 16, sequence: 32}
zero: 1
gradient_bytes: 4
set: [model.hidden=256, model.layers=2, model.moe_layers.count=2, model.experts=32, model.top_k=4,
      model.expert_ffn=16, model.attention.heads=4, model.attention.kv_heads=2, model.attention.head_dim=16,
      model.vocabulary=32, model.activations=fp32, model.weights=fp32]
"""
MEAN, WORST, WAITING = 0.05, 0.12, 0.35  # limits of absolute errors
MARGIN = 0.10  # measured times that differ by more must be in order
APART, TAKES = 0.05, 3  # repeats of a step that differ by more are measured again, so often in all
WAITED = 0.05  # of a step: waiting below counts for nothing


class Folder:
    """The cluster's files, measured ones and simulated ones."""

    def __init__(self, args):
        self.args = args
        self.path = pathlib.Path(args.folder).resolve()
        self.path.mkdir(parents=True, exist_ok=True)
        self.build = pathlib.Path(args.moesim).resolve()
        self.moesim = self.build / "sim/cli/moesim"
        self.hardware = self.build / "realhw/cli/moesim-hw"

    def call(self, words, out=None):
        done = subprocess.run([str(word) for word in words], cwd=ROOT, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, env=dict(os.environ, MOESIM_DATA=str(ROOT)))
        if done.returncode == SKIPPED:
            sys.stderr.write(done.stderr)
            sys.exit(SKIPPED)
        if done.returncode not in (0, 1) or (done.returncode == 1 and out is None):
            sys.exit(f"{' '.join(map(str, words))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def on_cluster(self, rate, *words):
        return self.call([*self.args.priority.split(), ROOT / "scripts/minicluster", "run", "--rate", rate, "--",
                          self.hardware, *words])

    def cluster(self, rate):
        path = self.path / f"mini-{rate}.yaml"
        if not path.exists():
            self.call([ROOT / "scripts/minicluster", "describe", "--rate", rate, "-o", path])
        return path

    @property
    def calibration(self):
        return self.path / "mini.calib.yaml"

    def calibrate(self):
        if self.calibration.exists():
            return
        say(f"calibrating at {CALIBRATED}")
        text = self.on_cluster(CALIBRATED, "calibrate", "--topology", self.cluster(CALIBRATED), "--model", "tiny-moe",
                               "--longest", "300", "--resume", "-o", self.path / "mini")
        (self.path / "calibration.txt").write_text(text)

    @property
    def calibrated(self):
        """Changes of the cluster: what was measured at the other rate. Hosts compute in fp32 whatever the type."""
        peak = re.search(r"^  fp32: (.*)$", (self.path / "mini.gpu.yaml").read_text(), re.MULTILINE)
        return ["--set", f"topology.calibration={self.calibration}", "--set", f"gpu.peak.bf16={peak[1]}"]

    def host(self):
        """The machine's costs, fitted to policies that are not predicted."""
        path = self.path / "host.json"
        if not path.exists():
            files = [self.measured(CALIBRATED, policy) for policy in minicluster_host.TRAINING]
            say("fitting the host")
            found = minicluster_host.fit(lambda flags: list(self.validation(files, flags).values()))
            path.write_text(json.dumps(found) + "\n")
        return minicluster_host.override(json.loads(path.read_text()))

    def scenario(self, rate, policy):
        calibrated = ["--topology", self.cluster(rate), *self.calibrated]
        if policy != "iteration":
            return [*STEPS, "--policy", policy, *calibrated]
        path = self.path / "iteration.yaml"
        path.write_text(ITERATION)
        return [path, *calibrated]

    def measured(self, rate, policy):
        return self.path / f"measured-{rate}-{policy}.json"

    def measure(self, rate, policy):
        """Measures a case; where its repeats are far apart something disturbed them, and the calmest of three stands."""
        path, again = self.measured(rate, policy), self.path / "again.json"
        for take in range(path.exists(), TAKES):
            if path.exists() and apart(path) <= APART:
                return
            say(f"measuring {policy} at {rate}" + (", again" if take else ""))
            self.on_cluster(rate, "run", *self.scenario(rate, policy), "--warmup-runs", "1", "--repeats",
                            self.args.repeats, "--check", "16", "--json", again)
            if not path.exists() or apart(again) < apart(path):
                again.rename(path)

    def validation(self, files, host):
        """What the simulator says of the plans that were measured."""
        fidelity = ["--fidelity", self.args.fidelity]
        found = json.loads(self.call([self.moesim, "validate", *files, *fidelity, *self.calibrated, *host, "--quiet",
                                      "--json", "-"], out=True))
        return {result["file"]: result["policies"][0] | {"fidelity": result["fidelity"]}
                for result in found["results"] if result["policies"]}

    def prediction(self, rate, policy):
        text = self.call([self.moesim, "run", *self.scenario(rate, policy), *self.host(), "--fidelity",
                          self.args.fidelity, "--quiet", "--json", "-"], out=True)
        case = json.loads(text)["cases"][0]
        return case["step_s"]


def say(text):
    print(f"{datetime.datetime.now():%H:%M:%S} {text}, load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)


def apart(path):
    """The longest repeat of a measured step over the shortest, less one; of the worst step."""
    steps = json.loads(path.read_text())["cases"][0]["measured_steps"]
    return max(max(step["repeats_s"]) / min(step["repeats_s"]) - 1 for step in steps)


def sha256(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


def freeze(folder, cases, path):
    frozen = [{"rate": rate, "policy": policy, "predicted_s": folder.prediction(rate, policy)}
              for rate, policy in cases if not folder.measured(rate, policy).exists()]
    inputs = sorted(file for pattern in ("*.calib.yaml", "*.gpu.yaml", "host.json", "mini-*bit.yaml")
                    for file in folder.path.glob(pattern))
    hashes = {str(file): sha256(file) for file in (folder.moesim, *inputs)}
    document = {"format": "moesim-minicluster-predictions", "format_version": 1, "sha256": hashes,
                "date": f"{datetime.datetime.now(datetime.timezone.utc):%Y-%m-%dT%H:%M:%SZ}", "predictions": frozen}
    pathlib.Path(path).write_text(json.dumps(document, indent=1) + "\n")
    print(f"{len(frozen)} predictions in {path}")
    return 0


def relative(simulated, measured):
    return simulated / measured - 1


def waiting(case):
    """The error of waiting, where ranks wait for more than a small part of the step."""
    if case["measured_waiting_s"] < WAITED * case["measured_s"]:
        return None
    return relative(case["simulated_waiting_s"], case["measured_waiting_s"])


def misordered(cases):
    """Pairs of policies whose measured times differ by more than the margin, and the wrong ones of them."""
    names = sorted((n for n in cases if n != "iteration"), key=lambda n: cases[n]["measured_s"])
    ordered = [(fast, slow) for i, fast in enumerate(names) for slow in names[i + 1:]
               if cases[slow]["measured_s"] > (1 + MARGIN) * cases[fast]["measured_s"]]
    return ordered, [(f, s) for f, s in ordered if cases[f]["simulated_s"] >= cases[s]["simulated_s"]]


def percent(value):
    return "-" if value is None else f"{100 * value:+.1f} %"


def print_rate(rate, cases):
    print(f"\n{rate}, simulated at {next(iter(cases.values()))['fidelity']}")
    print(f"{'policy':16}{'measured':>11}{'simulated':>11}{'error':>10}{'spread':>9}{'waiting':>11}{'simulated':>11}"
          f"{'error':>10}")
    for name, case in sorted(cases.items(), key=lambda item: item[1]["measured_s"]):
        print(f"{name:16}{case['measured_s']:9.3f} s{case['simulated_s']:9.3f} s{percent(case['error']):>10}"
              f"{100 * case['spread']:7.1f} %{case['measured_waiting_s']:9.3f} s{case['simulated_waiting_s']:9.3f} s"
              f"{percent(waiting(case)):>10}")


def summary(rates):
    """Errors of all cases of all rates, and why they are beyond the limits."""
    every = [(f"{name} at {rate}", case) for rate, cases in rates.items() for name, case in cases.items()]
    errors = {name: abs(case["error"]) for name, case in every}
    waits = {name: abs(waiting(case)) for name, case in every if waiting(case) is not None}
    simulated, measured = (sum(c[f"{of}_waiting_s"] for _, c in every) for of in ("simulated", "measured"))
    worst, worst_wait = max(errors, key=errors.get), max(waits, key=waits.get, default=None)
    pairs = {rate: misordered(cases) for rate, cases in rates.items()}
    wrong = [(rate, *pair) for rate, (_, bad) in pairs.items() for pair in bad]
    found = {"cases": len(errors), "mean_error": sum(errors.values()) / len(errors), "worst_error": errors[worst],
             "worst": worst, "waiting_error": relative(simulated, measured),
             "worst_waiting_error": waits.get(worst_wait, 0), "worst_waiting": worst_wait,
             "waiting_mean_error": sum(waits.values()) / max(1, len(waits)),
             "ordered_pairs": sum(len(ordered) for ordered, _ in pairs.values()), "misordered": wrong,
             "wrong_elements": sum(case["wrong"] for _, case in every)}
    limits = {f"mean error within {100 * MEAN:.0f} %": found["mean_error"] <= MEAN,
              f"worst error within {100 * WORST:.0f} %": found["worst_error"] <= WORST,
              f"waiting within {100 * WAITING:.0f} %": found["worst_waiting_error"] <= WAITING,
              "no pair in the wrong order": not wrong, "no wrong element": found["wrong_elements"] == 0}
    return found, limits


def print_summary(found, limits):
    print(f"\n{found['cases']} cases: mean absolute error {100 * found['mean_error']:.1f} %, worst "
          f"{100 * found['worst_error']:.1f} % ({found['worst']})")
    print(f"waiting, all together {percent(found['waiting_error'])}; if it is {100 * WAITED:.0f} % of the step: mean "
          f"absolute error {100 * found['waiting_mean_error']:.1f} %, worst {100 * found['worst_waiting_error']:.1f} % "
          f"({found['worst_waiting']})")
    print(f"order: {found['ordered_pairs']} pairs differ by more than {100 * MARGIN:.0f} %, {len(found['misordered'])} of "
          "them ordered wrongly")
    for rate, fast, slow in found["misordered"]:
        print(f"  {fast} is faster than {slow} at {rate}, but not simulated so")
    for limit, held in limits.items():
        print(f"{'holds' if held else 'fails'}: {limit}")


def score(path, rates):
    """Predictions that were frozen before they were measured."""
    document = json.loads(pathlib.Path(path).read_text())
    print(f"\npredicted {document['date']}")
    for frozen in document["predictions"]:
        case = rates.get(frozen["rate"], {}).get(frozen["policy"])
        if case:
            print(f"{frozen['rate']:9}{frozen['policy']:16}{case['measured_s']:9.3f} s{frozen['predicted_s']:9.3f} s"
                  f"{percent(relative(frozen['predicted_s'], case['measured_s'])):>10}")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_argument("--moesim", metavar="BUILD", default=ROOT / "build", help="build folder with both programs")
    parser.add_argument("--rate", action="append", help="of a host's link; default 120mbit and 240mbit")
    parser.add_argument("--policy", action="append", help="only these; `iteration` is one")
    parser.add_argument("--repeats", default="3")
    parser.add_argument("--fidelity", default="flow", help="of the simulation; default %(default)s")
    parser.add_argument("--priority", default="nice -n -20", help="words before the launcher; default %(default)s")
    parser.add_argument("--only-simulate", action="store_true", help="of what was measured, on any machine")
    parser.add_argument("--freeze", metavar="FILE")
    parser.add_argument("--score", metavar="FILE")
    parser.add_argument("--json", metavar="FILE")
    args = parser.parse_args()
    args.rate = args.rate or ["120mbit", "240mbit"]
    args.policy = args.policy or [*POLICIES, "iteration"]
    return args


def main():
    args = arguments()
    folder = Folder(args)
    cases = [(rate, policy) for rate in args.rate for policy in args.policy]
    if not args.only_simulate:
        folder.calibrate()
        for policy in minicluster_host.TRAINING:
            folder.measure(CALIBRATED, policy)
    if args.freeze:
        return freeze(folder, cases, args.freeze)
    for rate, policy in [] if args.only_simulate else cases:
        folder.measure(rate, policy)
    files = {folder.measured(rate, policy): (rate, policy) for rate, policy in cases
             if folder.measured(rate, policy).exists()}
    rates = {} if files else sys.exit(f"{folder.path} holds nothing measured")
    for file, case in folder.validation(files, folder.host()).items():
        rate, policy = files[pathlib.Path(file)]
        rates.setdefault(rate, {})[policy] = case
    for rate, of_rate in rates.items():
        print_rate(rate, of_rate)
    found, limits = summary(rates)
    print_summary(found, limits)
    if args.score:
        score(args.score, rates)
    if args.json:
        pathlib.Path(args.json).write_text(json.dumps({"rates": rates, "summary": found, "limits": limits}, indent=1) + "\n")
    return 0 if all(limits.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
