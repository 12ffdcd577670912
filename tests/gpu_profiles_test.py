# SPDX-License-Identifier: Apache-2.0
"""A training iteration that PyTorch ran and profiled on real GPUs against its simulation (docs/results/gpu.md).

usage: gpu_profiles_test.py MOESIM

The profiles hold nothing but kernels, of scripts/gpu_kernels.py of c727d34b (tests/kernels/README.md).
"""
import json
import pathlib
import subprocess
import sys
import unittest

FOLDER = pathlib.Path(__file__).parent / "gpu_profiles"


class GpuProfiles(unittest.TestCase):
    moesim = ""

    def compare(self, gpu):
        """Simulated / measured - 1 of the parts of a step."""
        command = [self.moesim, "validate", "profile", FOLDER / f"{gpu}.json.gz", "--scenario", "iteration.yaml",
                   "--set", f"topology.node.gpu={gpu}-measured", "--json", "-"]
        done = subprocess.run(list(map(str, command)), cwd=FOLDER, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_parts_of_the_step_are_as_long_as_simulated(self):
        within = {"gemm": (0.07, 0.11), "grouped-gemm": (-0.1, -0.03), "attention": (0.01, 0.05),
                  "optimizer": (-0.43, -0.25)}
        for gpu in ("h100", "h200"):
            both = self.compare(gpu)
            measured, simulated = (both[side]["kinds_s"] for side in ("measured", "simulated"))
            for times in (measured, simulated):
                times["attention"] += times["attention-backward"]
            self.assertNotIn("unknown", measured)
            for kind, (least, most) in within.items():
                error = simulated[kind] / measured[kind] - 1
                self.assertTrue(least < error < most, f"{gpu} {kind}: {error:+.3f}")


if __name__ == "__main__":
    GpuProfiles.moesim = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
