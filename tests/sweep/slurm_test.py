# SPDX-License-Identifier: Apache-2.0
"""A sweep on a real Slurm of one node makes the rows of one process; skips if there is no Slurm.

usage: slurm_test.py MOESIM
"""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import sweep_command_test as sweeps  # noqa: E402

MOESIM = ""
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "squeue", "sinfo", "scontrol")
PATIENCE = 60  # seconds
CONF = """ClusterName=one
SlurmctldHost={host}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket,cred_expire=5
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0,sched_min_interval=0
ReturnToService=2
NodeName={host} CPUs={cores} State=UNKNOWN
PartitionName=cpu Nodes=ALL Default=YES State=UP
"""


def found(program):
    return shutil.which(program, path=os.environ["PATH"] + os.pathsep + "/usr/sbin")


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    for each in sockets:
        each.bind(("", 0))
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


@unittest.skipUnless(os.geteuid() == 0 and all(found(program) for program in PROGRAMS), "no Slurm here")
class OneNodeSlurm(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.started = []
        self.addCleanup(self.stop)
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        conf = self.folder / "slurm.conf"
        conf.write_text(CONF.format(host=socket.gethostname().split(".")[0], folder=self.folder, ports=free_ports(2),
                                    cores=os.cpu_count()), encoding="ascii")
        self.environment = sweeps.environment({"SLURM_CONF": str(conf)})
        self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.socket",
                   f"--pid-file={self.folder}/munged.pid", f"--log-file={self.folder}/munged.log",
                   f"--seed-file={self.folder}/munged.seed")
        self.wait(lambda: (self.folder / "munge.socket").exists(), "munged")
        self.start("slurmctld", "-D", "-f", str(conf))
        self.start("slurmd", "-D", "-f", str(conf))
        self.wait(lambda: "idle" in self.printed("sinfo", "-h"), "a node")
        (self.folder / "grid.yaml").write_text(sweeps.GRID, encoding="utf-8")
        self.sweep("one.sqlite", "-j", "1")
        self.expected = sweeps.rows_of(self.folder / "one.sqlite")

    def start(self, program, *flags):
        self.started.append(subprocess.Popen([found(program), *flags], env=self.environment, cwd=self.folder,
                                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))

    def stop(self):
        for process in reversed(self.started):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def printed(self, *words):
        return subprocess.run([found(words[0]), *words[1:]], env=self.environment, cwd=self.folder, text=True,
                              capture_output=True, check=False).stdout

    def wait(self, done, what):
        end = time.monotonic() + PATIENCE
        while not (result := done()):
            if time.monotonic() > end:
                self.skipTest(f"no {what} within {PATIENCE} s")
            time.sleep(0.05)
        return result

    def sweep(self, output, *flags, by=()):
        done = subprocess.run([*by, MOESIM, "sweep", "grid.yaml", "-q", "-o", output, *flags], cwd=self.folder,
                              env=self.environment, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_array_and_srun_make_the_rows_of_one_process(self):
        self.assertIn("merges into array.sqlite", self.sweep("array.sqlite", "-j", "1", "--slurm", "--array=0-3"))
        self.wait(lambda: not self.printed("squeue", "-h"), "end of the jobs")
        logs = "".join(path.read_text() for path in sorted(self.folder.glob("array.sqlite.slurm-*")))
        self.assertTrue((self.folder / "array.sqlite").exists(), logs)
        self.assertEqual(sweeps.rows_of(self.folder / "array.sqlite"), self.expected, logs)
        self.sweep("srun.sqlite", by=(found("srun"), "-n", "4", "--overcommit"))
        self.assertEqual(sweeps.rows_of(self.folder / "srun.sqlite"), self.expected)
        self.assertEqual([path.name for path in self.folder.glob("srun.sqlite*")], ["srun.sqlite"])

    def task_at_work(self, output):
        """The process of a task that has stored rows, and its job; nothing before."""
        try:
            if not any(sweeps.rows_of(part) for part in self.folder.glob(f"{output}.part-?-of-?")):
                return None
        except sqlite3.OperationalError:
            return None  # in the making
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
                if b"--shard" not in words or output.encode() not in words:
                    continue
                pairs = (pair.partition(b"=") for pair in (process / "environ").read_bytes().split(b"\0"))
                job = {name: value.decode() for name, _, value in pairs}.get(b"SLURM_JOB_ID")
            except OSError:
                continue
            if job:
                return int(process.name), job
        return None

    @staticmethod
    def wake(process):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGCONT)

    def test_requeued_task_goes_on_where_it_was(self):
        self.sweep("again.sqlite", "-j", "1", "--slurm", "--array=0-1%1")
        process, job = self.wait(lambda: self.task_at_work("again.sqlite"), "task at work")
        os.kill(process, signal.SIGSTOP)  # it ends no sooner than Slurm sends it away
        self.addCleanup(self.wake, process)
        subprocess.run([found("scontrol"), "requeue", job], env=self.environment, check=True)
        self.wait(lambda: "Restarts=1" in self.printed("scontrol", "show", "job", job), "requeue")
        self.wait(lambda: not self.printed("squeue", "-h"), "end of the jobs")
        logs = "".join(path.read_text() for path in sorted(self.folder.glob("again.sqlite.slurm-*")))
        self.assertIn("the same command continues", logs)
        self.assertEqual(sweeps.rows_of(self.folder / "again.sqlite"), self.expected, logs)


if __name__ == "__main__":
    MOESIM = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
