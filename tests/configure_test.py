#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The simulator configures without MPI and hardware, hardware without SimGrid. Only configuration: nothing is built."""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[1]


class Configuration(unittest.TestCase):
    def configured(self, *options):
        """Names of the targets, and the text of build.ninja."""
        folder = tempfile.mkdtemp(prefix="moesim-configure-")
        self.addCleanup(shutil.rmtree, folder, True)
        setup = subprocess.run(["meson", "setup", folder, str(ROOT), "-Dunity=off", "-Dcuda=disabled", *options], capture_output=True, text=True,
                               check=False)
        self.assertEqual(setup.returncode, 0, setup.stdout + setup.stderr)
        targets = subprocess.run(["meson", "introspect", folder, "--targets"], capture_output=True, text=True,
                                 check=True)
        return ({target["name"] for target in json.loads(targets.stdout)},
                pathlib.Path(folder, "build.ninja").read_text(encoding="utf-8"))

    def test_simulator_without_mpi_and_hardware(self):
        names, ninja = self.configured("-Dmpi=disabled", "-Dhardware=disabled", "-Dsimulator=enabled")
        self.assertLessEqual({"moesim", "engine-tests", "cli-tests", "scenario_test"}, names)
        self.assertFalse([name for name in names if "hw" in name or "mpi" in name], names)
        self.assertNotIn("openmpi", ninja)
        self.assertNotIn("realhw/core", ninja)

    def test_moesim_without_simgrid(self):
        names, ninja = self.configured("-Dsimgrid=disabled", "-Dtests=false", "-Dhardware=disabled")
        self.assertIn("moesim", names)
        self.assertNotRegex(ninja, "libsimgrid|-lsimgrid|simgrid_simulator")

    def test_hardware_without_simgrid(self):
        names, ninja = self.configured("-Dsimulator=disabled", "-Dhardware=enabled")
        self.assertLessEqual({"moesim-hw", "realhw-tests"}, names)
        self.assertFalse({"moesim", "engine-tests", "cli-tests"} & names, names)
        self.assertNotRegex(ninja, "libsimgrid|-lsimgrid|simgrid_simulator")

    def test_hardware_without_yaml(self):
        names, ninja = self.configured("-Dscenarios=disabled", "-Dhardware=enabled")
        self.assertIn("moesim-hw", names)
        self.assertNotIn("moesim", names)
        for source in ("realhw/cli/calibrate_command.cpp", "realhw/calibrate/saved_calibration.cpp"):
            self.assertIn(source, ninja)
        for source in ("yaml-cpp", "realhw/calibrate/planned_calibration.cpp", "sim/mechanism", "sim/planner", "sim/scenario"):
            self.assertNotIn(source, ninja)

    def test_hardware_without_mpi(self):
        names, ninja = self.configured("-Dmpi=disabled", "-Dhardware=enabled")
        self.assertIn("moesim-hw", names)
        self.assertNotIn("mpi-suite", names)
        self.assertNotIn("openmpi", ninja)

    def test_a_cross_build_runs_nothing_that_it_builds(self):
        with tempfile.NamedTemporaryFile("w", suffix=".ini") as machine:
            machine.write("[binaries]\ncpp = 'c++'\nar = 'ar'\nstrip = 'strip'\npkgconfig = 'pkg-config'\n"
                          "[properties]\nneeds_exe_wrapper = true\n"
                          "[host_machine]\nsystem = 'linux'\ncpu_family = 'x86_64'\ncpu = 'x86_64'\nendian = 'little'\n")
            machine.flush()
            names, ninja = self.configured("--cross-file", machine.name, "-Dmpi=disabled", "-Dsimulator=enabled", "-Dhardware=disabled",
                                           "-Dtests=false")
        self.assertIn("moesim", names)
        self.assertNotIn("moesim.1", ninja)

    def test_sums_on_the_host_are_those_of_gpus_on_any_processor(self):
        _, ninja = self.configured("-Dsimulator=disabled", "-Dmpi=disabled")
        compiled = ninja.split("build realhw/host/libmoesim-realhw-host.a.p/host_device.cpp.o")[1].split("\n\n")[0]
        self.assertIn("-ffp-contract=off", compiled)

    def test_a_binary_that_travels_takes_along_archives_alone(self):
        _, ninja = self.configured("-Dcarry=true", "-Dtests=false", "-Dsimulator=disabled")
        link = ninja.split("build realhw/cli/moesim-hw: ")[1].split("\n\n")[0]
        self.assertIn("libyaml-cpp.a", link)
        self.assertIn("static-libstdc++", link)
        for library in (".so", "-lglpk", "-lmpi", "-lcrypto", "-lopenblas", "-lfmt"):
            self.assertNotIn(library, link)


if __name__ == "__main__":
    if shutil.which("meson") is None:
        print("no meson")
        sys.exit(77)
    unittest.main()
