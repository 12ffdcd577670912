#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the same small routing in every format that moesim imports, by the layouts that the formats' sources document.

formats.py FOLDER: FOLDER/<kind>/... holds sound files; wrong_formats.py writes what an importer must refuse.
The model has 3 layers, the first dense, 8 experts, top-2; sequences of 5 and 4 tokens. Standard library only: torch's
classes are stand-ins of the same names, which pickle writes only by name.
"""
import base64
import collections
import json
import os
import pickle
import struct
import sys
import types
import zipfile

EXPERTS, TOP_K, LAYERS, LENGTHS = 8, 2, [1, 2], [5, 4]


def choice(token, layer):
    first = (3 * token + 5 * layer) % EXPERTS
    return [first, (first + 1 + token % 3) % EXPERTS]


def rows(first, count, layers):
    """[token][layer][choice]; dense layers are rows of zeros."""
    return [[choice(t, l) if l in LAYERS else [0] * TOP_K for l in layers] for t in range(first, first + count)]


def flat(nested):
    return [x for item in nested for x in flat(item)] if isinstance(nested, list) else [nested]


def shape_of(nested):
    return [len(nested)] + shape_of(nested[0]) if isinstance(nested, list) else []


# torch.save -----------------------------------------------------------------------------------------------------------

torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
sys.modules.update({"torch": torch, "torch._utils": utils})
CODES = {"Long": "q", "Int": "i", "Short": "h", "Char": "b", "Byte": "B", "Float": "f", "BFloat16": "H", "Bool": "?"}


def named(module, name, thing):
    thing.__module__, thing.__qualname__, thing.__name__ = module.__name__, name, name
    setattr(module, name, thing)
    return thing


STORAGES = {kind: named(torch, f"{kind}Storage", type(f"{kind}Storage", (), {})) for kind in CODES}
rebuild = named(utils, "_rebuild_tensor_v2", lambda *_: None)


class Storage:
    def __init__(self, kind, values):
        self.kind, self.data, self.count = kind, struct.pack(f"<{len(values)}{CODES[kind]}", *values), len(values)


class Tensor:
    def __init__(self, kind, nested, shape=None, strides=None, storage=None, first=0):
        self.storage = storage or Storage(kind, flat(nested))
        self.shape, self.first = shape or shape_of(nested), first
        steps = [1]
        for n in reversed(self.shape[1:]):
            steps.insert(0, steps[0] * n)
        self.strides = strides or steps

    def __reduce__(self):
        return rebuild, (self.storage, self.first, tuple(self.shape), tuple(self.strides), False, collections.OrderedDict())


def torch_save(path, value, protocol=2, byteorder="little"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    storages = []

    class Pickler(pickle.Pickler):
        def persistent_id(self, obj):
            if not isinstance(obj, Storage):
                return None
            if obj not in storages:
                storages.append(obj)
            return "storage", STORAGES[obj.kind], str(storages.index(obj)), "cpu", obj.count

    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        with archive.open(zipfile.ZipInfo("archive/data.pkl"), "w") as file:
            Pickler(file, protocol=protocol).dump(value)
        archive.writestr(zipfile.ZipInfo("archive/byteorder"), byteorder)
        for i, storage in enumerate(storages):
            archive.writestr(zipfile.ZipInfo(f"archive/data/{i}"), storage.data)


def safetensors(path, tensors):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, nested in tensors.items():
        part = struct.pack(f"<{len(flat(nested))}q", *flat(nested))
        header[name] = {"dtype": "I64", "shape": shape_of(nested), "data_offsets": [len(data), len(data) + len(part)]}
        data += part
    text = json.dumps(header).encode()
    write(path, struct.pack("<Q", len(text)) + text + data)


def npy(nested, code="u1"):
    header = f"{{'descr': '|{code}', 'fortran_order': False, 'shape': {tuple(shape_of(nested))}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + bytes(flat(nested))


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content if isinstance(content, bytes) else content.encode())


def write_json(path, value):
    write(path, json.dumps(value))


def lines(values):
    return "".join(json.dumps(v) + "\n" for v in values)


# One function per kind; `change` makes it wrong ------------------------------------------------------------------------

SLOTS = [0, 1, 2, 3, 4, 5, 6, 7, 3, 0]  # expert of each of 10 slots


def recorder_record(number, rank, first, count, mode, extend, **change):
    """Choices as slots: of experts with two, odd tokens take the second; 8 columns, -1 where unused."""
    def slot(expert, token):
        return {0: 9, 3: 8}.get(expert, expert) if token % 2 else expert
    ids = [[[slot(e, t) for e in choice(t, l)] + [-1] * 6 if l in LAYERS else [-1] * 8 for t in range(first, first + count)]
           for l in range(3)]
    record = {"forward_pass_id": number, "rank": rank, "gatherer_key": "primary", "forward_mode": mode,
              "input_ids": list(range(first, first + count)), "positions": list(range(count)), "extend_seq_lens": extend,
              "topk_ids_of_layer": Tensor("Int", ids), "global_physical_count": Tensor("Int", [[0] * 10] * 3),
              "misc_objects": []}
    return {**record, **change}


def recorder(folder, of_rank, **change):
    for rank, records in enumerate(of_rank):
        torch_save(f"{folder}/expert_distribution_recorder_17_{rank}.pt",
                   {"records": records, "last_physical_to_logical_map": Tensor("Long", [SLOTS] * 3), **change})


def sglang_recorder(folder):
    draft = recorder_record(7, 0, 0, 3, 1, [3], gatherer_key="draft")
    recorder(folder, [[recorder_record(7, 0, 0, 5, 1, [5]), draft, recorder_record(8, 0, 0, 5, 4, None)],
                      [recorder_record(7, 1, 5, 4, 1, [4])]])


def int32(nested):
    return base64.b64encode(struct.pack(f"<{len(flat(nested))}i", *flat(nested))).decode()


def sglang_routes(folder):
    uint8 = base64.b64encode(bytes(flat(rows(5, 4, range(3))))).decode()
    write(f"{folder}/responses.jsonl", lines([
        {"text": "a", "meta_info": {"id": "x", "routed_experts": int32(rows(0, 5, range(3)))}},
        {"choices": [{"index": 0, "sglext": {"routed_experts": uint8, "routed_experts_dtype": "uint8"}}]}]))


def vllm_routes(folder):
    write(f"{folder}/a.jsonl", lines([
        {"prompt_routed_experts": [[[-1, -1]] * 2] + rows(0, 3, LAYERS), "choices": [{"routed_experts": rows(3, 2, LAYERS)}]}]))
    write_json(f"{folder}/b.json", {"choices": [
        {"routed_experts": base64.b64encode(npy(rows(5, 4, range(3)))).decode()}]})


def megatron_routes(folder):
    write_json(f"{folder}/a.json", [{"choices": [{"moe_topk_indices": rows(0, 5, LAYERS)}]},
                                    {"choices": [{"moe_topk_indices": rows(5, 4, LAYERS)}]}])


def trtllm(folder, experts=EXPERTS, skip=()):
    write_json(f"{folder}/meta_info.json", {"num_experts": experts, "num_experts_per_token": TOP_K})
    for rank, (first, count) in enumerate([(0, 5), (5, 4)]):
        safetensors(f"{folder}/rank{rank}_raw.safetensors",
                    {f"30_{l}": [choice(t, l) for t in range(first, first + count)] for l in LAYERS if (rank, l) not in skip})


def trace_line(step, layer, rank, first, count, **change):
    return {"step": step, "stage": "pre_dispatch", "block": "decoder", "layer": layer, "rank": rank, "num_tokens": count,
            "topk": TOP_K, "top_indices": [sorted(choice(t, layer)) for t in range(first, first + count)], **change}


def megatron_trace(folder):
    for rank, (first, count) in enumerate([(0, 5), (5, 4)]):
        write(f"{folder}/router_trace_rank{rank}.jsonl", lines(
            [trace_line(3, l, rank, first, count) for l in LAYERS] +
            [trace_line(3, l, rank, first, count) for l in LAYERS] +  # recomputed
            [trace_line(3, 2, rank, first, count, block="mtp", mtp_idx=0)]))


def trace_v1(folder, **change):
    for layer in LAYERS:
        at = f"{folder}/layer{layer}"
        ids = [choice(t, layer) for t in range(9)]
        write_json(f"{at}/manifest.json", {"schema_version": 1, "logical_layer_id": layer, "step_id": 4, "microbatch_id": 0,
                                           "logical_num_tokens": 9, "num_experts": EXPERTS, "topk": TOP_K, "tensors": {}, **change})
        torch_save(f"{at}/tensors/token_ids.pt", Tensor("Long", ids))
        torch_save(f"{at}/tensors/expert_ids.pt", Tensor("Long", ids))
        torch_save(f"{at}/tensors/source_rank.pt", Tensor("Int", [0] * 5 + [1] * 4))


def router_lists(folder):
    # Two columns of a wider buffer, so that rows are not dense.
    for step, (first, count) in enumerate([(0, 5), (5, 4)]):
        wide = [Storage("Short", flat([choice(t, l) + [7] for t in range(first, first + count)])) for l in LAYERS]
        torch_save(f"{folder}/step{step}.pt", [Tensor("Short", None, [count, 2], [3, 1], s) for s in wide])


def padded(kind, **change):
    """Sequences of 6 columns; the last token of each has no routes; prompts are padded on the left."""
    batch, mask, first = [], [], 0
    for n in LENGTHS:
        pad = 7 - n - 1
        batch.append([[[0, 0]] * 2] * pad + rows(first, n, LAYERS) + [[[0, 0]] * 2])
        mask.append([0] * pad + [1] * (n + 1))
        first += n
    return {"routed_experts": Tensor(kind, batch), "attention_mask": Tensor("Long", mask), **change}


def verl(folder):
    torch_save(f"{folder}/batch.pt", padded("Short"))


def nemo_rl(folder):
    for i, (first, count) in enumerate([(0, 5), (5, 4)]):
        torch_save(f"{folder}/sample{i}.pt", {"routed_experts": Tensor("Char", rows(first, count, LAYERS) + [[[-1, -1]] * 2])})


def pickles(folder):
    """What NeMo-RL saves among things that nobody asks for, by two protocols; of many names memos are long."""
    beside = {"flag": True, "other": False, "none": None, "scale": 0.5, "count": 300, "large": 1 << 40,
              "names": [f"name {i}" for i in range(300)] * 2, "pair": (1, "two")}
    for protocol in (2, 4):
        for i, (first, count) in enumerate([(0, 5), (5, 4)]):
            torch_save(f"{folder}/protocol{protocol}/sample{i}.pt",
                       {**beside, "routed_experts": Tensor("Char", rows(first, count, LAYERS) + [[[-1, -1]] * 2])}, protocol)


def logits(token, layer):
    """Equal logits go to the lowest expert; bfloat16 holds them exactly."""
    order = choice(token, layer)
    value = {order[0]: 2.0, order[1]: 1.0}
    return [struct.unpack("<I", struct.pack("<f", value.get(e, -1.0)))[0] >> 16 for e in range(EXPERTS)]


def hf_logits(folder):
    tokens = [[0, 1, 2, 3, 4], [5, 6, 7, 8, 8]]
    per_layer = tuple(Tensor("BFloat16", [logits(t, l) for row in tokens for t in row]) for l in LAYERS)
    torch_save(f"{folder}/out.pt", {"router_logits": per_layer, "attention_mask": Tensor("Long", [[1] * 5, [1] * 4 + [0]])})


def core12345(folder):
    for name, first, prompt, count in [("a", 0, 3, 5), ("b", 5, 4, 4)]:
        def element(begin, n):
            return {"0": None, **{str(l): [choice(t, l) for t in range(begin, begin + n)] for l in LAYERS}}
        write_json(f"{folder}/{name}.json", [element(first, prompt)] + [element(t, 1) for t in range(first + prompt, first + count)])


def counts_of(first, count, layer):
    return [sum(e in choice(t, layer) for t in range(first, first + count)) if layer in LAYERS else 0 for e in range(EXPERTS)]


def sglang_counts(folder):
    def slots(first, count, layer):  # the second slot of 0 and 3 unused
        return counts_of(first, count, layer) + [0, 0]
    for rank, (first, count) in enumerate([(0, 5), (5, 4)]):
        torch_save(f"{folder}/expert_distribution_recorder_17_{rank}.pt", {
            "records": [{"forward_pass_id": 2, "rank": rank, "gatherer_key": "primary",
                         "global_physical_count": Tensor("Int", [slots(first, count, l) for l in range(3)])}],
            "last_physical_to_logical_map": Tensor("Long", [SLOTS] * 3)})


def sglang_stat(folder):
    torch_save(f"{folder}/a.pt", {"rank": 0, "average_utilization_rate_over_window": None, "logical_count": Tensor(
        "Int", [[counts_of(0, 9, l) for l in range(3)], [[0] * EXPERTS] * 3])})


def trtllm_counts(folder):
    write_json(f"{folder}/meta_info.json", {"num_experts": EXPERTS, "num_experts_per_token": TOP_K})
    for rank, (first, count) in enumerate([(0, 5), (5, 4)]):
        safetensors(f"{folder}/rank{rank}.safetensors", {f"30_{l}": counts_of(first, count, l) for l in LAYERS})


KINDS = [pickles, sglang_recorder, sglang_routes, vllm_routes, megatron_routes, trtllm, megatron_trace, trace_v1, router_lists, verl, nemo_rl,
         hf_logits, core12345, sglang_counts, sglang_stat, trtllm_counts]


if __name__ == "__main__":
    for kind in KINDS:
        kind(f"{sys.argv[1]}/{kind.__name__.replace('_', '-')}")
