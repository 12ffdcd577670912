#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what LAER-MoE's artifact measured of its routing as counts for `moesim trace import counts`:
[microbatch][layer][sequence][expert].

  scripts/laer_demand.py token_analysis_backup.csv demand.npy --model e8k2 [--first 1] [--steps 4] [--seed 1]
  moesim trace import counts demand.npy -o DIR/laer-e8k2 --model mixtral-8x7b-e8k2

The artifact says how many copies of tokens each of 32 GPUs worked on (Fizzmy/LAER-MoE-AE 72db5b79,
token_analysis_backup.csv, method FSDP). GPU j of a node holds the experts e with e % 4 == j % 4, and the tokens of
a node stay there: so the loads say what the 16 sequences of a node chose of four sets of experts. In microbatch 0
GPU j holds consecutive experts instead: other sets. What neither says is made as even as both allow:

- the share of each expert in its set, by proportional fitting to the sets of microbatch 0;
- the sequences of a node: drawn around its shares (Dirichlet), as far apart as nodes are. A node's share is the
  mean of 16 sequences, so that of independent ones varies p (1 - p) / (16 (a + 1)) over nodes, which gives a.
  Then each node's sets are fitted to what was measured again.
"""

import argparse
import collections
import csv
import gzip
import random
import struct
import sys

NODES, PER_NODE, SETS, SEQUENCES, TOKENS = 4, 8, 4, 16, 8192  # sequences of a node
Shape = collections.namedtuple("Shape", "layers experts top_k")
MODELS = {"e8k2": Shape(32, 8, 2), "e16k4": Shape(24, 16, 4)}


def loads(path, model):
    """[(microbatch, layer)][rank] copies."""
    table = {}
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as f:
        for row in csv.DictReader(f):
            if row["method"] == "FSDP" and row["model_name"] == f"mixtral-8x7b-{model}":
                at = table.setdefault((int(row["iter"]), int(row["layer"])), [0] * NODES * PER_NODE)
                at[int(row["rank"])] = int(row["token_num"])
    return table


def sets_of_node(of_rank, node):
    """Copies of the experts on GPUs j and j + 4 of a node."""
    here = of_rank[node * PER_NODE:][:PER_NODE]
    return [here[j] + here[j + SETS] for j in range(SETS)]


def sets_of_all(of_rank):
    return [sum(column) for column in zip(*(sets_of_node(of_rank, n) for n in range(NODES)))]


def fitted(values, groupings, rounds=200):
    """Scales parts until each grouping's sums are its totals: [(members of each set, totals)]."""
    values = list(values)
    for _ in range(rounds):
        for sets, totals in groupings:
            for members, total in zip(sets, totals):
                there = sum(values[e] for e in members)
                for e in members:
                    values[e] *= total / there if there else 0
    return values


def expert_shares(first, now, experts):
    """[expert] of all copies of a layer, from the loads of microbatch 0 and of this one."""
    size = experts // SETS
    consecutive = [range(j * size, (j + 1) * size) for j in range(SETS)]
    strided = [range(j, experts, SETS) for j in range(SETS)]
    first, now = sets_of_all(first), sets_of_all(now)
    return fitted([1.0] * experts, [(consecutive, [x / sum(first) for x in first]),
                                    (strided, [x / sum(now) for x in now])])


def concentration(table):
    """Dirichlet's a of a sequence, by the variance of sets over the nodes of all layers and microbatches."""
    spread = binomial = 0.0
    for (microbatch, _), of_rank in table.items():
        if microbatch == 0:  # other sets
            continue
        shares = [[x / sum(s) for x in s] for s in (sets_of_node(of_rank, n) for n in range(NODES))]
        for of_set in zip(*shares):
            mean = sum(of_set) / NODES
            spread += sum((x - mean) ** 2 for x in of_set) / (NODES - 1)
            binomial += mean * (1 - mean)
    return binomial / spread / SEQUENCES - 1


def drawn_node(totals, shares, a, top_k, random_):
    """[sequence][expert] copies of a node whose sets have these totals. An expert takes a token once."""
    experts = len(shares)
    means = [shares[e] / sum(shares[e % SETS::SETS]) * totals[e % SETS] / sum(totals) for e in range(experts)]
    rows = []
    for _ in range(SEQUENCES):
        draws = [random_.gammavariate(max(a * m, 1e-3), 1) for m in means]
        rows.append([d / sum(draws) * TOKENS * top_k for d in draws])
    for _ in range(200):
        for row in rows:
            over = [min(x, float(TOKENS)) for x in row]
            rest = sum(row) - sum(over)
            free = sum(TOKENS - x for x in over)
            row[:] = [x + rest * (TOKENS - x) / free if free else x for x in over]
        for j, total in enumerate(totals):
            there = sum(sum(row[j::SETS]) for row in rows)
            for row in rows:
                row[j::SETS] = [x * total / there for x in row[j::SETS]]
        for row in rows:
            whole = TOKENS * top_k / sum(row)
            row[:] = [x * whole for x in row]
    return [divided(TOKENS * top_k, row, TOKENS) for row in rows]


def divided(total, weights, most):
    """`total` in whole parts near to the weights, none above `most`."""
    parts, done, weight = [], 0, 0
    for w in weights:
        weight += w
        parts.append(round(total * weight / sum(weights)) - done)
        done += parts[-1]
    for i in range(len(parts)):
        while parts[i] > most:
            least = parts.index(min(parts))
            parts[i], parts[least] = parts[i] - 1, parts[least] + 1
    return parts


def demand(first, now, a, shape, random_):
    """[sequence][expert] of a layer and microbatch. Sequences are dealt to 32 GPUs in turn."""
    shares = expert_shares(first, now, shape.experts)
    nodes = [drawn_node(sets_of_node(now, n), shares, a, shape.top_k, random_) for n in range(NODES)]
    return [nodes[rank // PER_NODE][turn * PER_NODE + rank % PER_NODE]
            for turn in range(SEQUENCES // PER_NODE) for rank in range(NODES * PER_NODE)]


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
    parser.add_argument("--seed", type=int, default=1, help="of the sequences that are drawn")
    args = parser.parse_args()
    table, shape = loads(args.csv, args.model), MODELS[args.model]
    a, random_ = concentration(table), random.Random(args.seed)
    print(f"sequences: Dirichlet of {a:.2f}", file=sys.stderr)
    values = []
    for microbatch in range(args.first, args.first + args.steps):
        for layer in range(shape.layers):
            for row in demand(table[0, layer], table[microbatch, layer], a, shape, random_):
                values += row
    write_npy(args.npy, [args.steps, shape.layers, NODES * SEQUENCES, shape.experts], values)


if __name__ == "__main__":
    main()
