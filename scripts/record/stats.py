#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks a trace in the native form and prints its statistics as Markdown: stats.py TRACE.

An independent count in NumPy of what `moesim trace info` prints. Definitions: max/mean is the
load of the busiest expert over the mean load, per layer; previous-token overlap is the share of a
token's experts that the token before it in its sequence also chose in that layer (uniform routing:
top_k / experts); distinct ranks are the ones that hold a token's experts when E experts are on G ranks
in order; gate entropy is that of the chosen weights, in bits.
"""

import collections
import json
import os
import sys
import zlib

import numpy as np


def load(path):
    """Returns (trace.json, [(number, ids, weights or None, lengths)]); asserts the rules."""
    with open(os.path.join(path, "trace.json"), encoding="utf-8") as file:
        header = json.load(file)
    steps = []
    for folder in sorted(f for f in os.listdir(path) if f.startswith("step-")):
        arrays = {f[:-4]: np.load(os.path.join(path, folder, f))
                  for f in os.listdir(os.path.join(path, folder))}
        ids, lengths = arrays["ids"], arrays["sequence_lengths"]
        assert ids.shape == (len(header["layers"]), lengths.sum(), header["top_k"]), folder
        assert ids.max() < header["experts"], folder
        assert (np.diff(np.sort(ids, -1).astype(int), axis=-1) > 0).all(), f"{folder}: repeated id"
        weights = arrays.get("gate_weights")
        assert weights is None or weights.shape == ids.shape, folder
        steps.append((int(folder[5:]), ids, weights, lengths))
    return header, steps


def loads(ids, experts):
    """Returns the tokens of each expert, [layers, experts]."""
    return np.stack([np.bincount(layer.ravel(), minlength=experts) for layer in ids])


def skew(counts):
    """Returns max/mean over the last axis."""
    return counts.max(-1) / counts.mean(-1)


def overlap(ids, lengths):
    """Returns the previous-token overlap of each layer."""
    same = (ids[:, 1:, :, None] == ids[:, :-1, None, :]).any(-1).mean(-1)
    inner = np.ones(ids.shape[1] - 1, dtype=bool)
    inner[np.cumsum(lengths)[:-1] - 1] = False
    return same[:, inner].mean(-1)


def distinct_ranks(ids, experts, ranks):
    """Returns the mean number of ranks per token of each layer, experts in order on the ranks."""
    held = ids // (experts // ranks)
    return np.stack([(held == rank).any(-1) for rank in range(ranks)]).sum(0).mean(-1)


def entropy(weights):
    """Returns the mean entropy of the rows of each layer in bits."""
    w = weights.astype(np.float64)
    w = w / w.sum(-1, keepdims=True)
    return -(w * np.log2(np.maximum(w, 1e-9))).sum(-1).mean(-1)


def domain_skew(header, steps, last):
    """Returns {domain: (sequences, max/mean per layer)} over the `last` recorded steps."""
    experts = header["experts"]
    names = {r["step"]: r["domains"].split() for r in header["provenance"].get("recorded", [])}
    counts, sequences = collections.Counter(), collections.Counter()
    for number, ids, _, lengths in steps[-last:]:
        ends = np.cumsum(lengths)
        for name, start, end in zip(names.get(number, []), ends - lengths, ends):
            counts[name] = counts[name] + loads(ids[:, start:end], experts)
            sequences[name] += 1
    return {name: (sequences[name], skew(counts[name])) for name in sorted(counts)}


def row(*cells):
    print("| " + " | ".join(str(cell) for cell in cells) + " |")


def text(values, digits=2):
    return " ".join(f"{value:.{digits}f}" for value in np.atleast_1d(values))


def main(path):
    header, steps = load(path)
    experts = header["experts"]
    total = sum(loads(ids, experts) for _, ids, _, _ in steps)
    crc = 0
    for _, ids, _, _ in steps:
        crc = zlib.crc32(ids.tobytes(), crc)
    tokens = sum(ids.shape[1] for _, ids, _, _ in steps)
    print(f"{len(steps)} steps, {tokens} tokens, {sum(len(s[3]) for s in steps)} sequences, "
          f"{len(header['layers'])} layers, top-{header['top_k']} of {experts}\n")
    print(f"crc32 of all ids {crc:08x}, of total loads (uint32 [layer][expert]) "
          f"{zlib.crc32(total.astype('<u4').tobytes()):08x}, sum of squared loads "
          f"{int((total.astype(np.int64) ** 2).sum())}, loads of one expert {total.min()} to "
          f"{total.max()}\n")
    ranks = min(8, experts)
    facts = {r["step"]: r for r in header["provenance"].get("recorded", [])}
    row("step", "loss", "max/mean load per layer", "overlap per layer",
        f"distinct ranks of {ranks}", "gate entropy per layer")
    row(*["---"] * 6)
    for number, ids, weights, lengths in steps:
        row(number, facts.get(number, {}).get("loss", ""), text(skew(loads(ids, experts))),
            text(overlap(ids, lengths), 3), text(distinct_ranks(ids, experts, ranks).mean()),
            text(entropy(weights)) if weights is not None else "")
    row("all", "", text(skew(total)), "", "", "")
    last = min(5, len(steps))
    domains = domain_skew(header, steps, last)
    if domains:
        print()
        row(f"domain, last {last} steps", "sequences", "max/mean load per layer")
        row(*["---"] * 3)
        for name, (sequences, values) in domains.items():
            row(name, sequences, text(values))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: stats.py TRACE")
    main(sys.argv[1])
