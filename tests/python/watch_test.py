# SPDX-License-Identifier: Apache-2.0
"""The hooks of the Python package, on stand-ins of each engine's interface and on a small model that trains.

usage: watch_test.py MOESIM
"""
import collections
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "scripts/python"), str(ROOT / "scripts")]
try:
    import numpy as np
    from moesim import (Recorder, Trace, TraceError, TraceWriter, save_megatron, watch_huggingface, watch_megatron,
                        watch_sglang, watch_vllm)
except ImportError as error:
    print(f"skipped: no Python package {error.name}")
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

TokensOfSglang = collections.namedtuple("TokensOfSglang", "topk_weights topk_ids router_logits")
Bypassed = collections.namedtuple("Bypassed", "hidden_states router_logits")


class Module:
    """As much of torch.nn.Module as the hooks touch."""

    def __init__(self, **children):
        self.children, self.hooks = children, []
        vars(self).update(children)

    def named_modules(self, prefix=""):
        yield prefix, self
        for name, child in self.children.items():
            if isinstance(child, Module):
                yield from child.named_modules(f"{prefix}.{name}" if prefix else name)

    def register_forward_hook(self, hook):
        self.hooks.append(hook)
        return type("Handle", (), {"remove": lambda _: self.hooks.remove(hook)})()

    def __call__(self, *inputs):
        output = self.forward(*inputs)
        for hook in self.hooks:
            hook(self, inputs, output)
        return output


class TopK(Module):  # as sglang.srt.layers.moe.topk.TopK
    def __init__(self, layer, output):
        super().__init__()
        self.layer_id, self.forward = layer, lambda: output


class Router(Module):  # as vllm's BaseRouter
    def __init__(self):
        super().__init__()
        self.capture_fn = None

    def set_capture_fn(self, function):
        self.capture_fn = function


class Stub(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.path = pathlib.Path(scratch.name) / "trace"
        self.ids = np.random.default_rng(1).random((2, 5, 8)).argsort(2)[:, :, :2]

    def recorder(self, **shape):
        return Recorder(TraceWriter(self.path, **({"experts": 8, "top_k": 2, "layers": [1, 2]} | shape)))

    def recorded(self):
        return Trace(self.path)[0]


class Engines(Stub):
    def test_sglang(self):
        shared = np.full((5, 1), 8)  # a fused shared expert
        output = [TokensOfSglang(np.ones((5, 3)) * (layer + 1) / 4, np.hstack([self.ids[layer], shared]), None)
                  for layer in range(2)]
        model = Module(**{f"layers.{layer + 1}": Module(topk=TopK(layer + 1, output[layer])) for layer in range(2)})
        with self.recorder() as recorder:
            watch = watch_sglang(model, recorder)
            self.assertEqual(watch.layers, [1, 2])
            for layer in (1, 2):
                getattr(model, f"layers.{layer}").topk()
            recorder.step([5])
            watch.unwatch()
        np.testing.assert_array_equal(self.recorded().ids, self.ids)
        np.testing.assert_array_equal(self.recorded().weights[1], np.full((5, 2), 0.5))
        self.assertEqual(getattr(model, "layers.1").topk.hooks, [])

    def test_sglang_that_leaves_the_choice_to_a_kernel(self):
        model = Module(**{f"layers.{layer}": Module(topk=TopK(layer, Bypassed(None, None))) for layer in (1, 2)})
        with self.recorder() as recorder:
            watch_sglang(model, recorder)
            with self.assertRaisesRegex(TraceError, "Bypassed holds no ids"):
                getattr(model, "layers.1").topk()

    def test_vllm_goes_on_calling_what_was_set(self):
        routers, seen = [Router(), Router()], []
        routers[0].set_capture_fn(lambda ids: seen.append(len(ids)))
        model = Module(**{f"model.layers.{layer + 1}.mlp.experts": Module(router=routers[layer]) for layer in range(2)})
        with self.recorder() as recorder:
            watch = watch_vllm(model, recorder)
            for layer in range(2):
                buffer = self.ids[layer].copy()
                routers[layer].capture_fn(buffer)
                buffer[:] = 0  # engines reuse theirs
            recorder.step([2, 3])
            watch.unwatch()
        np.testing.assert_array_equal(self.recorded().ids, self.ids)
        self.assertEqual(seen, [5])
        self.assertIsNone(routers[1].capture_fn)

    def test_a_layer_without_a_router_is_missed_at_once(self):
        with self.recorder(layers=[1, 2, 9]) as recorder, self.assertRaisesRegex(TraceError, r"layers \[9\]"):
            watch_vllm(Module(**{f"layers.{layer}": Module(router=Router()) for layer in (1, 2)}), recorder)


@unittest.skipIf(torch is None, "no PyTorch")
class Models(Stub):
    def layers(self, name, router):
        blocks = [torch.nn.Module() for _ in range(3)]
        for block in blocks[1:]:
            block.mlp = torch.nn.Module()
            setattr(block.mlp, name, router())
        model = torch.nn.Module()
        model.layers = torch.nn.ModuleList(blocks)
        return model, [getattr(block.mlp, name) for block in blocks[1:]]

    def record(self, watch, model, routers, calls):
        with self.recorder() as recorder:
            watch(model, recorder)
            outputs = [[router(inputs) for inputs in calls] for router in routers]
            recorder.step([sum(len(inputs) for inputs in calls)])
        return outputs

    def test_a_linear_gate_chooses_its_best_scores(self):
        model, routers = self.layers("gate", lambda: torch.nn.Linear(4, 8, bias=False))
        scores = self.record(watch_huggingface, model, routers, [torch.randn(3, 4), torch.randn(2, 4)])
        for layer, calls in enumerate(scores):
            best = torch.cat(calls).softmax(-1).topk(2)
            np.testing.assert_array_equal(self.recorded().ids[layer], best.indices)
            np.testing.assert_allclose(self.recorded().weights[layer], best.values.detach(), atol=1e-3)

    def test_routers_that_return_ids_are_taken_at_their_word(self):
        class Gpt(torch.nn.Module):  # (scores of all experts, ids)
            def forward(self, inputs):
                best = inputs.topk(2)
                return torch.zeros(len(inputs), 8).scatter_(1, best.indices, best.values), best.indices

        class DeepSeek(torch.nn.Module):  # (ids, weights), chosen with a bias
            def __init__(self):
                super().__init__()
                self.e_score_correction_bias = torch.arange(8.0)

            def forward(self, inputs):
                ids = (inputs + self.e_score_correction_bias).topk(2).indices
                return ids, inputs.gather(1, ids)

        for kind, name in ((Gpt, "router"), (DeepSeek, "gate")):
            self.path = self.path.with_name(kind.__name__)
            model, routers = self.layers(name, kind)
            inputs = torch.rand(5, 8)
            outputs = self.record(watch_huggingface, model, routers, [inputs])
            ids = next(part for part in outputs[0][0] if part.dtype == torch.int64)
            np.testing.assert_array_equal(self.recorded().ids[0], ids)
            np.testing.assert_allclose(self.recorded().weights[0], inputs.gather(1, ids), atol=1e-3)

    def test_scores_of_a_biased_gate_are_refused(self):
        class Biased(torch.nn.Linear):
            e_score_correction_bias = 1

        model, routers = self.layers("gate", lambda: Biased(4, 8))
        with self.assertRaisesRegex(TraceError, "layers.1.mlp.gate adds a bias"):
            self.record(watch_huggingface, model, routers, [torch.randn(3, 4)])

    def test_megatron(self):
        class TopKRouter(torch.nn.Module):
            def forward(self, inputs):
                chosen = torch.zeros(len(inputs), 8, dtype=torch.bool).scatter_(1, inputs.topk(2).indices, True)
                if self.drops:
                    chosen[0, chosen[0].nonzero()[0]] = False
                return inputs * chosen, chosen

        for drops in (False, True):
            model, routers = self.layers("router", TopKRouter)
            for i, router in enumerate(routers):
                router.layer_number, router.drops = i + 2, drops  # from 1
            inputs = torch.rand(5, 8)
            if drops:
                self.path = self.path.with_name("other")
                with self.assertRaisesRegex(TraceError, "layer 1: a token has not 2 choices"):
                    self.record(watch_megatron, model, routers, [inputs])
                continue
            self.record(watch_megatron, model, routers, [inputs])
            ids = inputs.topk(2).indices.sort(-1).values
            np.testing.assert_array_equal(self.recorded().ids[1], ids)
            np.testing.assert_allclose(self.recorded().weights[1], inputs.gather(1, ids), atol=1e-3)

    def test_a_model_that_trains(self):
        from record.model import MoeLanguageModel
        torch.manual_seed(1)
        model = MoeLanguageModel(64, 16, 2, 32, 2, 32, 8, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        with self.recorder(layers=[0, 1]) as recorder:
            watch_huggingface(model, recorder)
            for _ in range(3):
                logits, balance = model(torch.randint(64, (4, 16)))
                (logits.square().mean() + balance).backward()
                optimizer.step()
                recorder.step([16] * 4)
        trace = Trace(self.path)
        self.assertEqual((len(trace), trace[2].tokens), (3, 64))
        self.assertEqual(trace.loads().sum(), 3 * 2 * 64 * 2)

    def test_a_trace_in_the_form_proposed_for_megatron(self):
        TraceWriter(self.path, experts=8, top_k=2, layers=[1, 2]).append(self.ids, [5])
        folder = self.path.with_name("megatron")
        save_megatron(Trace(self.path), folder, hidden_size=16)
        for layer in (1, 2):
            manifest = json.loads((folder / f"layer-{layer}/manifest.json").read_text(encoding="utf-8"))
            self.assertEqual((manifest["logical_layer_id"], manifest["num_experts"], manifest["topk"]), (layer, 8, 2))
            for name, tensor in manifest["tensors"].items():
                saved = folder / f"layer-{layer}" / tensor["file"]
                self.assertEqual(hashlib.sha256(saved.read_bytes()).hexdigest(), tensor["sha256"])
                self.assertEqual(list(torch.load(saved).shape), tensor["shape"], name)
            gates = torch.load(folder / f"layer-{layer}/tensors/gates.pt")
            np.testing.assert_allclose(gates.sum(1), 1, atol=1e-4)
            np.testing.assert_array_equal(torch.load(folder / f"layer-{layer}/tensors/expert_ids.pt"), self.ids[layer - 1])
        back = self.path.with_name("back")  # by moesim's own reader of .pt
        subprocess.run([MOESIM, "trace", "import", "trace-v1", folder, "-o", back], capture_output=True, check=True)
        np.testing.assert_array_equal(Trace(back)[0].ids, self.ids)


if __name__ == "__main__":
    MOESIM = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=sys.argv[:1])
