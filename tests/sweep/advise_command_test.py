# SPDX-License-Identifier: Apache-2.0
"""moesim advise as a whole: what is asked for by only flags, and what it says if it has no answer.

usage: advise_command_test.py MOESIM
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
MOESIM = ""
INPUTS = ("--model", "gpt-oss-20b", "--trace", "tiny-moe-train", "--topology", "h100-rail")
SMALL = ("--set", "topology.nodes=2", "--steps", "0:1", "--layers", "3", "--finals", "0", "-q", "-j1")


class AdviseCommand(unittest.TestCase):
    def advise(self, *flags, code=0):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([MOESIM, "advise", *flags], capture_output=True, text=True, check=False, cwd=folder,
                                  env={**os.environ, "MOESIM_DATA": str(ROOT)})
            self.assertEqual(os.listdir(folder), [])
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout if code == 0 else done.stderr

    def rows(self, *flags):
        text = self.advise(*flags, "--format", "json")
        return json.loads(text[text.index("{"):])["candidates"]

    def policies(self, *flags):
        return {row["policy"] for row in self.rows(*flags)}

    def test_flags_alone_ask_for_the_policy(self):
        every = self.policies(*INPUTS, *SMALL, "--top", "100", "--part", "1")
        self.assertGreater(len(every), 5)
        self.assertIn("deepep-normal", every)
        self.assertEqual(self.policies(*INPUTS, *SMALL, "--top", "100", "--part", "1", "--ask", "mechanism"), every)

    def test_questions_about_policies_need_none(self):
        self.assertEqual(self.policies(*INPUTS, *SMALL, "--ask", "slots"), {"laer"})

    def test_other_questions_are_asked_of_every_policy(self):
        rows = self.rows(*INPUTS, *SMALL, "--ask", "ep-degree", "--top", "100", "--part", "1")
        self.assertGreater(len({row["policy"] for row in rows}), 1)
        self.assertGreater(len({row["ep"] for row in rows}), 1)
        self.assertNotIn("policy", self.rows(*INPUTS, *SMALL, "--ask", "ep-degree", "--policy", "dedup")[0])

    def test_what_flags_leave_out_is_told(self):
        told = self.advise(*INPUTS[:2], *SMALL, code=2)
        self.assertIn("no scenario file, and no --topology, --trace", told)

    def test_unknown_questions(self):
        told = self.advise(*INPUTS, *SMALL, "--ask", "ep-degre", code=2)
        self.assertIn("--ask: 'ep-degre' is not a known question", told)
        self.assertIn("did you mean 'ep-degree'", told)

    def test_what_binds_a_step_is_what_comparisons_say(self):
        asked = (*INPUTS, *SMALL[:6], "-q", "--policy", "alltoall,megatron-allgather")
        done = subprocess.run([MOESIM, "compare", *asked, "--format", "json"], capture_output=True, text=True, check=True,
                              env={**os.environ, "MOESIM_DATA": str(ROOT)})
        compared = {case["policy"]: case["bound_by"] for case in json.loads(done.stdout)["cases"]}
        rows = self.rows(*asked, "--finals", "0", "-j1", "--part", "1")
        self.assertEqual({row["policy"]: row["bound by"] for row in rows}, compared)

    def test_lossy_policies_win_only_if_asked(self):
        asked = (*INPUTS, *SMALL, "--policy", "alltoall,deepspeed", "--part", "1")
        told = self.advise(*asked)
        self.assertRegex(told, r"# not ranked: 1 lossy \(deepspeed drops \d+ %\); --lossy allow ranks them")
        self.assertEqual([row["policy"] for row in self.rows(*asked)], ["alltoall"])
        rows = {row["policy"]: row["lossy"] for row in self.rows(*asked, "--lossy", "allow")}
        self.assertEqual(rows["alltoall"], "")
        self.assertRegex(rows["deepspeed"], "^drops ")
        self.assertEqual(len(self.rows(*INPUTS, *SMALL, "--policy", "deepspeed")), 1)
        self.assertIn("no candidate may win", self.advise(*INPUTS, *SMALL, "--policy", "deepspeed,deepspeed-hierarchical", code=2))

    def test_balanced_routing_is_no_choice(self):
        asked = (*INPUTS, "--policy", "alltoall,llep", "--set", "topology.nodes=1", "--ep", "8", "--global-batch", "8", "--sequence", "512",
                 "--set", "model.layers=2", "--set", "model.moe_layers.count=2", "--finals", "0", "-q", "-j1", "--memory", "ignore", "--part", "1")
        told = self.advise(*asked, "--routing", "balanced,recorded")
        self.assertIn("# not ranked: 2 cases with balanced routing", told)
        rows = self.rows(*asked, "--routing", "balanced,recorded")
        self.assertEqual({row["routing"] for row in rows}, {"recorded"})
        self.assertGreater(len(self.rows(*asked, "--routing", "balanced")), 0)

    def test_says_why_nothing_could_be_simulated(self):
        told = self.advise(*INPUTS, *SMALL, "--policy", "dedup", "--ep", "32", code=2)
        self.assertIn("'ep' is 32: it must divide 16 GPUs", told)
        self.assertIn("no candidate could be simulated", told)

    def test_hints_at_repeat_as_a_comparison_does(self):
        told = self.advise(*INPUTS, "--set", "topology.nodes=1024", "--policy", "dedup", "-q", code=2)
        self.assertIn("trace 'tiny-moe-train' is too short", told)
        self.assertIn("hint: `repeat: 256` plays its sequences often enough", told)

    def test_begins_as_a_comparison_and_tells_the_edge_of_a_range(self):
        told = self.advise(*INPUTS, *SMALL, "--policy", "eplb", "--ask", "slots")
        for line in ("# moesim ", "# h100-rail: 16 GPUs on 2 hosts, ep 16", "# transport deepep-normal on h100-rail"):
            self.assertIn(line, told)
        self.assertRegex(told, r"# the above with policy.placement.slots_per_gpu 2: of the first candidate")
        self.assertRegex(told, r"# the best policy.placement.slots_per_gpu is the \w+ that was tried, \d+: the edge of the range")

    def test_says_that_a_plan_had_no_choice(self):
        told = self.advise("--topology", "laer-a100", "--model", "mixtral-8x7b-e8k2", "--policy", "laer,fsep-fsdp-ep",
                           "--synth", "skew=1,steps=3", "--layers", "recorded", "--finals", "0", "-q", "-j1",
                           "--set", "policy.placement.slots=1")
        self.assertIn("# laer had no slot to spare: any loads give each of 8 experts 4 replicas in 32 slots", told)

    def test_says_what_the_time_was_too_short_for(self):
        told = self.advise(*INPUTS, *SMALL, "--budget", "1us", code=2)
        self.assertRegex(told, r"no candidate could be simulated\nhint: --budget was too short for \d+ of them")



if __name__ == "__main__":
    MOESIM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
