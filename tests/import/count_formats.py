#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the routing of formats.py in formats of arrays, texts and counts, and what their importers must refuse.

count_formats.py FOLDER: as formats.py. Parquet files are those of tests/fixtures, which other programs have written.
"""
import io
import json
import os
import shutil
import struct
import sys
import zipfile

from formats import (EXPERTS, LAYERS, TOP_K, Tensor, choice, counts_of, flat, recorder, recorder_record, rows, safetensors,
                     shape_of, torch_save, trtllm_counts, write, write_json)

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures")
SEQUENCES = [(0, 5), (5, 4)]


def npy(nested, code="i4"):
    shape = ", ".join(map(str, shape_of(nested))) + ("," if len(shape_of(nested)) == 1 else "")
    header = f"{{'descr': '<{code}', 'fortran_order': False, 'shape': ({shape}), }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    kind = {"i2": "h", "i4": "i", "i8": "q", "f4": "f", "f8": "d"}[code]
    values = flat(nested)
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + struct.pack(f"<{len(values)}{kind}", *values)


def npz(path, **arrays):
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in arrays.items():
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), content)
    write(path, packed.getvalue())


def arrays(folder):
    ids, lengths = npy(rows(0, 9, LAYERS)), npy([5, 4])
    npz(f"{folder}/npz/a.npz", ids=ids, seq_len=lengths)
    write(f"{folder}/npy/ids.npy", ids)
    write(f"{folder}/npy/seq_len.npy", lengths)
    write(f"{folder}/counts/a.npy", npy([[[counts_of(f, n, l) for f, n in SEQUENCES] for l in LAYERS]], "i8"))
    write(f"{folder}/moe-infinity/a.npy",
          npy([[counts_of(f, n, l) for l in range(3)] for f, n in SEQUENCES] + [[[0] * EXPERTS] * 3], "f4"))
    write(f"{folder}/trtllm-routes/a.npy", npy(rows(0, 5, LAYERS), "i2"))
    torch_save(f"{folder}/trtllm-routes/b.pt", [{"routed_experts": Tensor("Short", rows(5, 4, LAYERS))}])


def texts(folder):
    for layer in LAYERS:
        def line(first, count):
            ids = flat([choice(t, layer) for t in range(first, first + count)])
            return "\t".join(map(str, ids)) + "\t\t" + "\t".join("0.5" for _ in ids) + "\n"
        write(f"{folder}/esft/expert_weights_{layer}.txt", "".join(line(f, n) for f, n in SEQUENCES))
    write_json(f"{folder}/gpt-oss/a.json", [{"router_data": [{f"token_{t}": {f"layer_{l}": {
        "selected_experts": choice(t, l), "selected_probs": [0.75, 0.25]} for l in LAYERS}} for t in range(f, f + n)]}
        for f, n in SEQUENCES])


def harmoeny(folder, ranks=2, batch=1, repeat=1, change=str):
    write_json(f"{folder}/data.json", {"world_size": ranks, "num_experts": EXPERTS, "batch_size": batch, "seq_len": 1000})
    for rank, (first, count) in enumerate(SEQUENCES):
        for i, layer in enumerate(LAYERS):
            counts = change(counts_of(first, count, layer))
            write(f"{folder}/{rank}/moe_layer-{i}.csv", "iteration,latency (ms),total number of tokens sent,expert distribution\n" +
                  f'0,1.5,{count},"{counts}"\n' * repeat)


def ultraep(folder, records=None, experts=EXPERTS, schema="ultra_ep_trace_v1", loads=None):
    """Two chunks; the last microbatch lacks a layer, as when the recorder dropped it."""
    records = records or [(1, 0), (1, 1), (2, 0)]
    write_json(f"{folder}/epg0_gr0_r0_17.manifest.json", {"schema": schema, "num_global_logical_experts": experts, "chunks": 2})
    for chunk, part in enumerate([records[:1], records[1:]]):
        npz(f"{folder}/epg0_gr0_r0_17.chunk{chunk:06}.npz", layers=npy([l for l, _ in part]), microbatches=npy([m for _, m in part], "i8"),
            pre_logical_loads=npy(loads or [counts_of(0, 9, l) for l, _ in part]), post_physical_loads=npy([[0] * 10 for _ in part]))


def copy(source, target):
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copyfile(f"{FIXTURES}/{source}", target)


def wrong(at):
    write(f"{at}/gap-in-capture/a.npy", npy(rows(0, 3, LAYERS) + [[[-1, -1]] * 2] + rows(4, 1, LAYERS), "i2"))
    write(f"{at}/flat-capture/a.npy", npy([choice(t, 1) for t in range(5)], "i2"))
    write(f"{at}/real-capture/a.npy", npy(rows(0, 5, LAYERS), "f8"))
    copy("flame/layer_02.parquet", f"{at}/flame-names/first.parquet")
    copy("flame/layer_02.parquet", f"{at}/flame-twice/layer_02.parquet")
    copy("flame/layer_03.parquet", f"{at}/flame-twice/layer_2.parquet")
    copy("flame/layer_02.parquet", f"{at}/flame-rows/layer_02.parquet")
    copy("parquet/gzip.parquet", f"{at}/flame-rows/layer_03.parquet")
    copy("parquet/plain-columns.parquet", f"{at}/flame-columns/layer_02.parquet")
    copy("parquet/brotli.parquet", f"{at}/flame-codec/layer_02.parquet")
    with open(f"{FIXTURES}/flame/layer_02.parquet", "rb") as file:
        write(f"{at}/flame-cut/layer_02.parquet", file.read()[:-5])

    of_layers = [counts_of(0, 5, l) for l in range(3)]
    for name, nested in [("axes", of_layers), ("experts", [[[1] * 6] * 3]), ("dense", [[[1] * 8] * 3]),
                         ("share", [[[0] * 8] + [[0.5] * 8] * 2]), ("dropped", [of_layers[:2] + [counts_of(0, 4, 2)]])]:
        write(f"{at}/matrix-{name}/a.npy", npy(nested, "f4"))
    harmoeny(f"{at}/loads-rank", ranks=3)
    harmoeny(f"{at}/loads-twice", repeat=2)
    harmoeny(f"{at}/loads-list", change=lambda counts: str(counts)[:-1])
    harmoeny(f"{at}/loads-layers")
    os.remove(f"{at}/loads-layers/1/moe_layer-1.csv")
    harmoeny(f"{at}/loads-top-k")
    write_json(f"{at}/loads-top-k/data.json", {"world_size": 2, "num_experts": EXPERTS, "batch_size": 1, "seq_len": 5 * TOP_K})
    harmoeny(f"{at}/loads-header")
    write(f"{at}/loads-header/0/moe_layer-0.csv", "a,b\n1,2\n")
    harmoeny(f"{at}/loads-column")
    write(f"{at}/loads-column/0/moe_layer-0.csv", "step,expert distribution\n1,2\n")
    ultraep(f"{at}/profile-schema", schema="ultra_ep_trace_v2")
    ultraep(f"{at}/profile-slots", experts=10)
    ultraep(f"{at}/profile-twice", records=[(1, 0), (1, 0)])
    ultraep(f"{at}/profile-short", records=[(1, 0), (2, 0), (1, 1), (2, 1)], loads=[counts_of(0, 9, 1)])
    recorder(f"{at}/per-token", [[{k: v for k, v in recorder_record(7, 0, 0, 5, 1, [5]).items() if k != "global_physical_count"}]])
    torch_save(f"{at}/counts-of-slots/a.pt", {
        "records": [{"forward_pass_id": 2, "rank": 0, "global_physical_count": Tensor("Int", [[0] * 10] * 3)}],
        "last_physical_to_logical_map": Tensor("Long", [[0] * 9] * 3)})
    trtllm_counts(f"{at}/missing-counts")
    safetensors(f"{at}/missing-counts/rank1.safetensors", {"30_1": counts_of(5, 4, 1)})
    write(f"{at}/ids-for-counts/rank0_raw.safetensors", b"")
    write(f"{at}/flat-counts/a.npy", npy([1] * 8))


if __name__ == "__main__":
    root = sys.argv[1]
    arrays(root)
    texts(root)
    harmoeny(f"{root}/harmoeny")
    ultraep(f"{root}/ultraep")
    for name in ("layer_02", "layer_03"):
        copy(f"flame/{name}.parquet", f"{root}/flame/{name}.parquet")
    trtllm_counts(f"{root}/same-counts")
    shutil.copyfile(f"{root}/same-counts/rank0.safetensors", f"{root}/same-counts/rank1.safetensors")
    wrong(f"{root}/wrong")
