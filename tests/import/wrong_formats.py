#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what an importer must refuse, in the formats of formats.py: FOLDER/wrong/<trap>/...

wrong_formats.py FOLDER
"""
import base64
import gzip
import json
import os
import shutil
import struct
import sys
import zipfile

from count_formats import harmoeny, npz, ultraep
from count_formats import npy as wide_npy
from formats import (LAYERS, SLOTS, Tensor, choice, counts_of, int32, lines, npy, padded, recorder, recorder_record, rows,
                     safetensors, torch_save, trace_line, trace_v1, trtllm, write, write_json)


def wrong(folder):  # of ids and tensors
    def at(name):
        return f"{folder}/{name}"
    bad = Tensor("Int", [[[-1] * 8] * 5] + [[[12, 1] + [-1] * 6] * 5] * 2)
    recorder(at("slot-beyond-map"), [[recorder_record(7, 0, 0, 5, 1, [5], topk_ids_of_layer=bad)]])
    wide = Tensor("Int", [[[0, 1, 2, 3, 4, 5, 6, 7]] * 5] * 3)
    recorder(at("dense-layer-chose"), [[recorder_record(7, 0, 0, 5, 1, [5], topk_ids_of_layer=wide)]])
    recorder(at("lengths-beyond"), [[recorder_record(7, 0, 0, 5, 1, [9])]])
    recorder(at("pass-twice"), [[recorder_record(7, 0, 0, 5, 1, [5])] * 2])
    recorder(at("per-pass"), [[{"forward_pass_id": 1, "rank": 0, "global_physical_count": Tensor("Int", [[0] * 10] * 3)}]])
    torch_save(at("stat/a.pt"), {"rank": 0, "logical_count": Tensor("Int", [[[1] * 8] * 3] * 2)})
    one = Tensor("Int", [[[-1] * 8] * 5, [choice(t, 1) + [-1] * 6 for t in range(5)], [[-1] * 8] * 5])
    recorder(at("one-layer-recorded"), [[recorder_record(7, 0, 0, 5, 1, [5], topk_ids_of_layer=one)]])
    recorder(at("map-of-other-layers"), [[recorder_record(7, 0, 0, 5, 1, [5])]],
             last_physical_to_logical_map=Tensor("Long", [SLOTS] * 2))

    def response(name, routes, **beside):
        write_json(at(name) + "/a.json", {"meta_info": {"routed_experts": routes, **beside}})
    response("other-model", int32(rows(0, 5, range(3)))[:-8])
    response("not-base64", "@@@@")
    response("unknown-dtype", int32(rows(0, 5, range(3))), routed_experts_dtype="int4")
    response("narrow-ids", int32([[[300, 1]] * 3]))
    response("shared-expert", int32([[[0, 0], [8, 1], [1, 2]]]))
    response("stale-zeros", int32(rows(0, 5, range(3)) + [[[0, 0]] * 3] * 2))
    write_json(at("ragged") + "/a.json", {"choices": [{"routed_experts": [[[1, 2], [3]], [[1, 2], [3, 4]]]}]})
    write_json(at("wrapped") + "/a.json", {"choices": [
        {"routed_experts": base64.b64encode(npy([[[255, 255]] * 2] * 2)).decode()}]})
    write_json(at("object-npy") + "/a.json", {"choices": [
        {"routed_experts": base64.b64encode(npy([[[1, 2]] * 2], "O8")).decode()}]})

    trtllm(at("slots-in-meta"), experts=10)
    trtllm(at("missing-layer"), skip=[(1, 2)])
    write(at("counts-only") + "/rank0.safetensors", b"")
    write(at("dropped-tokens") + "/router_trace_rank0.jsonl", lines(
        [trace_line(3, 1, 0, 0, 5), trace_line(3, 2, 0, 0, 5), trace_line(3, 1, 0, 5, 4)]))
    write(at("other-numbering") + "/router_trace_rank0.jsonl", lines([trace_line(3, l, 0, 0, 5) for l in (5, 6)]))
    write(at("uneven-rows") + "/router_trace_rank0.jsonl", lines([trace_line(3, 1, 0, 0, 5, topk=3)]))
    trace_v1(at("version-2"), schema_version=2)
    trace_v1(at("other-shape"), topk=3)
    torch_save(at("no-mask") + "/a.pt", {"routed_experts": padded("Short")["routed_experts"]})
    hole = Tensor("Long", [[1, 0, 1, 1, 1, 1, 1]] * 2)
    torch_save(at("hole-in-mask") + "/a.pt", padded("Short", attention_mask=hole))
    torch_save(at("r2-beyond-uint8") + "/a.pt", padded("Byte", routed_experts=Tensor("Byte", [[[[200, 255]] * 2] * 7] * 2)))
    torch_save(at("logits-of-other-model") + "/a.pt", {"router_logits": [Tensor("Float", [[0.0] * 7])] * 2})
    torch_save(at("no-number") + "/a.pt", {"router_logits": [Tensor("Float", [[float("nan")] * 8])] * 2})
    write_json(at("layers-change") + "/a.json", [{"1": [[0, 1]], "2": [[0, 1]]}, {"1": [[0, 1]]}])

    class Evil:
        def __reduce__(self):
            return os.system, ("true",)
    torch_save(at("code") + "/a.pt", {"routed_experts": Evil()})
    torch_save(at("beyond-storage") + "/a.pt", {"routed_experts": Tensor("Long", [1] * 8, [2, 2, 2], [100, 2, 1])})
    torch_save(at("absurd-shape") + "/a.pt", {"routed_experts": Tensor("Long", [1] * 8, [1 << 40, 1 << 40, 2], [0, 0, 0])})
    torch_save(at("broadcast") + "/a.pt", {"routed_experts": Tensor("Long", [1] * 8, [1 << 30, 2, 2], [0, 0, 0])})
    torch_save(at("signed-wrap") + "/a.pt", {"routed_experts": Tensor("Char", [[[-56, 1]] * 2])})
    write(at("old-torch") + "/a.pt", b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02")


def wrong_arrays(at):
    ids = wide_npy(rows(0, 9, LAYERS))
    npz(f"{at}/npz-flat/a.npz", ids=wide_npy([0] * 9), seq_len=wide_npy([5, 4]))
    npz(f"{at}/npz-one-layer/a.npz", ids=wide_npy(rows(0, 9, [1])), seq_len=wide_npy([5, 4]))
    npz(f"{at}/npz-two-ids/a.npz", ids=ids, expert_ids=ids)
    npz(f"{at}/npz-weights/a.npz", ids=ids, weights=wide_npy([[0.5, 0.5]] * 9, "f4"))
    npz(f"{at}/npz-lengths/a.npz", ids=ids, seq_len=wide_npy([[5], [4]]))
    npz(f"{at}/npz-negative/a.npz", ids=ids, seq_len=wide_npy([10, -1]))
    npz(f"{at}/npz-twice/a.npz", ids=ids)
    write(f"{at}/npz-twice/ids.npy", ids)
    write(f"{at}/negative-counts/a.npy", wide_npy([[[1] * 7 + [-1]] * 2], "i8"))
    ultraep(f"{at}/profile-layer", records=[(-1, 0), (2, 0)])
    ultraep(f"{at}/profile-axes", loads=[1] * 8)
    ultraep(f"{at}/profile-experts", experts="eight")
    ultraep(f"{at}/profile-lists")
    npz(f"{at}/profile-lists/a.npz", layers=wide_npy([[1], [2]]), microbatches=wide_npy([0, 0], "i8"))
    harmoeny(f"{at}/loads-line")
    write(f"{at}/loads-line/0/moe_layer-0.csv", "iteration,expert distribution\none,\"[1]\"\n")
    harmoeny(f"{at}/loads-name")
    write(f"{at}/loads-name/0/moe_layer-x.csv", "")
    harmoeny(f"{at}/loads-meta")
    write_json(f"{at}/loads-meta/data.json", {"world_size": 2})


def wrong_texts(at):
    row = {"1": [[0, 1]], "2": [[0, 1]]}
    for name, elements in [("element-text", [5]), ("element-layer", [{"x": [[0, 1]]}]), ("element-dense", [{"1": None}]),
                           ("prefill-uneven", [{"1": [[0, 1]], "2": [[0, 1], [1, 2]]}]),
                           ("late-layer", [{"1": [[0, 1]]}, row])]:
        write_json(f"{at}/{name}/a.json", elements)
    line = "0\t1\t\t0.5\t0.5\n"
    write(f"{at}/esft-name/first.txt", line)
    write(f"{at}/esft-twice/expert_weights_1.txt", line)
    write(f"{at}/esft-twice/more_expert_weights_1.txt", line)
    write(f"{at}/esft-sequences/expert_weights_1.txt", line * 2)
    write(f"{at}/esft-sequences/expert_weights_2.txt", line)
    for layer in LAYERS:
        write(f"{at}/gzip-cut/expert_weights_{layer}.txt.gz", gzip.compress((line * 5000).encode(), mtime=0)[:-20])

    def router(name, *tokens):
        write_json(f"{at}/{name}/a.json", {"router_data": [{f"token_{i}": token for i, token in enumerate(tokens)}]})
    chosen = {"selected_experts": [0, 1], "selected_probs": [0.5, 0.5]}
    router("router-layer", {"level_1": chosen})
    router("router-negative", {"layer_1": {"selected_experts": [-1, 1], "selected_probs": [0.5, 0.5]}})
    router("router-new-layer", {"layer_1": chosen, "layer_2": chosen}, {"layer_1": chosen, "layer_3": chosen})
    router("router-probs", {"layer_1": {"selected_experts": [0, 1], "selected_probs": [1]}})
    router("router-empty", {})
    router("router-top-k", {"layer_1": {"selected_experts": [0, 1, 2], "selected_probs": [0.5, 0.5, 0]}})
    steps = [trace_line(step, layer, 0, 0, 5) for step in (3, 2, 1) for layer in LAYERS]
    write(f"{at}/steps-back/router_trace_rank0.jsonl", lines(steps))
    write(f"{at}/several-ranks/router_trace_rank0.jsonl", lines([trace_line(3, 1, 0, 0, 5), trace_line(3, 2, 1, 0, 5)]))
    write_json(f"{at}/prompt-shape/a.json", {"prompt_routed_experts": [[[0, 1]] * 2],
                                             "choices": [{"routed_experts": [[[0, 1]] * 3]}]})
    write_json(f"{at}/routes-axes/a.json", {"choices": [{"routed_experts": base64.b64encode(npy([[0, 1]] * 5)).decode()}]})
    write_json(f"{at}/routes-flat/a.json", {"choices": [{"moe_topk_indices": [[0, 1]] * 5}]})
    write_json(f"{at}/routes-real/a.json", {"choices": [{"moe_topk_indices": [[[0.5, 1]] * 2]}]})
    write(f"{at}/response-number/a.json", "[1]")
    write(f"{at}/response-cut/a.json", '[{"choices": [')
    write(f"{at}/response-list/a.json", "[{} {}]")


def wrong_tensors(at):
    recorder(f"{at}/recorder-axes", [[recorder_record(7, 0, 0, 5, 1, [5], topk_ids_of_layer=Tensor("Int", [[0] * 8] * 5))]])
    recorder(f"{at}/recorder-lengths", [[recorder_record(7, 0, 0, 5, 1, [1 << 40])]])
    torch_save(f"{at}/mask-shape/a.pt", padded("Short", attention_mask=Tensor("Long", [[1] * 6] * 2)))
    torch_save(f"{at}/batch-axes/a.pt", {"routed_experts": Tensor("Long", [[0, 1]] * 5)})
    torch_save(f"{at}/big-endian/a.pt", padded("Short"), byteorder="big")
    os.makedirs(f"{at}/pickle-set")
    with zipfile.ZipFile(f"{at}/pickle-set/a.pt", "w") as archive:
        archive.writestr(zipfile.ZipInfo("archive/data.pkl"), b"\x80\x04\x8f.")
    torch_save(f"{at}/no-storage/a.pt", padded("Short"))
    with zipfile.ZipFile(f"{at}/no-storage/a.pt") as whole:
        pickle = whole.read("archive/data.pkl")
    for name, member, content in [("no-storage", "data.pkl", pickle), ("no-pickle", "version", b"3")]:
        os.makedirs(f"{at}/{name}", exist_ok=True)
        with zipfile.ZipFile(f"{at}/{name}/a.pt", "w") as archive:
            archive.writestr(zipfile.ZipInfo(f"archive/{member}"), content)
    torch_save(f"{at}/slot-map/a.pt", {
        "records": [{"forward_pass_id": 2, "rank": 0, "global_physical_count": Tensor("Int", [[1] * 10] * 3)}],
        "last_physical_to_logical_map": Tensor("Long", [[12] + SLOTS[1:]] * 3)})

    trace_v1(f"{at}/manifest-key", topk="two")
    for name, ranks in [("ranks-real", Tensor("Float", [0.0] * 9)), ("ranks-descend", Tensor("Int", [1] * 5 + [0] * 4)),
                        ("ranks-negative", Tensor("Int", [-1] * 5 + [0] * 4))]:
        trace_v1(f"{at}/{name}")
        torch_save(f"{at}/{name}/layer1/tensors/source_rank.pt", ranks)
    trace_v1(f"{at}/manifests-differ")
    with open(f"{at}/manifests-differ/layer2/manifest.json", encoding="utf-8") as file:
        write_json(f"{at}/manifests-differ/layer2/manifest.json", {**json.load(file), "logical_num_tokens": 8})
    trace_v1(f"{at}/manifest-twice")
    shutil.copytree(f"{at}/manifest-twice/layer1", f"{at}/manifest-twice/layer1-again")


def wrong_safetensors(at):
    def ranks(name, *of_rank):
        write_json(f"{at}/{name}/meta_info.json", {"num_experts": 8, "num_experts_per_token": 2})
        for rank, names in enumerate(of_rank):
            safetensors(f"{at}/{name}/rank{rank}_raw.safetensors", {n: [choice(t, 1) for t in range(3)] for n in names})
    ranks("tensor-name", ["30-1"])
    ranks("iteration-gap", ["30_1", "32_1"])
    ranks("more-layers", ["30_1", "31_1", "31_2"])
    ranks("other-iteration", ["30_1"], ["31_1"])
    ranks("fewer-iterations", ["30_1", "31_1"], ["30_1"])
    ranks("rank-twice", ["30_1"])
    shutil.copyfile(f"{at}/rank-twice/rank0_raw.safetensors", f"{at}/rank-twice/token_selected_experts_rank0.safetensors")
    for name, meta in [("meta-number", {"num_experts_per_token": 2}), ("meta-no-experts", {"num_experts": 0, "num_experts_per_token": 2}),
                       ("meta-no-choice", {"num_experts": 8, "num_experts_per_token": 0})]:
        ranks(name, ["30_1", "30_2"])
        write_json(f"{at}/{name}/meta_info.json", meta)

    def header(name, fields):
        text = json.dumps({"30_1": fields}).encode()
        write(f"{at}/{name}/rank0_raw.safetensors", struct.pack("<Q", len(text)) + text + bytes(8))
    header("tensor-fields", {"shape": [1, 1], "data_offsets": [0, 8]})
    header("tensor-beyond", {"dtype": "I64", "shape": [2, 1], "data_offsets": [0, 16]})
    write(f"{at}/header-cut/rank0_raw.safetensors", b"1234")


if __name__ == "__main__":
    root = sys.argv[1] + "/wrong"
    wrong(root)
    wrong_arrays(root)
    wrong_texts(root)
    wrong_tensors(root)
    wrong_safetensors(root)
