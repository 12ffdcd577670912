# SPDX-License-Identifier: Apache-2.0
"""Hooks into the routers of running models. Each `watch_*` returns the layers it found and can be undone by `unwatch()`.

Nothing here imports an engine: routers are recognized by their interface, which the docstrings cite.
"""

import re

from moesim.trace import TraceError


class Watch:
    """The hooks of one model."""

    def __init__(self):
        self.layers, self._undo = [], []

    def add(self, layer, undo):
        self.layers.append(layer)
        self._undo.append(undo)

    def unwatch(self):
        for undo in self._undo:
            undo()
        self._undo = []

    def checked(self, recorder, what):
        """Itself, once all layers of the recorder's trace are watched."""
        self.layers.sort()
        missing = sorted(recorder.layers - set(self.layers))
        if missing:
            self.unwatch()
            raise TraceError(f"found no {what} in layers {missing} of the trace; those found are in layers {self.layers}")
        return self


def layer_of(name):
    """The number after 'layers.', 'blocks.' or 'h.' in a module's name, or None: models number their layers from 0."""
    match = re.search(r"(?:^|\.)(?:layers|blocks|h)\.(\d+)(?:\.|$)", name)
    return int(match[1]) if match else None


def is_tensor(value):
    return hasattr(value, "shape") and hasattr(value, "dtype")


def is_integer(tensor):
    name = str(tensor.dtype)
    return "int" in name and "point" not in name


def split_output(output, top_k):
    """(ids, weights) of what a router of Hugging Face returned, weights possibly None; None where it returned neither ids
    nor scores of all experts."""
    parts = [part for part in (output if isinstance(output, (tuple, list)) else [output]) if is_tensor(part)]
    ids = next((part for part in parts if is_integer(part) and part.shape[-1] == top_k), None)
    if ids is not None:
        ids = ids.reshape(-1, top_k)
        others = [part for part in parts if part is not ids and not is_integer(part) and len(part.shape) > 1]
        same = next((part for part in others if part.shape[-1] == top_k), None)
        if same is not None:
            return ids, same.reshape(-1, top_k)
        scores = next(iter(others), None)  # [tokens][experts], zero where not chosen
        return ids, scores.reshape(-1, scores.shape[-1]).gather(-1, ids.long()) if scores is not None else None
    scores = next((part for part in parts if not is_integer(part)), None)
    if scores is None:
        return None
    best = scores.reshape(-1, scores.shape[-1]).float().softmax(-1).topk(top_k, -1)
    return best.indices, best.values


def watch_huggingface(model, recorder):
    """Watches the routers of a model of transformers: modules named `gate` or `router` inside a layer.

    Routers that return ids (DeepSeek-V3, GPT-OSS, and 5.x in general) are taken at their word. Of a linear gate, as Mixtral,
    OLMoE and Qwen-MoE of 4.x have, the top-k of its scores is the choice, with softmax weights. Throws TraceError where a
    gate has a selection bias and returns only scores: the top-k of those is not what it chose."""
    watch, top_k = Watch(), recorder.writer.header["top_k"]
    for name, module in model.named_modules():
        layer = layer_of(name)
        if layer is None or name.rsplit(".", 1)[-1] not in ("gate", "router") or layer in watch.layers:
            continue
        biased = any(hasattr(module, bias) for bias in ("e_score_correction_bias", "expert_bias"))

        def hook(_module, _inputs, output, layer=layer, name=name, biased=biased):
            if not recorder.on:
                return
            parts = output if isinstance(output, (tuple, list)) else [output]
            if biased and not any(is_tensor(part) and is_integer(part) for part in parts):
                raise TraceError(f"{name} adds a bias to choose experts and returns only scores")
            chosen = split_output(output, top_k)
            if chosen is None:
                raise TraceError(f"{name} returned neither ids nor scores")
            recorder.choose(layer, *chosen)

        watch.add(layer, module.register_forward_hook(hook).remove)
    return watch.checked(recorder, "router (a module named gate or router)")


def watch_megatron(model, recorder):
    """Watches the `TopKRouter` of Megatron-Core, whose forward returns (probs, routing_map), both [tokens][experts]
    (megatron/core/transformer/moe/router.py). Layers are `layer_number` - 1; each pipeline stage records its own.

    Choices come in ascending order, with their probabilities. Throws TraceError for tokens that were dropped (a capacity
    factor), which have fewer than top-k choices. Passes that are recomputed would be recorded twice: leave
    `--recompute-modules moe` out while recording."""
    watch, top_k = Watch(), recorder.writer.header["top_k"]
    for name, module in model.named_modules():
        if type(module).__name__ != "TopKRouter":
            continue
        number = getattr(module, "layer_number", None)
        layer = layer_of(name) if number is None else int(number) - 1

        def hook(module, _inputs, output, layer=layer):
            if not recorder.on or not getattr(module, "training", True):
                return
            probabilities, chosen = output[0], output[1].bool()
            if not bool((chosen.sum(-1) == top_k).all()):
                raise TraceError(f"layer {layer}: a token has not {top_k} choices; record without a capacity factor")
            ids = chosen.nonzero()[:, 1].reshape(-1, top_k)
            recorder.choose(layer, ids, probabilities.gather(-1, ids))

        watch.add(layer, module.register_forward_hook(hook).remove)
    return watch.checked(recorder, "TopKRouter")


def watch_sglang(model, recorder):
    """Watches the `TopK` modules of SGLang, whose output has topk_ids and topk_weights, both [tokens][top_k]
    (python/sglang/srt/layers/moe/topk.py). Columns of fused shared experts are cut off.

    With redundant experts SGLang returns slots, which the writer refuses as ids beyond the experts: record without them, or
    import SGLang's own recordings. Outputs that leave the choice to a kernel (BypassedTopKOutput) are refused, too."""
    watch, top_k = Watch(), recorder.writer.header["top_k"]
    for name, module in model.named_modules():
        if type(module).__name__ != "TopK":
            continue
        layer = getattr(module, "layer_id", None)
        layer = layer_of(name) if layer is None else int(layer)

        def hook(_module, _inputs, output, layer=layer):
            if not recorder.on:
                return
            if not hasattr(output, "topk_ids"):
                raise TraceError(f"layer {layer}: {type(output).__name__} holds no ids; choose a MoE runner that routes first")
            recorder.choose(layer, output.topk_ids[:, :top_k], output.topk_weights[:, :top_k])

        watch.add(layer, module.register_forward_hook(hook).remove)
    return watch.checked(recorder, "TopK module")


def watch_vllm(model, recorder):
    """Watches the routers of vLLM's fused MoE layers by `set_capture_fn`, which hands over logical ids [tokens][top_k]
    (vllm/model_executor/layers/fused_moe/router/base_router.py). There are no weights. A function that vLLM itself set
    (`--enable-return-routed-experts`) is still called. Run with `enforce_eager`: a CUDA graph calls no Python."""
    watch = Watch()
    for name, module in model.named_modules():
        router = getattr(module, "router", None)
        layer = layer_of(name)
        if layer is None or not hasattr(router, "set_capture_fn") or layer in watch.layers:
            continue
        before = getattr(router, "capture_fn", None)

        def capture(ids, layer=layer, before=before):
            if before is not None:
                before(ids)
            if recorder.on:
                recorder.choose(layer, ids.clone() if hasattr(ids, "clone") else ids.copy())

        router.set_capture_fn(capture)
        watch.add(layer, lambda router=router, before=before: router.set_capture_fn(before))
    return watch.checked(recorder, "router with set_capture_fn")
