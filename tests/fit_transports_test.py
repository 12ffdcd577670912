#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/fit_transports.py on curves that are known."""
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "scripts"))
import fit_transports as fit  # noqa: E402


def line(size):
    """us: 10 to start, then 200 GB/s."""
    return 10 + size / 200e3


class Fit(unittest.TestCase):
    samples = [(1000 * 2**i, line(1000 * 2**i)) for i in range(16)]

    def test_a_straight_line_is_found_again(self):
        points = fit.fit(10, 450, self.samples)
        for size, time in self.samples:
            self.assertAlmostEqual((10 + fit.between(points, size)) / time, 1, delta=0.01)

    def test_sizes_that_are_left_out_are_predicted(self):
        errors = fit.left_out(10, 450, self.samples)
        self.assertEqual(len(errors), len(self.samples) - 2)
        self.assertLess(max(map(abs, errors)), 0.02)

    def test_times_ascend_and_no_rate_is_above_the_link(self):
        noisy = [(size, time * (0.7 if i % 3 == 0 else 1.3)) for i, (size, time) in enumerate(self.samples)]
        points = fit.fit(5, 100, noisy)
        self.assertTrue(fit.sound(points, 100))
        self.assertFalse(fit.sound([(1000, 5.0), (2000, 4.0)], 100))
        self.assertFalse(fit.sound([(1_000_000, 5.0)], 100))

    def test_distinct_groups(self):
        self.assertAlmostEqual(fit.distinct(8), 5.2947, places=4)
        self.assertAlmostEqual(fit.distinct(4), 3.6142, places=4)


if __name__ == "__main__":
    unittest.main()
