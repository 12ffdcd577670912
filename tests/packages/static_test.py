#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/package_static packs an installation: equal archives of equal commits, and a wheel that pip installs without a network.

The installation is that of this build, whose program needs the libraries of this machine; scripts/try_static tries the real one.

usage: static_test.py BUILD ROOT
"""
import base64
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile

BUILD, ROOT = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
HAS_VENV = subprocess.run([sys.executable, "-c", "import ensurepip, venv"], capture_output=True, check=False).returncode == 0


def checked(*words, **how):
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False, **how)
    if done.returncode != 0:
        raise AssertionError(f"{words}: {done.stdout}{done.stderr}")
    return done.stdout


def packed(prefix, out):
    checked(ROOT / "scripts/package_static", out, "--staged", prefix, env=os.environ | {"SOURCE_DATE_EPOCH": "1700000000"})
    return {path.suffix: path for path in out.iterdir() if path.is_file()}


class Packages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="moesim-static-"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        checked("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", cls.folder / "staged")
        cls.prefix = next((cls.folder / "staged").rglob("bin/moesim")).parents[1]
        (cls.prefix / "bin/moesim-hw").write_text("of this libc", encoding="utf-8")
        for path in (cls.prefix / "lib").rglob("*.so"):  # SimGrid: the static program has none
            path.unlink()
        cls.made = packed(cls.prefix, cls.folder / "packages")

    def test_the_same_bytes_again(self):
        again = packed(self.prefix, self.folder / "again")
        for suffix, path in self.made.items():
            self.assertEqual(path.read_bytes(), again[suffix].read_bytes(), path.name)

    def test_tarball(self):
        with tarfile.open(self.made[".gz"]) as archive:
            entries = {entry.name.split("/", 1)[1]: entry for entry in archive}
        for program in ("bin/moesim", "bin/moesim-hw"):
            self.assertEqual(entries[program].mode, 0o755)
        for name in ("share/moesim/scenarios/quickstart.yaml", "share/man/man1/moesim.1", "share/doc/moesim/LICENSE",
                     "share/doc/moesim/NOTICE", "share/bash-completion/completions/moesim"):
            self.assertEqual(entries[name].mode, 0o644, name)
        self.assertEqual({(entry.uid, entry.gid, entry.uname, entry.mtime) for entry in entries.values()}, {(0, 0, "", 1700000000)})

    def test_record_of_the_wheel(self):
        with zipfile.ZipFile(self.made[".whl"]) as archive:
            names = set(archive.namelist())
            record = next(name for name in names if name.endswith(".dist-info/RECORD"))
            for line in archive.read(record).decode().splitlines():
                name, digest, size = line.rsplit(",", 2)
                names.remove(name)
                if name == record:
                    continue
                content = archive.read(name)
                self.assertEqual(int(size), len(content))
                self.assertEqual(digest, "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode())
        self.assertEqual(names, set())

    def test_only_the_tarball_has_what_needs_a_libc(self):
        with zipfile.ZipFile(self.made[".whl"]) as archive:
            self.assertEqual([name for name in archive.namelist() if "moesim-hw" in name], [])

    @unittest.skipUnless(HAS_VENV, "no python3-venv")
    def test_pip_installs_it_offline(self):
        venv, away = self.folder / "venv", self.folder / "away"
        away.mkdir()
        checked(sys.executable, "-m", "venv", venv)
        pip = [venv / "bin/python", "-m", "pip", "--disable-pip-version-check", "--quiet"]
        clean = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder)}
        checked(*pip, "install", "--no-index", self.made[".whl"], env=clean)
        table = checked(venv / "bin/moesim", "compare", "quickstart", "--workers", "1", cwd=away, env=clean)
        self.assertIn("hiermoe", table)
        code = "import moesim, sys; r = moesim.compare('quickstart'); print(len(r.cases), 'numpy' in sys.modules)"
        self.assertRegex(checked(venv / "bin/python", "-c", code, cwd=away, env=clean), r"^[1-9]\d* False\n$")
        refused = subprocess.run([venv / "bin/python", "-c", "from moesim import Trace"], capture_output=True, text=True, check=False,
                                 cwd=away, env=clean)
        self.assertIn("moesim.Trace needs numpy: pip install 'moesim[traces]'", refused.stderr)
        self.assertEqual(list(away.iterdir()), [])
        checked(*pip, "uninstall", "--yes", "moesim", env=clean)
        self.assertEqual([path for path in venv.rglob("*") if "moesim" in path.name], [])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
