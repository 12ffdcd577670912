#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CUDA's parts are found in a toolkit, and in Python environments where pip or conda have put them."""
import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).parents[1]
SCRIPT = ROOT / "realhw" / "cuda" / "find_cuda.py"
TOOLKIT = ("include/cuda_runtime.h", "lib64/libcudart_static.a")
# What pip's packages of CUDA 12 and 13 hold, below site-packages/nvidia.
NCCL = ("nccl/include/nccl.h", "nccl/lib/libnccl.so.2")
CUDA_12 = ("cublas/include/cublas_v2.h", "cublas/lib/libcublas.so.12", "cuda_runtime/include/cuda_runtime.h")
CUDA_13 = ("cu13/include/cublas_v2.h", "cu13/lib/libcublas.so.13", "cu13/include/cuda_runtime.h",
           "cu13/lib/libcudart_static.a")


class Machine(unittest.TestCase):
    """A machine below a folder: an nvcc that tells its release, and files."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="moesim-find-")).resolve()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.site = self.folder / "python/lib/python3.11/site-packages"
        self.variables = {"PATH": "/nowhere"}

    def put(self, folder, *names):
        for name in names:
            path = self.folder / folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()

    def wheels(self, *names):
        self.put(self.site / "nvidia", *names)

    def nvcc(self, release, folder="cuda"):
        self.put(folder, "bin/nvcc")
        path = self.folder / folder / "bin/nvcc"
        path.write_text(f"#!/bin/sh\necho Cuda compilation tools, release {release}, V{release}.88\n")
        path.chmod(0o755)
        return str(path)

    def find(self, nvcc, *names, python=sys.executable, **variables):
        """Folders below the machine's own; without sites, so that packages of this machine are not found."""
        return subprocess.run([python, "-S", str(SCRIPT), nvcc, *names], env={**self.variables, **variables},
                              capture_output=True, text=True, check=False, timeout=60)

    def expect(self, done, *folders):
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.splitlines(), [str(self.folder / folder) for folder in folders])

    def module(self, **variables):
        """The functions, with that environment and no sites."""
        spec = importlib.util.spec_from_file_location("find_cuda", SCRIPT)
        module = importlib.util.module_from_spec(spec)
        for patch in (mock.patch.object(sys, "dont_write_bytecode", True), mock.patch.object(sys, "path", []),
                      mock.patch.dict(os.environ, {**self.variables, **variables}, clear=True)):
            patch.start()
            self.addCleanup(patch.stop)
        spec.loader.exec_module(module)
        return module


class Headers(Machine):
    def test_of_a_toolkit_come_first(self):
        nvcc = self.nvcc("13.0")
        self.put("cuda", *TOOLKIT, "include/cublas_v2.h", "include/nccl.h")
        self.wheels(*NCCL, *CUDA_13)
        self.expect(self.find(nvcc, "cuda_runtime.h", "cublas_v2.h", "libcudart_static.a", "nccl.h",
                              VIRTUAL_ENV=str(self.folder / "python"), CUDA_HOME=str(self.site / "nvidia/cu13")),
                    "cuda/include", "cuda/include", "cuda/lib64", "cuda/include")

    def test_that_a_toolkit_lacks_come_from_packages_of_its_cuda(self):
        self.wheels(*NCCL, *CUDA_12, *CUDA_13)
        for release, cublas in (("12.8", "cublas"), ("13.0", "cu13")):
            nvcc = self.nvcc(release)
            self.put("cuda", *TOOLKIT)
            for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
                done = self.find(nvcc, "cuda_runtime.h", "cublas_v2.h", "libcudart_static.a", "nccl.h",
                                 **{variable: str(self.folder / "python")})
                nvidia = self.site / "nvidia"
                self.expect(done, "cuda/include", nvidia / cublas / "include", "cuda/lib64", nvidia / "nccl/include")

    def test_of_an_environment_that_is_on_the_path_alone(self):
        nvcc = self.nvcc("13.0")
        self.wheels(*NCCL)
        (self.folder / "python/bin").mkdir()
        (self.folder / "python/bin/python3").symlink_to(sys.executable)
        self.expect(self.find(nvcc, "nccl.h", PATH=str(self.folder / "python/bin")), self.site / "nvidia/nccl/include")

    def test_of_this_python(self):
        nvcc = self.nvcc("13.0")
        self.wheels(*NCCL)
        self.expect(self.find(nvcc, "nccl.h", PYTHONPATH=str(self.site)), self.site / "nvidia/nccl/include")

    def test_of_conda(self):
        nvcc = self.nvcc("12.4", folder="conda")
        self.put("conda", "targets/x86_64-linux/include/cuda_runtime.h", "targets/x86_64-linux/lib/libcudart_static.a",
                 "include/nccl.h")
        self.expect(self.find(nvcc, "cuda_runtime.h", "libcudart_static.a", "nccl.h"),
                    "conda/targets/x86_64-linux/include", "conda/targets/x86_64-linux/lib", "conda/include")

    def test_of_an_nvcc_that_is_a_link(self):
        nvcc = self.nvcc("13.0")
        self.put("cuda", *TOOLKIT)
        (self.folder / "bin").mkdir()
        (self.folder / "bin/nvcc").symlink_to(nvcc)
        self.expect(self.find(str(self.folder / "bin/nvcc"), "cuda_runtime.h"), "cuda/include")

    def test_where_variables_say(self):
        nvcc = self.nvcc("13.0")
        self.put("cuda", "include/nccl.h", "include/cublas_v2.h")
        self.put("nccl", "include/nccl.h")
        self.put("cublas", "include/cublas_v2.h")
        self.put("home", *TOOLKIT)
        self.put("listed", "some.h")
        done = self.find(nvcc, "nccl.h", "cublas_v2.h", "cuda_runtime.h", "some.h", NCCL_HOME=str(self.folder / "nccl"),
                         CUBLAS_HOME=str(self.folder / "cublas"), CUDA_HOME=str(self.folder / "home"),
                         CPATH=f"/nowhere::{self.folder / 'listed'}")
        self.expect(done, "nccl/include", "cublas/include", "home/include", "listed")

    def test_that_are_nowhere_are_named(self):
        self.put("cuda", *TOOLKIT)
        done = self.find(self.nvcc("13.0"), "cuda_runtime.h", "no_1.h", "no_2.h")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, "^find_cuda: no_1.h, no_2.h: not found around .*cuda/bin/nvcc")


class Packages(Machine):
    def names(self, major):
        return [path.name for path in self.module(VIRTUAL_ENV=str(self.folder / "python")).packages(major)]

    def test_fit_the_cuda_of_the_compiler(self):
        self.wheels(*NCCL, *CUDA_12, *CUDA_13, "cu9/include/x.h", "__init__.py")
        self.assertEqual(self.names(13), ["cu13", "nccl"])
        self.assertEqual(self.names(12), ["cublas", "cuda_runtime", "nccl"])
        self.assertEqual(self.names(None), ["cu13", "cu9", "cublas", "cuda_runtime", "nccl"])

    def test_libraries_fit_it_too(self):
        self.wheels(*NCCL, *CUDA_12, *CUDA_13)
        module = self.module(VIRTUAL_ENV=str(self.folder / "python"))
        nvidia = self.site / "nvidia"
        for release, cublas in (("12.8", "cublas/lib/libcublas.so.12"), ("13.0", "cu13/lib/libcublas.so.13")):
            self.assertEqual(module.find_libraries(self.nvcc(release)),
                             {"nccl": str(nvidia / "nccl/lib/libnccl.so.2"), "cublas": str(nvidia / cublas)})
        self.assertEqual(module.find_libraries("")["cublas"], str(nvidia / "cu13/lib/libcublas.so.13"))
        self.assertEqual(module.find_libraries(self.nvcc("11.8"))["cublas"], "")

    def test_may_hold_nvcc(self):
        self.assertEqual(self.module().major_of("/no/nvcc"), None)
        nvcc = self.nvcc("13.0", folder=self.site / "nvidia/cu13")
        module = self.module(VIRTUAL_ENV=str(self.folder / "python"))
        if not pathlib.Path("/usr/local/cuda/bin/nvcc").exists():
            self.assertEqual(module.find_nvcc(), nvcc)
        with mock.patch.dict(os.environ, {"CUDA_HOME": str(self.site / "nvidia/cu13")}):
            self.assertEqual(module.find_nvcc(), nvcc)
        self.assertEqual(module.major_of(nvcc), 13)


class Configuration(Machine):
    """With the real nvcc, in a toolkit that has neither nccl.h nor cuBLAS."""

    def setUp(self):
        super().setUp()
        nvcc = shutil.which("nvcc")
        if not nvcc or not shutil.which("meson"):
            self.skipTest("needs nvcc and meson")
        self.real = pathlib.Path(nvcc).resolve().parents[1]
        found = {name: self.find(nvcc, name).stdout.strip() for name in ("nccl.h", "cublas_v2.h")}
        if not all(found.values()):
            self.skipTest("needs nccl.h and cublas_v2.h")
        self.toolkit = self.folder / "cuda"
        (self.toolkit / "include").mkdir(parents=True)
        self.link(self.real, self.toolkit, lambda name: name not in ("include", "targets"))
        self.link(self.real / "include", self.toolkit / "include", lambda name: not name.startswith(("cublas", "nccl")))
        (self.toolkit / "targets").mkdir()
        (self.toolkit / "targets/x86_64-linux").symlink_to(self.toolkit)
        # A copy: nvcc looks for its toolkit where the file itself is.
        (self.toolkit / "bin").unlink()
        shutil.copytree(self.real / "bin", self.toolkit / "bin", symlinks=True)
        for package, name in (("nccl", "nccl.h"), (f"cu{self.major()}", "cublas_v2.h")):
            into = self.site / "nvidia" / package / "include"
            into.mkdir(parents=True)
            self.link(pathlib.Path(found[name]), into, lambda file, start=name[:4]: file.startswith(start))

    def major(self):
        told = subprocess.run(["nvcc", "--version"], capture_output=True, text=True, check=True).stdout
        return told.split("release ")[1].split(".")[0]

    @staticmethod
    def link(source, target, wanted):
        for path in source.iterdir():
            if wanted(path.name):
                (target / path.name).symlink_to(path)

    def configured(self, **variables):
        env = {name: value for name, value in os.environ.items() if not name.startswith(("CUDA", "NCCL", "CPATH"))}
        env = {**env, "PATH": f"{self.toolkit / 'bin'}:{os.environ['PATH']}", **variables}
        return subprocess.run(["meson", "setup", str(self.folder / "build"), str(ROOT), "-Dcuda=enabled", "-Dnccl=enabled",
                               "-Dsimulator=disabled", "-Dscenarios=disabled", "-Dmpi=disabled"],
                              env=env, capture_output=True, text=True, check=False)

    def test_takes_headers_of_packages(self):
        done = self.configured(VIRTUAL_ENV=str(self.folder / "python"))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        ninja = (self.folder / "build/build.ninja").read_text(encoding="utf-8")
        for package in ("nccl", f"cu{self.major()}"):
            # After the compiler's own: a package may hold headers of another release.
            self.assertIn(f"-idirafter{self.site}/nvidia/{package}/include", ninja)
        self.assertIn(f"-isystem{self.toolkit}/include", ninja)
        # Of device code -G leaves nothing optimized.
        kernel = [line for line in ninja.split("\n") if line.startswith(" ARGS") and "-gencode" in line]
        self.assertTrue(kernel)
        self.assertFalse([line for line in kernel if " -G " in line], kernel)

    def test_names_what_is_nowhere(self):
        done = self.configured()
        if done.returncode == 0:
            self.skipTest("this machine has them elsewhere")
        self.assertRegex(done.stdout + done.stderr, r"find_cuda: cublas_v2\.h: not found around")


if __name__ == "__main__":
    unittest.main()
