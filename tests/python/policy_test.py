# SPDX-License-Identifier: Apache-2.0
"""Policies of one's own: EPLB in Python as the page has it, and programs that hang, crash, flood or lie.

usage: policy_test.py MOESIM
"""
import io
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts/python"))
FLAGS = ["--topology", "h100-rail", "--set", "topology.nodes=2", "--model", "gpt-oss-20b", "--trace",
         str(ROOT / "traces/tiny-moe-train"), "--layers", "recorded", "--repeat", "32", "--steps", "0:4"]
REST = {"source": "test", "routing": "identity", "dispatch": "alltoall", "schedule": "sequential", "transport": "ideal"}


def policy(folder, name, **parts):
    path = pathlib.Path(folder) / f"{name}.yaml"
    path.write_text(json.dumps({"name": name, **REST, **parts}), encoding="utf-8")
    return str(path)


def run_moesim(*words):
    return subprocess.run([MOESIM, *words], cwd=ROOT, capture_output=True, text=True, check=False,
                          env=os.environ | {"MOESIM_DATA": str(ROOT), "PYTHONPATH": str(ROOT / "scripts/python")})


def moesim(command, policies, *flags):
    return run_moesim(command, *FLAGS, "--policy", policies, *flags)


def figures(case):
    return {key: value for key, value in case.items() if key not in ("policy", "planning", "notes", "wall_s")}


class Own(unittest.TestCase):
    def setUp(self):
        self.folder = self.enterContext(tempfile.TemporaryDirectory()) if hasattr(self, "enterContext") else None
        if self.folder is None:
            temporary = tempfile.TemporaryDirectory()
            self.addCleanup(temporary.cleanup)
            self.folder = temporary.name
        page = (ROOT / "docs/external-policies.md").read_text(encoding="utf-8")
        self.program = pathlib.Path(self.folder) / "mine.py"
        self.program.write_text(re.search(r"```python mine.py\n(.*?)```", page, re.DOTALL)[1], encoding="utf-8")

    def external(self, command, name="mine", **more):
        return policy(self.folder, name, placement={"kind": "external", "command": command, **more})

    def said_of(self, command, **more):
        ran = moesim("run", self.external(command, **more), "--allow-commands")
        self.assertNotEqual(ran.returncode, 0, ran.stdout)
        return ran.stderr

    def test_eplb_of_the_page_is_eplb(self):
        mine = self.external(f"exec {sys.executable} {self.program}", interval=2)
        built_in = policy(self.folder, "eplb", placement={"kind": "eplb", "interval": 2})
        ran = moesim("compare", f"{built_in},{mine}", "--allow-commands", "--json", f"{self.folder}/r.json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        first, second = json.loads(pathlib.Path(self.folder, "r.json").read_text(encoding="utf-8"))["cases"]
        self.assertEqual(figures(first), figures(second))
        self.assertIn(f"# mine runs a command: exec {sys.executable}", ran.stdout)

    def lplb_and_mine(self, call, built_in, copied, nodes, seed):
        """Figures of drawn steps, and the slots of the last one, by the built-in LPLB and by the one in Python."""
        program = pathlib.Path(self.folder) / "lplb.py"
        program.write_text("from moesim import placement\nfrom moesim.planners import cube, lplb, ring, torus\n"
                           f"placement(lplb({call})).serve()\n", encoding="utf-8")
        times = {"interval": 2, "first": 1, "window": 2}
        placements = ({"kind": "lplb", "solving_time": "0 us", **built_in}, {
            "kind": "external", "command": f"exec {sys.executable} {program}", "splits": True,
            "slots_per_gpu": 32 // (8 * nodes) + copied})
        flags = ["--topology", "h100-rail", "--set", f"topology.nodes={nodes}", "--model", "gpt-oss-20b", "--ep", str(8 * nodes),
                 "--synth", f"skew=0.8,tokens=2048,steps=5,layers=2,seed={seed}", "--layers", "recorded", "--allow-commands"]
        found = []
        for placement in placements:
            which = policy(self.folder, "lplb", dispatch="dedup", placement={**placement, **times})  # which tokens, not only how many
            ran = run_moesim("run", "--policy", which, *flags, "--json", f"{self.folder}/r.json")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            case = json.loads(pathlib.Path(self.folder, "r.json").read_text(encoding="utf-8"))["cases"][0]
            ran = run_moesim("export", "placement", "--format", "eplb", "-o", f"{self.folder}/slots.json", "--policy", which, *flags)
            self.assertEqual(ran.returncode, 0, ran.stderr)
            found.append((figures(case), json.loads(pathlib.Path(self.folder, "slots.json").read_text(encoding="utf-8"))))
        return found

    def test_lplb_in_python_has_the_slots_and_the_shares_of_the_built_in_one(self):
        checked = []
        for seed, (call, built_in, copied, nodes) in enumerate([
                ("cube()", {"topology": "cube"}, 2, 1), ("cube(), 2", {"topology": "cube", "experts_per_class": 2}, 4, 1),
                ("ring(8)", {"topology": "ring", "group": 8}, 1, 2), ("torus(2, 4)", {"topology": "torus"}, 2, 2),
                ("ring(2), 2", {"topology": "ring", "group": 2, "experts_per_class": 2}, 2, 1)]):
            with self.subTest(call):
                built, mine = self.lplb_and_mine(call, built_in, copied, nodes, seed)
                self.assertEqual(built, mine)
                checked.append(built)
        self.assertEqual(len({json.dumps(slots) for _, slots in checked}), 5)  # of which no two are the same

    def test_lplb_splits_nearly_as_well_as_is_possible(self):
        """By Hakimi's theorem: the densest set of ranks, with what cannot leave it."""
        from moesim.planners import cube, lplb
        draw = random.Random(3)
        ask = lplb(cube())
        for _ in range(20):
            loads = [draw.randrange(50, 400) for _ in range(32)]
            begin = {"do": "place", "loads": loads, "ranks": 8, "slots_per_rank": 6, "nodes": 1}
            slots = ask(begin)
            shares = ask({"do": "split", "slots": slots, "loads": [loads] + [[0] * 32] * 7})
            of_rank = [0] * 8
            for load, runs in zip(loads, shares[0]):
                self.assertIn(sum(count for _, count in runs), (load, 1))  # 1: all of them
                for slot, count in runs:
                    of_rank[slot // 6] += load if len(runs) == 1 else count
            self.assertEqual(sum(of_rank), sum(loads))
            owner = {expert: rank for rank in range(8) for expert in slots[rank][:4]}
            copies = [(loads[expert], owner[expert], rank) for rank in range(8) for expert in slots[rank][4:]]
            fixed = [sum(loads[expert] for expert in slots[rank][2:4]) for rank in range(8)]
            least = max(
                (sum(fixed[r] for r in range(8) if chosen >> r & 1)
                 + sum(load for load, a, b in copies if chosen >> a & 1 and chosen >> b & 1)) / chosen.bit_count()
                for chosen in range(1, 256))
            self.assertGreaterEqual(max(of_rank), least)
            self.assertLess(max(of_rank), 1.06 * least)

    def test_loads_as_bytes_are_those_of_the_lists(self):
        """A program that takes lines and one that takes bytes after them are asked the same."""
        program = pathlib.Path(self.folder) / "heard.py"
        program.write_text("import io, json, sys\nfrom moesim import placement\n"
                           "heard = open(sys.argv[1], 'w')\n"
                           "class Stream(io.BufferedReader):\n"
                           "    taken = 0\n"
                           "    def read(self, size):\n"
                           "        self.taken += size\n"
                           "        return super().read(size)\n"
                           "@placement\ndef mine(ask):\n"
                           "    heard.write(json.dumps([ask['do'], ask['loads']]) + '\\n')\n"
                           "    if ask['do'] == 'split':\n"
                           "        return [[[[ask['slots'][e // 2].index(e) + e // 2 * len(ask['slots'][0]), 1]]\n"
                           "                 for e in range(32)] for _ in range(16)]\n"
                           "stream = Stream(sys.stdin.buffer.raw)\n"
                           "mine.serve(stream if sys.argv[2] == 'bytes' else sys.stdin)\nprint(stream.taken, file=heard)\n",
                           encoding="utf-8")
        told = {}
        for kind in ("lists", "bytes"):
            heard = pathlib.Path(self.folder) / kind
            mine = self.external(f"exec {sys.executable} {program} {heard} {kind}", loads="by-rank", splits=True, slots_per_gpu=2)
            ran = moesim("run", mine, "--allow-commands")
            self.assertEqual(ran.returncode, 0, ran.stderr)
            *told[kind], taken = heard.read_text(encoding="utf-8").splitlines()
            self.assertEqual(int(taken) > 0, kind == "bytes")
        self.assertEqual(told["lists"], told["bytes"])
        self.assertGreater(len(told["lists"]), 20)
        self.assertTrue(any(json.loads(line)[1][15][31] for line in told["lists"] if '"place"' in line))

    def test_numbers_of_all_widths_are_read(self):
        from moesim import placement
        seen = []
        mine = placement(lambda ask: seen.append(ask["loads"]))
        lines = b'{"do": "begin", "binary": true, "loads": [1]}\n'
        for width in (1, 2, 4, 8):
            lines += json.dumps({"do": "place", "loads": {"shape": [2, 2], "bytes": width}}).encode() + b"\n"
            lines += b"".join(number.to_bytes(width, "little") for number in (10, 0, 13, 256 ** width - 1))
        out = io.StringIO()
        mine.serve(io.BytesIO(lines), out)
        self.assertEqual(seen[1:], [[[10, 0], [13, 256 ** width - 1]] for width in (1, 2, 4, 8)])
        self.assertEqual(out.getvalue().splitlines(), ['{"binary": true}'] + ["{}"] * 4)

    def test_eplb_in_python_has_the_slots_of_all_vectors(self):
        folder = pathlib.Path(os.environ.get("MOESIM_ORACLES") or ROOT / "../shared/oracles") / "eplb"
        if not folder.is_dir():
            self.skipTest("no vectors")
        from moesim.planners import eplb
        checked = 0
        for path in sorted(folder.glob("*.json")):
            vector = json.loads(path.read_text(encoding="utf-8"))
            given, expected = vector["input"], vector["expected"]["physical_to_logical_per_layer"]
            for loads, wanted in zip(given["expert_load_per_layer"], expected):
                slots = eplb({"loads": loads, "ranks": given["gpus"], "nodes": given["nodes"],
                              "slots_per_rank": given["physical_slots"] // given["gpus"],
                              "expert_groups": given["expert_groups"]})
                self.assertEqual([expert for rank in slots for expert in rank], wanted, path.name)
                checked += 1
        self.assertGreater(checked, 6)

    def test_python_takes_a_function(self):
        try:
            from moesim import compare, placement
        except ImportError as error:
            self.skipTest(f"no Python package {error.name}")
        asked = []

        @placement(interval=2, loads="by-rank")
        def in_turn(ask):
            asked.append((ask["do"], ask["loads"]))
            return [[(rank * ask["slots_per_rank"] + slot) % ask["experts"] for slot in range(ask["slots_per_rank"])]
                    for rank in range(ask["ranks"])]

        os.environ |= {"MOESIM": MOESIM, "MOESIM_DATA": str(ROOT)}
        result = compare({"topology": "h100-rail", "model": "gpt-oss-20b", "trace": str(ROOT / "traces/tiny-moe-train")},
                         set={"topology.nodes": 2}, layers="recorded", repeat=32, steps="0:3", policy=["alltoall", in_turn])
        self.assertEqual([case["policy"] for case in result.cases], ["alltoall", "in-turn"])
        self.assertEqual({do for do, _ in asked}, {"begin", "place"})
        by_rank = [loads for do, loads in asked if do == "place"]
        self.assertTrue(all(len(loads) == 16 and len(loads[15]) == 32 and max(loads[15]) > 0 for loads in by_rank))
        self.assertIn("in-turn", result._repr_html_())

    def given(self, name):
        """How often tokens leave their host with the placement of a file, or the message why not."""
        which = policy(self.folder, "given", placement={"kind": "given", "file": f"{self.folder}/{name}"})
        ran = moesim("run", which, "--json", f"{self.folder}/r.json")
        if ran.returncode != 0:
            self.assertEqual(ran.returncode, 2, ran.stderr)
            return ran.stderr
        return json.loads(pathlib.Path(self.folder, "r.json").read_text(encoding="utf-8"))["cases"][0]["total"]["traffic"]

    def test_placements_of_torch(self):
        sys.path.insert(0, str(ROOT / "tests/import"))
        from formats import Tensor, torch_save
        draw = random.Random(5)
        rows = [draw.sample(range(32), 32) + draw.choices(range(32), k=16) for _ in range(24)]
        pathlib.Path(self.folder, "a.json").write_text(json.dumps({"physical_to_logical_map": rows}), encoding="utf-8")
        same = self.given("a.json")
        for kind in ("Int", "Long"):
            torch_save(f"{self.folder}/a.pt", {"physical_to_logical_map": Tensor(kind, rows), "note": "any"})
            self.assertEqual(self.given("a.pt"), same)
        torch_save(f"{self.folder}/a.pt", {"phy2log": rows})
        self.assertEqual(self.given("a.pt"), same)
        torch_save(f"{self.folder}/a.pt", {"physical_to_logical_map": Tensor("Long", rows[:1])})
        self.assertNotEqual(self.given("a.pt"), same)
        torch_save(f"{self.folder}/a.pt", {"logical_count": Tensor("Long", [[1] * 32] * 24)})
        self.assertIn("'logical_count' has loads of experts", self.given("a.pt"))

    def test_hostile_placements_of_torch(self):
        sys.path.insert(0, str(ROOT / "tests/import"))
        from formats import torch_save

        class Runs:
            def __reduce__(self):
                return os.system, (f"touch {mark}",)

        mark = pathlib.Path(self.folder) / "ran"
        torch_save(f"{self.folder}/a.pt", {"phy2log": Runs()})
        self.assertIn("system", self.given("a.pt"))
        self.assertFalse(mark.exists())
        cycle = []
        cycle.append(cycle)
        torch_save(f"{self.folder}/a.pt", cycle)
        self.assertIn("nested too deep", self.given("a.pt"))
        wide = [0]
        for _ in range(60):
            wide = [wide, wide]
        torch_save(f"{self.folder}/a.pt", wide)
        self.assertIn("over 16 million values", self.given("a.pt"))
        torch_save(f"{self.folder}/a.pt", {(1, 2): 3})
        self.assertIn("a key that is neither a text nor a number", self.given("a.pt"))
        pathlib.Path(self.folder, "a.pt").write_text("{}", encoding="utf-8")
        self.assertIn("a.pt", self.given("a.pt"))

    def test_commands_need_the_flag(self):
        mark = pathlib.Path(self.folder) / "ran"
        mine = self.external(f"touch {mark}; cat")
        for ran in (moesim("run", mine), moesim("sweep", mine, "-o", f"{self.folder}/s.sqlite")):
            self.assertEqual(ran.returncode, 2)
            self.assertIn("it runs a command: touch", ran.stdout + ran.stderr)
        self.assertFalse(mark.exists())

    def test_bad_programs_end_with_a_message(self):
        self.assertIn("did not answer within 0.3 s", self.said_of("sleep 60", timeout="300 ms"))
        crashed = self.said_of("echo no such model >&2; exit 3")
        self.assertIn("ended with status 3 before it answered", crashed)
        self.assertIn("no such model", crashed)
        self.assertIn("did not answer within", self.said_of("exec >&-; sleep 60", timeout="300 ms")
                      .replace("closed its standard output before it answered", "did not answer within"))
        self.assertIn("more than 64 MB in one line", self.said_of("exec tr '\\\\0' x </dev/zero"))
        self.assertIn("more lines than it was asked", self.said_of("exec yes '{}'"))
        self.assertIn("not JSON", self.said_of("while read l; do echo hello; done"))
        self.assertIn("slots of 1 ranks, there are 16", self.said_of("while read l; do echo '{\"slots\": [[0]]}'; done"))
        lie = "import sys\\nfor l in sys.stdin: print([[0] * 3] * 16, flush=True)"
        self.assertIn("expert 1 has no slot", self.said_of(f"exec {sys.executable} -c \"$(printf '{lie}')\""))
        self.assertIn("is not an expert", self.said_of(
            f"exec {sys.executable} -c \"$(printf '{lie.replace('[0] * 3', '[99, 0, 1]')}')\""))

    def test_a_routing_rule_of_ones_own(self):
        same = "exec " + sys.executable + " -c \"$(printf 'import sys, json\\nfor l in sys.stdin:\\n" \
            " a = json.loads(l)\\n print(json.dumps({chr(105) + chr(100) + chr(115): a.get(chr(105) + chr(100) + chr(115))})," \
            " flush=True)')\""
        mine = policy(self.folder, "mine", placement="contiguous", routing={"kind": "external", "command": same})
        plain = policy(self.folder, "plain", placement="contiguous")
        ran = moesim("compare", f"{plain},{mine}", "--allow-commands", "--json", f"{self.folder}/r.json")
        self.assertEqual(ran.returncode, 0, ran.stderr)
        first, second = json.loads(pathlib.Path(self.folder, "r.json").read_text(encoding="utf-8"))["cases"]
        self.assertEqual(first["step_s"], second["step_s"])


if __name__ == "__main__":
    MOESIM = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
