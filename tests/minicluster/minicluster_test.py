# SPDX-License-Identifier: Apache-2.0
"""scripts/minicluster: what it would run, how it describes itself, and (with privileges) real runs that leave nothing."""
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).parents[2]
SCRIPT = ROOT / "scripts" / "minicluster"
GOLDEN = pathlib.Path(__file__).parent / "golden"
SKIPPED = 77


def minicluster(*arguments, **more):
    return subprocess.run([sys.executable, SCRIPT, *arguments], capture_output=True, text=True, check=False,
                          timeout=60, **more)


class Golden(unittest.TestCase):
    def compare(self, name, text):
        path = GOLDEN / name
        if os.environ.get("MOESIM_ACCEPT") == "1":
            path.write_text(text, encoding="utf-8")
        self.assertEqual(text, path.read_text(encoding="utf-8"), f"MOESIM_ACCEPT=1 rewrites {path}")

    def test_dry_run(self):
        result = minicluster("run", "--hosts", "2", "--dry-run", "--", "program", "an argument")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.compare("dry-run.txt", result.stdout)

    def test_description(self):
        result = minicluster("describe", "--hosts", "2", "--rate", "1gbit", "--latency", "30us")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.compare("describe.yaml", result.stdout)

    def test_description_in_a_file(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder, "mini.yaml")
            self.assertEqual(minicluster("describe", "-o", str(path)).returncode, 0)
            self.assertEqual(path.read_text(encoding="utf-8"), minicluster("describe").stdout)
            self.assertEqual(list(path.parent.iterdir()), [path])

    def test_bad_options(self):
        for words in (["--hosts", "0"], ["--rate", "fast"], ["--rate", "0mbit"], ["--ranks", "x"]):
            result = minicluster("describe", *words)
            self.assertEqual(result.returncode, 2, words)
            self.assertIn(words[0], result.stderr)


class Real(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.environment = dict(os.environ, TMPDIR=self.folder)

    def real(self, *arguments):
        result = minicluster(*arguments, env=self.environment)
        if result.returncode == SKIPPED:
            self.skipTest(result.stderr.strip())
        return result

    def test_rates_are_those_asked_for(self):
        result = self.real("measure", "--hosts", "2", "--repeat", "1", "--seconds", "0.5", "--rate", "100mbit",
                           "--local-rate", "400mbit")
        self.assertEqual(result.returncode, 0, result.stderr)
        rates = [float(line.split(": ")[1].split()[0]) for line in result.stdout.splitlines()]
        self.assertEqual(len(rates), 2, result.stdout)
        # Bursts make short runs a little faster, a busy machine makes them slower.
        self.assertTrue(40 < rates[0] < 105, result.stdout)
        self.assertTrue(rates[0] < rates[1] < 420, result.stdout)
        self.assertEqual(os.listdir(self.folder), [])

    def test_runs_a_program_on_every_rank(self):
        result = self.real("run", "--hosts", "3", "--ranks", "2", "--", "sh", "-c",
                           'echo "$(hostname) $OMPI_COMM_WORLD_RANK $(basename $TMPDIR) $(ls /dev/shm | wc -l)"')
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(result.stdout.splitlines()),
                         [f"mini{r // 2} {r} tmp{r // 2} 0" for r in range(6)])
        self.assertEqual(os.listdir(self.folder), [])

    def test_passes_on_how_the_program_ended(self):
        self.assertEqual(self.real("run", "--hosts", "1", "--", "sh", "-c", "exit 3").returncode, 3)

    def killed(self, number):
        probe = self.real("measure", "--hosts", "1", "--repeat", "1", "--seconds", "0.01")
        self.assertEqual(probe.returncode, 0, probe.stderr)
        running = subprocess.Popen([sys.executable, SCRIPT, "measure", "--hosts", "2", "--seconds", "60"],
                                   env=self.environment, stdout=subprocess.DEVNULL)
        children = pathlib.Path(f"/proc/{running.pid}/task/{running.pid}/children")
        deadline = time.monotonic() + 10
        while len(children.read_text().split()) < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        pids = children.read_text().split()
        running.send_signal(number)
        running.wait(timeout=10)
        deadline = time.monotonic() + 10
        while any(pathlib.Path("/proc", pid).exists() for pid in pids) and time.monotonic() < deadline:
            time.sleep(0.05)
        return [pid for pid in pids if pathlib.Path("/proc", pid).exists()]

    def test_nothing_is_left_when_it_is_terminated(self):
        self.assertEqual(self.killed(signal.SIGTERM), [])
        self.assertEqual(os.listdir(self.folder), [])

    def test_clean_removes_what_a_killed_one_leaves(self):
        self.assertEqual(self.killed(signal.SIGKILL), [])
        self.assertEqual(len(os.listdir(self.folder)), 1)
        self.assertIn("removed", minicluster("clean", env=self.environment).stdout)
        self.assertEqual(os.listdir(self.folder), [])


if __name__ == "__main__":
    unittest.main()
