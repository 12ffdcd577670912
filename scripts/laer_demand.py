#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the loads that LAER-MoE's artifact measured of static experts as counts for
`moesim trace import counts`: [microbatch][layer][source][expert].

  scripts/laer_demand.py token_analysis_backup.csv demand.npy --model e8k2 [--first 1] [--steps 4]
  moesim trace import counts demand.npy -o DIR/laer-e8k2 --model mixtral-8x7b-e8k2

The artifact says how many copies of tokens each of 32 GPUs worked on (Fizzmy/LAER-MoE-AE 72db5b79,
token_analysis_backup.csv, method FSDP). Experts lie in EP groups of four GPUs: two on each of e8k2, four of
e16k4. Which expert of a GPU, and whose copies they are, was not recorded: equal parts.
"""

import argparse
import collections
import csv
import gzip
import struct

RANKS, GROUP, TOKENS = 32, 4, 16384
Shape = collections.namedtuple("Shape", "layers experts top_k")
MODELS = {"e8k2": Shape(32, 8, 2), "e16k4": Shape(24, 16, 4)}


def loads(path, model):
    """[(microbatch, layer)][rank] copies."""
    table = {}
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            if row["method"] == "FSDP" and row["model_name"] == f"mixtral-8x7b-{model}":
                at = table.setdefault((int(row["iter"]), int(row["layer"])), [0] * RANKS)
                at[int(row["rank"])] = int(row["token_num"])
    return table


def divided(total, weights):
    """`total` in whole parts near to the weights."""
    parts, done, weight = [], 0, 0
    for w in weights:
        weight += w
        parts.append(round(total * weight / sum(weights)) - done)
        done += parts[-1]
    return parts


def demand(of_rank, shape):
    """[source][expert] of one layer and microbatch: every source has TOKENS x top-k in all."""
    rows = []
    for source in range(RANKS):
        group = of_rank[source // GROUP * GROUP:][:GROUP]
        weights = [load for load in group for _ in range(shape.experts // GROUP)]
        rows += divided(TOKENS * shape.top_k, weights)
    return rows


def write_npy(path, shape, values):
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode())
        f.write(struct.pack(f"<{len(values)}i", *values))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("csv")
    parser.add_argument("npy")
    parser.add_argument("--model", choices=MODELS, default="e8k2")
    parser.add_argument("--first", type=int, default=1, help="microbatch; 0 has another layout")
    parser.add_argument("--steps", type=int, default=4)
    args = parser.parse_args()
    table, shape = loads(args.csv, args.model), MODELS[args.model]
    values = []
    for microbatch in range(args.first, args.first + args.steps):
        for layer in range(shape.layers):
            values += demand(table[microbatch, layer], shape)
    write_npy(args.npy, [args.steps, shape.layers, RANKS, shape.experts], values)


if __name__ == "__main__":
    main()
