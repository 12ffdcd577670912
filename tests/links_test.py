#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Both documented paths onto a machine with GPUs link, unity builds on, and compute a saved file without a wrong number.

usage: links_test.py MOESIM

Sources are what git has of this tree, copied to an empty folder. Compiled without optimization, which hides no missing
symbol and takes a third of the time; a ccache makes the second run cheap.
"""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[1]
SCENARIO = [str(ROOT / "scenarios/gpu.yaml"), "--set", "model.hidden=64", "--set", "model.expert_ffn=32",
            "--tokens-per-rank", "8", "--steps", "0:1"]
HAS_NVCC = shutil.which("nvcc") is not None or pathlib.Path("/usr/local/cuda/bin/nvcc").is_file()


class Links(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = pathlib.Path(tempfile.mkdtemp(prefix="moesim-links-"))
        cls.saved = cls.folder / "small.moesim"
        cls.run_in(ROOT, MOESIM, "plan", *SCENARIO, "--save", str(cls.saved), MOESIM_DATA=str(ROOT))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    @staticmethod
    def run_in(folder, *command, code=0, **environment):
        path = f"{os.environ['PATH']}:/usr/local/cuda/bin"
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": path, "CXXFLAGS": "-O0", "CCACHE_BASEDIR": str(folder),
                                   "CCACHE_NOHASHDIR": "1", **environment})
        assert done.returncode == code, f"{command}: exit code {done.returncode}\n{(done.stdout + done.stderr)[-6000:]}"
        return done.stdout + done.stderr

    def built(self, root, setup, targets):
        """Configures as documented, but for what takes long, and builds only the programs that travel."""
        cuda = [] if HAS_NVCC else ["-Dcuda=disabled", "-Dnccl=disabled"]
        self.run_in(root, *setup, *cuda)
        build = root / "build"
        self.assertIn("unity1", "".join(path.name for path in build.glob("**/*unity1.cpp")), "unity builds are off")
        self.run_in(root, "ninja", "-C", str(build), *(t for t in targets if HAS_NVCC or "cuda" not in t))
        return build

    def check(self, build):
        hw = str(build / "realhw/cli/moesim-hw")
        table = self.run_in(build, hw, "run", "--saved", str(self.saved), "--local")
        rows = [line.split() for line in table.splitlines() if re.match(r"[a-z0-9-]+ +1 ", line)]
        self.assertEqual(len(rows), 10, table)
        self.assertEqual({row[-1] for row in rows}, {"0"}, table)
        if HAS_NVCC and not pathlib.Path("/dev/nvidiactl").exists():
            self.run_in(build, str(build / "tests/realhw/cuda/cuda-tests"), code=77)

    def test_a_carried_binary(self):
        page = (ROOT / "docs/gpu.md").read_text(encoding="utf-8")
        setup, targets = re.search(r"^(meson setup carry .*) && ninja -C carry (.*)$", page, re.M).groups()
        root = self.folder / "carry"
        root.mkdir()
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, root / name)
        build = self.built(root, shlex.split(setup.replace("setup carry", "setup build")), targets.split())
        self.check(build)
        needed = self.run_in(build, "readelf", "-d", "realhw/cli/moesim-hw")
        libraries = set(re.findall(r"NEEDED.*\[(.*?)\.so", needed))
        self.assertLessEqual(libraries, {"libm", "libgcc_s", "libc", "ld-linux-x86-64", "ld-linux-aarch64"}, needed)
        self.assertNotRegex(needed, "RPATH|RUNPATH")
        symbols = self.run_in(build, "objdump", "-T", "realhw/cli/moesim-hw")
        newest = max(tuple(map(int, version.split("."))) for version in re.findall(r"GLIBC_([\d.]+)", symbols))
        self.assertLessEqual(newest, (2, 34))

    def test_packed_sources(self):
        archive = self.folder / "moesim.tar.gz"
        self.run_in(ROOT, str(ROOT / "scripts/gpu_pack"), str(archive), str(self.saved))
        self.run_in(self.folder, "tar", "xf", str(archive))
        root = self.folder / "moesim"
        dry = subprocess.run([str(root / "scripts/gpu_check"), "--dry-run"], cwd=root, capture_output=True, text=True,
                             check=False).stdout
        setup = re.search(r"^(?:[A-Z_]+=\S+ )*(meson setup .*) > ", dry, re.M).group(1)
        targets = re.search(r"ninja -C \S+ (.*) > ", dry).group(1)
        words = [str(root / "build") if word.endswith("gpu-check/build") else word for word in shlex.split(setup)]
        self.check(self.built(root, words, targets.split()))


if __name__ == "__main__":
    if shutil.which("meson") is None or not (ROOT / ".git").exists():
        print("no meson, or no git repository")
        sys.exit(77)
    MOESIM = os.path.abspath(sys.argv.pop(1))
    unittest.main()
