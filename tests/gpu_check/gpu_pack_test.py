#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What scripts/gpu_pack packs."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]


class GpuPack(unittest.TestCase):
    def test_packs_sources_libraries_and_steps(self):
        if not (ROOT / ".git").exists() or not shutil.which("dpkg-query"):
            self.skipTest("packs a git checkout on Debian")
        with tempfile.TemporaryDirectory() as folder:
            saved = [pathlib.Path(folder, name) for name in ("case.moesim", "links.moesim-calibration")]
            packed = pathlib.Path(folder, "out.tar.gz")
            for path in saved:
                path.write_bytes(b"saved")
            done = subprocess.run([ROOT / "scripts" / "gpu_pack", packed, *saved], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            listed = subprocess.run(["tar", "-tf", packed], capture_output=True, text=True, check=True).stdout.split()
            self.assertEqual(sorted(os.listdir(folder)), ["case.moesim", "links.moesim-calibration", "out.tar.gz"])
        for name in ("meson.build", "scripts/gpu_check", "steps/case.moesim", "steps/links.moesim-calibration", "carried/commit", "carried/lib/libz.a",
                     "carried/include/fmt/format.h", "carried/include/zlib.h", "carried/licences/libfmt-dev"):
            self.assertIn(f"moesim/{name}", listed)

    def test_bad_arguments(self):
        for words in ([], ["out.zip"]):
            done = subprocess.run([ROOT / "scripts" / "gpu_pack", *words], capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 2)
            self.assertIn("usage: gpu_pack OUT.tar.gz", done.stderr)
        done = subprocess.run([ROOT / "scripts" / "gpu_pack", "out.tar.gz", "x.yaml"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("x.yaml: names end in .moesim", done.stderr)


if __name__ == "__main__":
    unittest.main()
