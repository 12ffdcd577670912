#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The same bytes whatever surrounds a run: workers, locale, time zone, folder, umask, address space, what malloc returns.

usage: determinism_test.py MOESIM ROOT

A file holds nothing that depends on these: no field is left out of the comparison.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

from runs import CASE, environment, files_of

MOESIM, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
COMMANDS = [
    ["compare", *CASE, "--topology", "hiermoe-a6000", "--policy", "alltoall,dedup,hiermoe-hd", "--fidelity",
     "analytic,port,flow", "--steps", "0:2", "--layers", "1", "--json", "r.json", "--report", "r.html", "--timeline", "t.json",
     "--workers", "WORKERS"],
    # Two kinds of links that wait for each other: SimGrid runs one exchange while another is handed on.
    ["compare", *CASE, "--topology", "hiermoe-a6000", "--policy", "deepep-normal", "--fidelity", "simgrid", "--steps", "0:2",
     "--layers", "1", "--json", "simgrid.json", "--workers", "WORKERS"],
    ["trace", "synth", "-o", "drawn", "--experts", "16", "--top-k", "2", "--layers", "2", "--tokens", "300", "--steps", "2"],
]
WHAT_MALLOC_RETURNS = {"MALLOC_PERTURB_": "165", "MALLOC_ARENA_MAX": "1", "MALLOC_TOP_PAD_": "1000000"}


def german(folder):
    """The variables of a locale with a decimal comma, made here; None where it cannot be."""
    made = pathlib.Path(folder) / "de_DE.UTF-8"
    if shutil.which("localedef") is None:
        return None
    subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", made], capture_output=True, check=False)
    return {"LOCPATH": str(folder), "LC_ALL": "de_DE.UTF-8", "LANG": "de_DE.UTF-8"} if made.exists() else None


class Determinism(unittest.TestCase):
    maxDiff = 1000

    def products(self, workers=1, before=(), mask=0o022, folder=None, **variables):
        """All that the commands print and write, by name."""
        with tempfile.TemporaryDirectory() as fresh:
            folder = pathlib.Path(folder or fresh)
            folder.mkdir(exist_ok=True)
            found = {}
            for number, command in enumerate(COMMANDS):
                words = [*before, MOESIM, *(str(workers) if word == "WORKERS" else word for word in command)]
                done = subprocess.run(words, cwd=folder, env=environment(ROOT, **variables), capture_output=True, check=False,
                                      umask=mask)
                self.assertEqual(done.returncode, 0, done.stderr)
                found[f"output {number}"] = done.stdout
            found.update(files_of(folder))
            shutil.rmtree(folder)
            folder.mkdir()
            return found

    def test_surroundings_make_no_difference(self):
        expected = self.products()
        self.assertIn("drawn/step-00000001/ids.npy", expected)
        with tempfile.TemporaryDirectory() as folder:
            settings = {
                "2 workers": {"workers": 2},
                "8 workers": {"workers": 8},
                "another time zone": {"TZ": "Asia/Kolkata"},
                "no home, a long environment": {"HOME": "/nonexistent", "LONG": "x" * 5000},
                "a folder with blanks": {"folder": folder + "/a folder, of blanks"},
                "other memory": WHAT_MALLOC_RETURNS,
                "a strict umask": {"mask": 0o077},
            }
            locale = german(folder)
            if locale is None:
                print("no locale with a decimal comma can be made here")
            else:
                settings["a locale with a decimal comma"] = locale
            if shutil.which("setarch") and subprocess.run(["setarch", "-R", "true"], capture_output=True, check=False).returncode == 0:
                settings["fixed addresses"] = {"before": ["setarch", "-R"]}
            else:
                print("addresses cannot be fixed here")
            for name, setting in settings.items():
                with self.subTest(setting=name):
                    found = self.products(**setting)
                    self.assertEqual(sorted(found), sorted(expected))
                    for key, value in expected.items():
                        self.assertTrue(found[key] == value, f"{key} differs")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
