# SPDX-License-Identifier: Apache-2.0
"""The GitHub Actions example of docs/output.md, run as a shell script: it passes, and fails once a result moves.

usage: ci_example_test.py MOESIM
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import unittest

ROOT = pathlib.Path(__file__).parents[1]


def script():
    """What the `run: |` steps of the page's workflow hold."""
    page = (ROOT / "docs/output.md").read_text(encoding="utf-8")
    [workflow] = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    steps = re.findall(r"^ +run: \|\n((?: {10}.*\n)+)", workflow, re.MULTILINE)
    return "\n".join(textwrap.dedent(step) for step in steps)


class CiExample(unittest.TestCase):
    moesim = ""

    def run_in(self, folder, commands):
        os.makedirs(f"{folder}/bin", exist_ok=True)
        if not os.path.exists(f"{folder}/bin/moesim"):
            os.symlink(self.moesim, f"{folder}/bin/moesim")
        variables = {"MOESIM_DATA": str(ROOT), "PATH": f"{folder}/bin{os.pathsep}{os.environ['PATH']}"}
        return subprocess.run(["bash", "-e", "-c", commands], cwd=folder, env=os.environ | variables, capture_output=True,
                              text=True, check=False)

    def test_example(self):
        self.assertIn("--expect expected.json", script())
        with tempfile.TemporaryDirectory() as folder:
            stored = pathlib.Path(folder) / "expected.json"
            self.assertEqual(self.run_in(folder, script()).returncode, 2)  # nothing is stored
            made = self.run_in(folder, re.sub(r"--expect.*", "--json expected.json", script()))
            self.assertEqual(made.returncode, 0, made.stderr)
            same = self.run_in(folder, script())
            self.assertEqual(same.returncode, 0, same.stderr)
            self.assertIn("0 of 2 cases moved", same.stdout)
            document = json.loads(stored.read_text(encoding="utf-8"))
            document["cases"][1]["step_s"] *= 1.02
            stored.write_text(json.dumps(document), encoding="utf-8")
            moved = self.run_in(folder, script())
            self.assertEqual(moved.returncode, 1)
            self.assertIn("1 of 2 cases moved", moved.stdout)
            self.assertRegex(moved.stdout, r"h100-rail llep port +step_s .* -1\.96 %")


if __name__ == "__main__":
    CiExample.moesim = str(pathlib.Path(sys.argv[1]).resolve())
    unittest.main(argv=sys.argv[:1])
