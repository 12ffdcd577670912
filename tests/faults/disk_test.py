#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Disks that are full, small or read-only, memory that runs out, traces that change: a message names it, no file is half there.

usage: disk_test.py MOESIM ROOT

Full and read-only disks are mounted in a namespace of the test's own; skipped where that is not allowed.
"""
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from runs import CASE, environment, has_address_sanitizer, wait_until_gone

MOESIM, ROOT = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
COMPARE = ["compare", *CASE, "--policy", "alltoall,dedup", "--steps", "0", "--layers", "1"]
SYNTH = ["trace", "synth", "--experts", "64", "--top-k", "4", "--layers", "4", "--tokens", "20000", "--steps", "2"]
GRID = "topology: h100-rail\nmodel: tiny-moe\ntrace: tiny-moe-train\nsteps: 0\npolicy: [alltoall]\naxes:\n  topology.nodes: [1, 2]\n"
# What writes, and how the new name is asked for.
WRITERS = {
    "json": [*COMPARE, "--json", "new"],
    "report": [*COMPARE, "--report", "new"],
    "timeline": [*COMPARE, "--timeline", "new"],
    "trace": [*SYNTH, "-o", "new"],
    "sweep": ["sweep", "GRID", "-o", "new", "-j", "1"],
}
FULL = "mount -t tmpfs -o size=64k none . && cd . && head -c 65536 /dev/zero > full"
READ_ONLY = "mount -t tmpfs -o size=64k none . && cd $PWD && touch full && mount -o remount,ro ."


class Faults(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="moesim-disk-"))
        self.addCleanup(shutil.rmtree, self.folder, True)
        grid = tempfile.NamedTemporaryFile("w", suffix=".yaml")
        self.addCleanup(grid.close)
        grid.write(GRID)
        grid.flush()
        self.grid = grid.name

    def run_moesim(self, words, before=(), **limits):
        words = [self.grid if word == "GRID" else word for word in words]

        def limit():
            for name, value in limits.items():
                resource.setrlimit(getattr(resource, name), (value, value))

        return subprocess.run([*before, MOESIM, *words], cwd=self.folder, env=environment(ROOT), capture_output=True, text=True,
                              check=False, timeout=100, start_new_session=True, preexec_fn=limit)

    def assert_refused(self, name, done, reason):
        self.assertIn(done.returncode, (1, 2), f"{name}: {done.stderr}")
        self.assertRegex(done.stderr, reason, name)

    def on_disk(self, mount, reason):
        """Every writer on a disk that a command mounts."""
        shell = f'cd "$PWD" && {mount} && cd "$PWD" && "$@"; code=$?; echo left: $(ls -A) >&2; exit $code'
        before = ["unshare", "--mount", "--propagation", "private", "sh", "-c", shell, "sh"]
        tried = subprocess.run([*before, "true"], cwd=self.folder, capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            self.skipTest(f"no private mounts: {tried.stderr.strip()}")
        for name, words in WRITERS.items():
            with self.subTest(writer=name):
                done = self.run_moesim(words, before)
                self.assert_refused(name, done, reason)
                self.assertEqual(done.stderr.splitlines()[-1], "left: full")

    def test_full_disk(self):
        self.on_disk(FULL, "No space left on device|disk is full")

    def test_read_only_disk(self):
        self.on_disk(READ_ONLY, "Read-only file system|new: error: cannot write to this file")

    def test_limit_of_file_sizes(self):
        for name, words in WRITERS.items():
            with self.subTest(writer=name):
                done = self.run_moesim(words, RLIMIT_FSIZE=512)
                self.assert_refused(name, done, "File too large|disk is full|disk I/O error")
                self.assertEqual(os.listdir(self.folder), [])

    def test_output_that_cannot_be_taken(self):
        with open("/dev/full", "w", encoding="ascii") as full:
            done = subprocess.run([MOESIM, *COMPARE], env=environment(ROOT), stdout=full, stderr=subprocess.PIPE, text=True,
                                  check=False)
        self.assert_refused("stdout", done, "cannot write the output: No space left on device")

    @unittest.skipIf(has_address_sanitizer(MOESIM), "AddressSanitizer reserves more than any limit here")
    def test_memory_that_runs_out(self):
        least = 8 << 20
        while self.run_moesim(["--version"], RLIMIT_AS=least).returncode != 0:
            least += 1 << 20
        outcomes = []
        for more in (1, 8, 16, 24, 32, 48, 64, 128, 512):
            with self.subTest(mebibytes=more):
                words = [*COMPARE, "--fidelity", "port,flow", "--workers", "1", "--json", "new", "--report", "page"]
                done = self.run_moesim(words, RLIMIT_AS=least + (more << 20))
                outcomes.append(done.returncode)
                if done.returncode == 0:
                    (self.folder / "new").unlink()
                    (self.folder / "page").unlink()
                else:
                    self.assert_refused(more, done, "out of memory|Cannot allocate memory")
                self.assertEqual(os.listdir(self.folder), [])
        self.assertIn(0, outcomes)
        self.assertNotEqual(outcomes[0], 0)

    def test_a_trace_that_changes_meanwhile(self):
        def cut(path):
            os.truncate(path, 100)

        def write_over(path):
            with open(path, "r+b") as file:
                file.seek(200)
                file.write(b"\0" * 64)

        def write_nonsense(path):  # ids that are none: the run fails by them
            with open(path, "r+b") as file:
                file.seek(128)
                file.write(b"\xff" * 64)

        def set_back(path):  # as rsync --times leaves it
            before = os.stat(path)
            write_over(path)
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

        for change, reason in ((cut, "cut short or replaced while it was read|was changed while it was read"),
                               (write_over, "was changed while it was read"),
                               (write_nonsense, "was changed while it was read"),
                               (set_back, "was changed while it was read")):
            with self.subTest(change=change.__name__):
                trace = self.folder / "trace"
                shutil.copytree(ROOT / "tests/fixtures/traces/hand", trace)
                process = subprocess.Popen(
                    [MOESIM, "compare", "--topology", "two-by-two", "--model", "hand", "--trace", trace, "--policy", "megatron",
                     "--repeat", "10000", "--tokens-per-rank", "2", "--workers", "1", "--json", "new"],
                    cwd=self.folder, env=environment(ROOT / "tests/cli/data"), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    start_new_session=True)
                children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
                while process.poll() is None and not children.read_text():  # until its worker is at work
                    time.sleep(0.002)
                for path in trace.rglob("ids.npy"):
                    change(path)
                _, error = process.communicate(timeout=100)
                self.assertIn(process.returncode, (1, 2), error)
                self.assertRegex(error, r"trace/step-\d+/ids.npy: error: .*(" + reason + ")")
                self.assertEqual(wait_until_gone(process.pid), [])
                self.assertEqual(os.listdir(self.folder), ["trace"])
                shutil.rmtree(trace)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
