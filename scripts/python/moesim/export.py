# SPDX-License-Identifier: Apache-2.0
"""Traces in the forms of others: .npz, CSV and Megatron-LM's routing trace v1."""

import csv
import hashlib
import json
import os

import numpy as np


def save_npz(trace, path, index=0):
    """One step as `moesim trace import npz` and the Python of others read it: ids [tokens][layers][top_k],
    sequence_lengths, weights where recorded, layers."""
    step = trace[index]
    arrays = {"ids": np.moveaxis(np.asarray(step.ids), 0, 1), "sequence_lengths": step.sequence_lengths,
              "layers": np.asarray(trace.layers)}
    if step.weights is not None:
        arrays["weights"] = np.moveaxis(np.asarray(step.weights), 0, 1)
    temporary = f"{os.fspath(path)}.tmp"
    with open(temporary, "wb") as file:
        np.savez_compressed(file, **arrays)
    os.replace(temporary, path)


def save_csv(trace, path):
    """Tokens per expert: a line `step,layer,expert,tokens` for each, all steps; `step` is the recorded number."""
    temporary = f"{os.fspath(path)}.tmp"
    with open(temporary, "w", encoding="utf-8", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["step", "layer", "expert", "tokens"])
        for number, loads in zip(trace.numbers, trace.loads()):
            for layer, counts in zip(trace.layers, loads):
                lines.writerows([number, layer, expert, int(tokens)] for expert, tokens in enumerate(counts))
    os.replace(temporary, path)


def save_megatron(trace, folder, *, hidden_size, index=0, seed=0):
    """One step as routing trace v1 (proposed for Megatron-LM, pull request 7488): a folder per layer, with manifest.json and
    tensors/*.pt. Needs PyTorch. gates are equal where no weights were recorded, and sum to 1; `token_ids` equals
    `expert_ids`, as the proposal's own code has it."""
    import torch

    step, ranks = trace[index], trace[index].source_ranks
    ranks = np.zeros(step.tokens, np.int32) if ranks is None else np.asarray(ranks, np.int32)
    for i, layer in enumerate(trace.layers):
        gates = np.ones((step.tokens, trace.top_k)) if step.weights is None else np.asarray(step.weights[i], np.float64)
        gates = gates / gates.sum(1, keepdims=True)
        ids = torch.from_numpy(np.asarray(step.ids[i], np.int64))
        tensors = {"token_ids": ids, "gates": torch.from_numpy(gates.astype(np.float32)), "source_rank": torch.from_numpy(ranks),
                   "expert_ids": ids}
        place = os.path.join(os.fspath(folder), f"layer-{layer}")
        os.makedirs(os.path.join(place, "tensors"))
        described = {}
        for name, tensor in tensors.items():
            file = os.path.join("tensors", f"{name}.pt")
            torch.save(tensor, os.path.join(place, file))
            with open(os.path.join(place, file), "rb") as saved:
                digest = hashlib.sha256(saved.read()).hexdigest()
            described[name] = {"file": file, "sha256": digest, "shape": list(tensor.shape),
                               "dtype": str(tensor.dtype).removeprefix("torch.")}
        manifest = {"schema_version": 1, "producer_commit": "", "seed": seed, "logical_layer_id": layer, "step_id": step.number,
                    "microbatch_id": 0, "logical_num_tokens": step.tokens, "num_experts": trace.experts, "topk": trace.top_k,
                    "hidden_size": hidden_size, "world_size": int(ranks.max()) + 1,
                    "original_partition": "rank-major, contiguous per source rank", "workload_id": trace.name,
                    "workload_checksum": hashlib.sha256(np.ascontiguousarray(step.ids[i]).tobytes()).hexdigest(),
                    "tensors": described, "extra": {}}
        with open(os.path.join(place, "manifest.json"), "w", encoding="utf-8") as file:
            json.dump(manifest, file, indent=2)
