# SPDX-License-Identifier: Apache-2.0
"""Placements and rank costs read back as the engines read them.

usage: readers_test.py MOESIM
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).parents[2]
RANKS, EXPERTS = 16, 32
FLAGS = ["--topology", "h100-rail", "--set", "topology.nodes=2", "--model", "gpt-oss-20b", "--trace", "traces/tiny-moe-train",
         "--repeat", "32"]
PAIR = """
nodes: 3
node:
  gpu: h100-sxm
  gpus: 1
  pcie: {bandwidth: 64 GB/s, latency: 0 us}
  nics: {count: 1, bandwidth: 1 GB/s, latency: 1 us}
fabric: {kind: rail, cross_rail: spine, spines: 1, latency: 0 us}
exchange_overhead: 50 us
"""


def moesim(*words):
    return subprocess.run([MOESIM, *words], cwd=ROOT, capture_output=True, text=True, check=True,
                          env=os.environ | {"MOESIM_DATA": str(ROOT)}).stdout


def placement(policy, form, layers="recorded"):
    return moesim("export", "placement", *FLAGS, "--layers", layers, "--policy", policy, "--format", form)


def trtllm_slots(text):
    """As TensorRT-LLM's load_balancer: assignments by layer, num_slots divided by the ranks."""
    slots = int(re.search(r"^num_slots: (\d+)$", text, re.M)[1])
    layers = {int(layer): [int(expert) for expert in experts.split(", ")]
              for layer, experts in re.findall(r"^  (\d+): \[(.*)\]$", text, re.M)}
    assert slots % RANKS == 0 and all(len(experts) == slots for experts in layers.values())
    return layers


class Placements(unittest.TestCase):
    def test_engines_read_one_placement(self):
        trtllm = trtllm_slots(placement("eplb", "trtllm"))
        sglang = np.array(json.loads(placement("eplb", "sglang"))["physical_to_logical_map"])
        maps = {name: np.array(value) for name, value in json.loads(placement("eplb", "eplb")).items()}
        self.assertEqual(list(trtllm), maps["layers"].tolist())
        self.assertEqual(sglang.shape, (24, 48))                # [model layers][slots], slot s on rank s / 3
        for row, (layer, slots) in enumerate(trtllm.items()):
            self.assertEqual(set(slots), set(range(EXPERTS)))    # every expert has a slot
            np.testing.assert_array_equal(sglang[layer], slots)
            np.testing.assert_array_equal(maps["phy2log"][row], slots)
            np.testing.assert_array_equal(maps["logcnt"][row], np.bincount(slots, minlength=EXPERTS))
            for expert, replicas in enumerate(maps["log2phy"][row]):  # what a router looks up
                self.assertEqual({slots[slot] for slot in replicas if slot >= 0}, {expert})
        self.assertTrue(any(len(set(slots)) < len(slots) for slots in trtllm.values()))

    def test_vllm_reads_a_rank_per_expert(self):
        ranks = json.loads(placement("alltoall", "vllm"))["expert_to_ep_rank"]
        self.assertEqual(ranks, [expert // (EXPERTS // RANKS) for expert in range(EXPERTS)])
        moved = json.loads(placement("static-best", "vllm", "3"))["expert_to_ep_rank"]
        self.assertEqual(np.bincount(moved, minlength=RANKS).tolist(), [EXPERTS // RANKS] * RANKS)
        self.assertNotEqual(moved, ranks)
        slots = trtllm_slots(placement("static-best", "trtllm", "3"))[3]
        self.assertEqual([slots.index(expert) * RANKS // EXPERTS for expert in range(EXPERTS)], moved)


GIVEN = """name: given
source: test
routing: identity
placement: {{kind: given, file: {file}, replicas: {replicas}}}
dispatch: alltoall
schedule: sequential
transport: ideal
"""
BASE = "name: {kind}\nsource: test\nrouting: identity\nplacement: {{kind: {kind}{more}}}\ndispatch: alltoall\n" \
       "schedule: sequential\ntransport: ideal\n"


class ReadBack(unittest.TestCase):
    """An exported placement that is read back gives the times of the policy that it came from."""

    def same_times(self, kind, more, replicas, form, *flags):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            made, given, file = folder / "made.yaml", folder / "given.yaml", folder / f"placement.{form}.json"
            made.write_text(BASE.format(kind=kind, more=more), encoding="utf-8")
            given.write_text(GIVEN.format(file=file.name, replicas=replicas), encoding="utf-8")
            # nothing moves in the step that is compared, the only one that is written
            flags = [*FLAGS, *(flags or ["--layers", "recorded"]), "--steps", "6", "--warmup", "6"]
            moesim("export", "placement", *flags, "--policy", str(made), "--format", form, "-o", str(file))
            moesim("compare", *flags, "--policy", f"{made},{given}", "--json", str(folder / "result.json"))
            first, second = json.loads((folder / "result.json").read_text(encoding="utf-8"))["cases"]
        self.assertEqual(first["migrated_bytes"] if "migrated_bytes" in first else 0, 0)
        differing = {key for key in first if first[key] != second.get(key)} - {"policy", "planning", "notes", "replans"}
        self.assertEqual(differing, set())

    def test_eplb_in_three_formats(self):
        for form in ("trtllm", "sglang", "eplb"):
            with self.subTest(form):
                self.same_times("eplb", ", interval: 1000", "any", form)

    def test_rules_of_the_engines(self):
        self.same_times("sglang", ", interval: 2, layers_per_chunk: 0, threshold: 1", "sglang-static", "sglang")
        self.same_times("vllm", ", interval: 4, window: 4", "vllm", "eplb")
        self.same_times("eplb", ", interval: 1000, replicas: node-first", "node-first", "trtllm")

    def test_a_rank_per_expert(self):
        # Without copies the optimizer state of an expert is where its weights are.
        for only in ([], ["--pass", "forward"]):
            self.same_times("static-best", "", "any", "vllm", "--layers", "3", *only)

    def held_and_given(self, policy, replicas):
        """How many formats hold a shipped policy's placement; each read back gives the times of the policy itself."""
        text = re.sub(r" *#.*", "", (ROOT / f"models/system/{policy}.yaml").read_text(encoding="utf-8"))
        flags = [*FLAGS, "--layers", "recorded", "--steps", "6", "--warmup", "6"]
        with tempfile.TemporaryDirectory() as name:
            folder, policies = pathlib.Path(name), [policy]
            for form in ("trtllm", "sglang", "vllm", "eplb"):
                try:
                    moesim("export", "placement", *flags, "--policy", policy, "--format", form, "-o", str(folder / form))
                except subprocess.CalledProcessError as refused:
                    self.assertRegex(refused.stderr, "same number of slots|replicas|one rank per expert|differ")
                    continue
                given = f"placement: {{kind: given, file: {form}, replicas: {replicas}}}\n"
                made = re.sub(r"^placement:.*\n(?: +.*\n)*", given, text, flags=re.M)
                policies.append(str(folder / f"{form}.yaml"))
                pathlib.Path(policies[-1]).write_text(re.sub(r"^name: .*", f"name: from-{form}", made, flags=re.M), encoding="utf-8")
            moesim("compare", *flags, "--policy", ",".join(policies), "--json", str(folder / "result.json"))
            first, *others = json.loads((folder / "result.json").read_text(encoding="utf-8"))["cases"]
        for other in others:
            for figure in ("step_s_each", "breakdown"):
                self.assertEqual(first[figure], other[figure], f"{policy}, {other['policy']}")
        return len(others)

    def test_shipped_policies(self):
        held = {policy: self.held_and_given(policy, replicas) for policy, replicas in {
            "alltoall": "any", "deepep-normal": "any", "hiermoe-hd": "any", "hybridep-exact": "node-first", "exflow": "any",
            "clairvoyant": "any", "smartmoe": "any", "eplb": "any", "sglang-eplb": "sglang-static", "vllm-eplb": "vllm"}.items()}
        self.assertEqual(sorted(set(held.values())), [3, 4], held)  # vLLM's has no copies, and one list for all layers


DRAFTS = """
topology: h100-rail
model: deepseek-v3
policy: [{policies}]
trace: trace
layers: recorded
routing: recorded
parallel: {{tp: 1, ep: 16}}
serving: {{batch: {{context: 1024, sequences: 8}}, drafts: 1, accepted: 0.8}}
set: [topology.nodes=2]
"""


class LayersOfMtp(unittest.TestCase):
    """DeepSeek-V3 has 61 layers, 58 of them with experts, and one of multi-token prediction behind them."""

    def test_are_where_a_format_has_them(self):
        with tempfile.TemporaryDirectory() as name:
            folder, scenario = pathlib.Path(name), pathlib.Path(name) / "scenario.yaml"
            moesim("trace", "synth", "-o", str(folder / "trace"), "--experts", "256", "--top-k", "8", "--layers", "1",
                   "--tokens", "4096", "--sequences", "64", "--steps", "1", "--skew", "0.4", "--seed", "1")
            (folder / "made.yaml").write_text(BASE.format(kind="eplb", more=""), encoding="utf-8")
            scenario.write_text(DRAFTS.format(policies="./made.yaml"), encoding="utf-8")
            for form in ("trtllm", "sglang", "eplb"):
                moesim("export", "placement", str(scenario), "--memory", "ignore", "--format", form, "-o", str(folder / form))
                given = GIVEN.format(file=form, replicas="any").replace("name: given", f"name: from-{form}")
                (folder / f"from-{form}.yaml").write_text(given, encoding="utf-8")
            self.assertEqual(list(trtllm_slots((folder / "trtllm").read_text(encoding="utf-8"))), list(range(3, 62)))
            self.assertEqual(len(json.loads((folder / "sglang").read_text(encoding="utf-8"))["physical_to_logical_map"]), 61)
            policies = "./made.yaml, ./from-trtllm.yaml, ./from-eplb.yaml, ./from-sglang.yaml"
            scenario.write_text(DRAFTS.format(policies=policies), encoding="utf-8")
            moesim("compare", str(scenario), "--memory", "ignore", "--json", str(folder / "result.json"))
            made, *numbered, sglang = json.loads((folder / "result.json").read_text(encoding="utf-8"))["cases"]
        for case in numbered:
            self.assertEqual(case["step_s"], made["step_s"])
            self.assertEqual(case["notes"], [])
        self.assertIn("has MTP layer 61 where 'contiguous' has it", sglang["notes"][0])


class RankCosts(unittest.TestCase):
    def costs(self, *words):
        matrix = np.array(json.loads(moesim("export", "rank-costs", *words))["rank_cost_matrix"], float)
        # what the reader asks for: square, finite, not negative, zero on the diagonal
        self.assertEqual(matrix.shape[0], matrix.shape[1])
        self.assertTrue(np.isfinite(matrix).all() and (matrix >= 0).all() and (np.diagonal(matrix) == 0).all())
        return matrix

    def test_a_message_takes_latency_and_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "pair.yaml"
            path.write_text(PAIR, encoding="utf-8")
            expected = 1002 * (1 - np.eye(3))  # us: 1 MB at 1 GB/s and two NICs of 1 us
            np.testing.assert_allclose(self.costs(str(path)), expected, rtol=1e-9)
            np.testing.assert_allclose(self.costs(str(path), "--size", "1 kB"), 3 * (1 - np.eye(3)), rtol=1e-9)

    def test_nearer_ranks_cost_less(self):
        costs = self.costs("h100-rail", "--set", "nodes=2")
        self.assertEqual(costs.shape, (16, 16))
        np.testing.assert_array_equal(costs, costs.T)
        self.assertLess(costs[:8, :8].max(), costs[:8, 8:].min())
        self.assertLessEqual(costs[0, 8], costs[0, 9])  # one rail


if __name__ == "__main__":
    MOESIM = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=sys.argv[:1])
