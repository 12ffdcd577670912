# SPDX-License-Identifier: Apache-2.0
"""What the mini-cluster's machine costs its ranks: fitted to policies of their own, at the calibrated rate.

The key `connections.host` of a topology. Two of its rates cannot be measured by exchanges that pack no rows, and
its starts by ranks that have nothing else to do, so that they come from steps.
"""
import json
import os

# None of the policies that are predicted.
TRAINING = ["deepspeed-hierarchical", "fsdp-ep", "hiermoe-h2", "lplb"]
GRID = {  # us, us, GB/s, GB/s
    "exchange_start": [100, 200, 300, 450, 600, 800, 1000, 1500],
    "kernel_start": [0, 50, 100, 150, 200, 300, 450],
    "pack": [1, 1.4, 2, 2.8, 4],
    "carry": [1, 1.4, 2, 2.8, 4],
}
FIRST = {"exchange_start": 450, "kernel_start": 100, "pack": 2, "carry": 2}
OF_WAITING = 0.2  # what an error of waiting counts next to one of a step


def override(host):
    """The flag that states the host."""
    return ["--set", "topology.connections.host={{cores: {cores}, one_machine: true, exchange_start: {exchange_start} us, "
            "kernel_start: {kernel_start} us, pack: {pack} GB/s, carry: {carry} GB/s}}".format(
                cores=os.cpu_count(), **host)]


def cost(cases):
    """Mean errors of what was simulated for each policy, as `moesim validate --json` has them."""
    steps = [abs(c["simulated_s"] / c["measured_s"] - 1) for c in cases]
    waits = [abs(c["simulated_waiting_s"] / c["measured_waiting_s"] - 1) for c in cases]
    return sum(steps) / len(steps) + OF_WAITING * sum(waits) / len(waits)


def fit(simulate):
    """One figure after the other, until none improves. `simulate(flags)` returns the cases of TRAINING."""
    known = {}

    def of(host):
        key = json.dumps(host, sort_keys=True)
        if key not in known:
            known[key] = cost(simulate(override(host)))
        return known[key]

    best = dict(FIRST)
    while True:
        before = dict(best)
        for name, values in GRID.items():
            best = min(({**best, name: value} for value in values), key=of)
        if best == before:
            return best
