#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How uneven a microbatch of few sequences is where a gate's bias balances experts over the whole batch.

  scripts/sequence_loads.py TRACE.npz... [--sequences 64] [--gpus 64] [--per-gpu 4] [--draws 400] [--seed 1]

TRACE.npz has `ids`, [token][layer][choice], unsigned bytes, and `seq_len`, the tokens of each sequence. The bias
(arXiv 2408.15664) is taken to scale an expert's share to the mean: an expert's load in a sequence is its share of that
sequence's choices over its share of all sequences' together. A microbatch is --sequences of them, drawn with
replacement, each of equal weight. Experts are --per-gpu to a GPU at random; GPUs of other layers are used if a model has
too few experts for --gpus. Printed is the load of the busiest GPU over the mean, on average over draws, with the 10th and 90th
percentile; and the same of the tokens shuffled over the sequences: as much comes only of their number, by chance. Experts
with less than a fifth of the mean load are left out: few tokens tell little of them.
"""

import argparse
import array
import ast
import collections
import random
import statistics
import sys
import zipfile

LEAST_SHARE = 0.2  # of the mean load of an expert


def member(archive, name):
    """Shape and values of one array of a .npz."""
    raw = archive.read(name + ".npy")
    long = 2 if raw[6] > 1 else 0  # NPY 2.0 has a longer header's length
    start = 10 + long
    size = int.from_bytes(raw[8:start], "little")
    header = ast.literal_eval(raw[start:start + size].decode())
    codes = {"|u1": "B", "<i4": "i", "<i8": "q"}
    if header["descr"] not in codes or header["fortran_order"]:
        sys.exit(f"sequence_loads: {archive.filename}: {name} is {header['descr']}: |u1, <i4 or <i8 in C order")
    return header["shape"], array.array(codes[header["descr"]], raw[start + size:])


def counts_of(ids, shape, lengths):
    """[sequence][layer] Counter of experts."""
    _, layers, top_k = shape
    row, at, out = layers * top_k, 0, []
    for tokens in lengths:
        block = ids[at * row:(at + tokens) * row]
        out.append([sum((collections.Counter(block[layer * top_k + k::row]) for k in range(top_k)),
                        collections.Counter()) for layer in range(layers)])
        at += tokens
    return out


def shuffled(ids, shape, random_):
    """The tokens in another order, each with its choices of all layers."""
    row, order = shape[1] * shape[2], list(range(shape[0]))
    random_.shuffle(order)
    out = array.array(ids.typecode)
    for token in order:
        out += ids[token * row:(token + 1) * row]
    return out


def relative_loads(counts):
    """[layer][expert][sequence] share in the sequence over the share in all of them."""
    out = []
    for layer in range(len(counts[0])):
        of = [c[layer] for c in counts]
        slots = [sum(c.values()) for c in of]
        total = sum(of, collections.Counter())
        mean = sum(slots) / len(total)
        out.append([[c[e] / s / (total[e] / sum(slots)) for c, s in zip(of, slots, strict=True)]
                    for e in sorted(total) if total[e] >= LEAST_SHARE * mean])
    return out


def busiest(loads, sequences, gpus, per_gpu, random_):
    """Load of the busiest GPU over the mean, for one microbatch that is drawn."""
    drawn = random_.choices(range(len(loads[0][0])), k=sequences)
    found, layers = [], random_.sample(range(len(loads)), len(loads))
    for layer in layers:
        experts = random_.sample(loads[layer], len(loads[layer]))
        for i in range(0, len(experts) - per_gpu + 1, per_gpu):
            found.append(sum(e[s] for e in experts[i:i + per_gpu] for s in drawn))
        if len(found) >= gpus:
            break
    found = found[:gpus]
    return max(found) / statistics.mean(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trace", nargs="+", help=".npz with ids and seq_len; several are one batch")
    parser.add_argument("--sequences", type=int, default=64, help="of a microbatch of an expert-parallel group")
    parser.add_argument("--gpus", type=int, default=64, help="of that group")
    parser.add_argument("--per-gpu", type=int, default=4, help="experts")
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    counts, by_chance, random_ = [], [], random.Random(args.seed)
    for path in args.trace:
        with zipfile.ZipFile(path) as archive:
            shape, ids = member(archive, "ids")
            lengths = member(archive, "seq_len")[1]
        counts += counts_of(ids, shape, lengths)
        by_chance += counts_of(shuffled(ids, shape, random_), shape, lengths)

    def draw(of):
        loads = relative_loads(of)
        return sorted(busiest(loads, args.sequences, args.gpus, args.per_gpu, random_) for _ in range(args.draws))

    found, chance = draw(counts), draw(by_chance)
    low, high = found[len(found) // 10], found[-1 - len(found) // 10]
    print(f"{len(counts)} sequences: the busiest of {args.gpus} GPUs has {statistics.mean(found):.2f} "
          f"({low:.2f} to {high:.2f}) times the mean; {statistics.mean(chance):.2f} with tokens shuffled")


if __name__ == "__main__":
    main()
