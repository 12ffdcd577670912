#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An installed moesim, and one unpacked from a Debian package, find their data from any folder, away from sources and build.

usage: install_test.py BUILD ROOT [moesim-hw]
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD, ROOT, HAS_HW = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), len(sys.argv) > 3
FOLDERS = ("models", "topologies", "transports", "scenarios", "traces", "papers")


def checked(words, **how):
    done = subprocess.run(words, capture_output=True, text=True, check=False, **how)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp(prefix="moesim-install-")
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.staged = pathlib.Path(cls.folder) / "staged"
        checked(["meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", cls.staged])

    def prefix(self):
        return next(self.staged.rglob("bin/moesim")).parents[1]

    def works_in(self, prefix):
        """What a user does first, in an empty folder, with nothing of ours in the environment."""
        # But where a build with counters (scripts/coverage) is to write these.
        counters = {name: os.environ[name] for name in ("LLVM_PROFILE_FILE",) if name in os.environ}
        environment = {"PATH": "/usr/bin:/bin", **counters}
        with tempfile.TemporaryDirectory() as away:
            def moesim(*words):
                return checked([prefix / "bin/moesim", *words], cwd=away, env=environment)
            self.assertIn("moesim ", moesim("--version"))
            for kind, name in (("topologies", "h100-rail"), ("models", "gpt-oss-20b"), ("scenarios", "quickstart")):
                self.assertIn(name, moesim("list", kind))
            self.assertIn("32, top-4", moesim("trace", "info", "tiny-moe-train"))
            self.assertIn("simgrid", moesim("compare", "quickstart", "--topology", "h100-rail", "--policy", "hiermoe-hd",
                                            "--fidelity", "port,simgrid", "--steps", "0", "--layers", "1", "--workers", "1"))
            self.assertEqual(os.listdir(away), [])
        # SimGrid is in a library of its own, loaded only for that fidelity.
        self.assertNotIn("simgrid", checked(["ldd", prefix / "bin/moesim"]))

    def test_every_data_file_is_installed(self):
        share = self.prefix() / "share/moesim"
        for folder in FOLDERS:
            wanted = {path.relative_to(ROOT) for path in (ROOT / folder).rglob("*") if path.is_file()}
            found = {path.relative_to(share) for path in (share / folder).rglob("*") if path.is_file()}
            self.assertEqual(found, wanted)
        self.assertFalse((share / "tests").exists())
        self.assertFalse([path for path in self.staged.rglob("*") if "test" in path.name.lower() and os.access(path, os.X_OK)
                          and path.is_file()])

    def test_from_any_folder(self):
        moved = pathlib.Path(self.folder) / "moved, with blanks"
        shutil.copytree(self.prefix(), moved)
        self.works_in(moved)

    def test_manual_page(self):
        page = (self.prefix() / "share/man/man1/moesim.1").read_text(encoding="utf-8")
        self.assertTrue(page.startswith(".TH"), page[:80])

    @unittest.skipUnless(HAS_HW, "built without moesim-hw")
    def test_hardware_program(self):
        self.assertIn("moesim-hw ", checked([self.prefix() / "bin/moesim-hw", "--version"],
                                            env=os.environ | {"OMPI_MCA_ess_singleton_isolated": "1"}))

    @unittest.skipUnless(shutil.which("dpkg-deb") and shutil.which("dpkg-shlibdeps"), "no dpkg-dev")
    def test_debian_package(self):
        staged = pathlib.Path(self.folder) / "usr"
        shutil.copytree(self.prefix(), staged / "usr")
        out = pathlib.Path(self.folder) / "out"
        package = checked([ROOT / "scripts/package_deb", out], env=os.environ | {"STAGED": str(staged), "COMPRESSION": "none"}).splitlines()[-1]
        fields = checked(["dpkg-deb", "--field", package])
        self.assertRegex(fields, r"Depends: .*libsimgrid")
        self.assertRegex(fields, r"\nVersion: \d+\.\d+\.\d+")
        bare = pathlib.Path(self.folder) / "bare"
        checked(["dpkg-deb", "--extract", package, bare])
        self.works_in(bare / "usr")
        sums = pathlib.Path(self.folder) / "control"
        checked(["dpkg-deb", "--control", package, sums])
        checked(["md5sum", "--check", "--quiet", sums / "md5sums"], cwd=bare)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
