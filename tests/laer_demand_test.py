# SPDX-License-Identifier: Apache-2.0
"""scripts/laer_demand.py keeps what was measured and makes the rest as even as that allows."""
import random
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
import laer_demand as demand


def ranks(sets_of_nodes):
    """Loads of 32 GPUs whose nodes' sets have these copies, halves of each on GPUs j and j + 4."""
    return [half for sets in sets_of_nodes for half in [x // 2 for x in sets] + [x - x // 2 for x in sets]]


class Demand(unittest.TestCase):
    def test_sets_are_gpus_j_and_j_plus_4(self):
        loads = ranks([[1, 2, 3, 4], [5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]])
        self.assertEqual(demand.sets_of_node(loads, 2), [9, 10, 11, 12])
        self.assertEqual(demand.sets_of_all(loads), [28, 32, 36, 40])

    def test_shares_meet_both_groupings(self):
        first, now = ranks([[4, 2, 1, 3]] * 4), ranks([[2, 3, 3, 2]] * 4)
        shares = demand.expert_shares(first, now, 8)
        self.assertAlmostEqual(sum(shares), 1)
        for j in range(4):  # consecutive experts then, strided ones now
            self.assertAlmostEqual(shares[2 * j] + shares[2 * j + 1], [0.4, 0.2, 0.1, 0.3][j], places=6)
            self.assertAlmostEqual(shares[j] + shares[j + 4], [0.2, 0.3, 0.3, 0.2][j], places=6)

    def test_even_loads_are_even_experts(self):
        even = ranks([[8, 8, 8, 8]] * 4)
        for share in demand.expert_shares(even, even, 16):
            self.assertAlmostEqual(share, 1 / 16)

    def test_concentration_is_that_of_the_draw(self):
        """Nodes that are means of 16 sequences from a known Dirichlet give it back."""
        random_, a, table = random.Random(7), 6.0, {}
        for layer in range(400):
            nodes = []
            for _ in range(4):
                sums = [0.0] * 4
                for _ in range(demand.SEQUENCES):
                    draws = [random_.gammavariate(a / 4, 1) for _ in range(4)]
                    sums = [s + d / sum(draws) for s, d in zip(sums, draws)]
                nodes.append([round(1e6 * s) for s in sums])
            table[1, layer] = ranks(nodes)
        self.assertAlmostEqual(demand.concentration(table) / a, 1, delta=0.1)

    def test_sequences_of_a_node_have_its_sets(self):
        tokens, k = demand.TOKENS, 2
        whole = demand.SEQUENCES * tokens * k
        totals = [whole // 2, whole // 4, whole // 8, whole // 8]
        rows = demand.drawn_node(totals, [1 / 8] * 8, 7.5, k, random.Random(3))
        for row in rows:
            self.assertEqual(sum(row), tokens * k)
            self.assertLessEqual(max(row), tokens)  # an expert takes a token once
            self.assertGreaterEqual(min(row), 0)
        for j, total in enumerate(totals):
            self.assertAlmostEqual(sum(row[j] + row[j + 4] for row in rows) / total, 1, delta=0.01)
        self.assertGreater(max(max(row) for row in rows), 1.5 * whole / demand.SEQUENCES / 4)

    def test_parts_are_whole_and_limited(self):
        self.assertEqual(demand.divided(10, [1, 1, 1], 4), [3, 4, 3])
        self.assertEqual(demand.divided(10, [8, 1, 1], 5), [5, 3, 2])

    def test_sequences_are_dealt_to_the_gpus_of_their_node(self):
        whole = demand.SEQUENCES * demand.TOKENS * 2
        part = whole // 4
        hot = [[part] * 4, [part] * 4, [whole - 3 * (whole // 8)] + [whole // 8] * 3, [part] * 4]
        rows = demand.demand(ranks([[1, 1, 1, 1]] * 4), ranks(hot), 1e6, demand.MODELS["e8k2"], random.Random(1))
        self.assertEqual(len(rows), 64)
        for s, row in enumerate(rows):
            share = (row[0] + row[4]) / (demand.TOKENS * 2)
            self.assertAlmostEqual(share, 0.625 if s % 32 // 8 == 2 else 0.25, delta=0.02)


if __name__ == "__main__":
    unittest.main()
