# SPDX-License-Identifier: Apache-2.0
"""What somebody at a terminal of 80 columns sees: whole tables, colours, help, completion; and what a pipe gets.

usage: terminal_test.py MOESIM [MOESIM_HW]      with it a measurement over MPI is validated, too
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import unittest

from measured import measure

ROOT = pathlib.Path(__file__).parents[1]
QUICK = ["scenarios/quickstart.yaml", "--steps", "0"]
TABLES = [
    ["compare", *QUICK],
    ["compare", *QUICK, "--bounds", "--topology", "h100-rail"],
    ["compare", *QUICK, "--topology", "h100-rail", "--policy",
     "predictive-replication-interpretation,dynamic-grouping-interpretation", "--fidelity", "port,analytic"],
    ["run", *QUICK, "--topology", "h100-rail", "--policy", "llep"],
    ["explain", *QUICK, "--topology", "hiermoe-a6000", "--policy", "dedup"],
    ["compare", "scenarios/iteration.yaml", "--policy", "alltoall,llep", "--global-batch", "16", "--warmup", "0", "--steps", "0"],
    ["explain", "scenarios/iteration.yaml", "--policy", "llep", "--global-batch", "16", "--warmup", "0", "--steps", "0"],
    ["whatif", *QUICK, "--topology", "h100-rail", "--policy", "llep", "--scale", "nic.bandwidth=1.5"],
    ["trace", "info", "traces/tiny-moe-train"],
    ["list"], ["topology", "show", "hiermoe-a6000"], ["topology", "show", "heterogeneous"],
]
ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def on_terminal(command, columns=80, **variables):
    """What a command writes to a pseudo-terminal of so many columns, and its exit status."""
    child, terminal = pty.fork()
    if child == 0:
        fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        for name in ("COLUMNS", "NO_COLOR"):
            os.environ.pop(name, None)
        os.environ.update({"TERM": "xterm", **variables})
        os.chdir(ROOT)
        os.execv(command[0], command)
    written = b""
    while True:
        try:
            part = os.read(terminal, 1 << 16)
        except OSError:
            break
        if not part:
            break
        written += part
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    return written.decode().replace("\r\n", "\n"), os.waitstatus_to_exitcode(status)


class Terminal(unittest.TestCase):
    moesim, moesim_hw = "", None

    def piped(self, *command, status=0, **options):
        variables = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "NO_COLOR")}
        done = subprocess.run([self.moesim, *command], cwd=ROOT, capture_output=True, text=True, check=False,
                              env=variables | options.pop("env", {}), **options)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stdout

    def commands(self, above=()):
        """Every command with all above it."""
        yield list(above)
        _, _, below = self.piped(*above, "--help").partition("\nSubcommands:\n")
        for name in re.findall(r"^  ([a-z][\w-]*)", below.partition("\n\n")[0], re.MULTILINE):
            yield from self.commands((*above, name))

    def check_width(self, command, statuses=(0,)):
        with self.subTest(command=" ".join(command)):
            text, status = on_terminal([self.moesim, *command], NO_COLOR="1")
            self.assertIn(status, statuses, text)
            # A warning is one line that begins with its place, as compilers print it, however long the path.
            lines = [line for line in text.splitlines() if not re.match(r"\S+:\d+:\d+: warning: ", line)]
            self.assertEqual([line for line in lines if len(line.split("\x1b[K")[-1]) > 80], [])
            self.assertNotIn("\x1b[1m", text)
            return text
        return ""

    def test_default_tables_fit_80_columns(self):
        for command in TABLES:
            self.check_width(command)

    def test_tables_of_calibrate_and_validate_fit_80_columns(self):
        logs = [f"tests/fixtures/logs/alltoall-{i}.log" for i in (1, 2, 3)]
        with tempfile.TemporaryDirectory() as folder:
            self.assertIn("bytes on link", self.check_width(["calibrate", *logs, "--hold-out", "3", "-o", f"{folder}/my.calib.yaml"]))
            if self.moesim_hw is None:
                self.skipTest("no moesim-hw")
            measure(self.moesim_hw, f"{folder}/measured.json")
            # Exits with 1, as this machine is none that is described.
            self.assertIn("alltoall", self.check_width(["validate", f"{folder}/measured.json"], statuses=(0, 1)))

    def test_a_hint_names_the_columns_that_are_left_out(self):
        command = [self.moesim, "compare", *QUICK, "--topology", "h100-rail"]
        text, _ = on_terminal(command, NO_COLOR="1")
        hint = text[text.index("# more columns: "):].replace("\n#  ", "")
        self.assertIn("waiting, overlapped", hint)
        wide, _ = on_terminal([*command, "--wide"], NO_COLOR="1")
        self.assertNotIn("# more columns", wide)
        self.assertIn("overlapped", wide)
        self.assertNotIn("# more columns", on_terminal([*command, "--quiet"], NO_COLOR="1")[0])
        self.assertNotIn("# more columns", on_terminal(command, columns=200, NO_COLOR="1")[0])

    def test_a_pipe_gets_all_columns_and_no_colour(self):
        piped = self.piped("compare", *QUICK, "--topology", "h100-rail")
        self.assertIn("overlapped", piped)
        self.assertIn("all layers", piped)
        self.assertNotIn("\x1b", piped)
        self.assertEqual(piped, self.piped("compare", *QUICK, "--topology", "h100-rail", "--wide"))
        narrow = self.piped("compare", *QUICK, "--topology", "h100-rail", env={"COLUMNS": "80"})
        self.assertLessEqual(max(map(len, narrow.splitlines())), 80)
        self.assertNotIn("\x1b", narrow)

    def test_lists_are_for_people_in_pipes_too(self):
        self.assertLessEqual(max(map(len, self.piped("list").splitlines())), 80)
        self.assertGreater(max(map(len, self.piped("list", "--wide").splitlines())), 80)

    def test_colours_are_for_terminals_without_no_color(self):
        command = [self.moesim, "list", "gpus"]
        self.assertIn("\x1b[1m", on_terminal(command)[0])
        self.assertNotIn("\x1b", on_terminal(command, NO_COLOR="1")[0])
        self.assertNotIn("\x1b", on_terminal(command, TERM="dumb")[0])
        self.assertEqual(ESCAPES.sub("", on_terminal(command)[0]), on_terminal(command, NO_COLOR="1")[0])

    def test_help_fits_100_columns(self):
        commands = list(self.commands())
        self.assertGreater(len(commands), 15)
        for command in commands:
            with self.subTest(command=" ".join(command)):
                self.assertEqual([line for line in self.piped(*command, "--help").splitlines() if len(line) > 100], [])
        narrow, _ = on_terminal([self.moesim, "compare", "--help"])
        self.assertLessEqual(max(map(len, narrow.splitlines())), 80)

    def test_help_is_a_command_too(self):
        self.assertEqual(self.piped("help"), self.piped("--help"))
        self.assertEqual(self.piped("help", "trace", "import"), self.piped("trace", "import", "--help"))
        self.assertEqual(self.piped("-V"), self.piped("--version"))

    def test_formats_agree(self):
        command = ["compare", *QUICK, "--topology", "h100-rail", "--policy", "alltoall,llep"]
        rows = self.piped(*command, "--format", "csv").splitlines()
        names = rows[0].split(",")
        cases = json.loads(self.piped(*command, "--format", "json"))["cases"]
        self.assertEqual(len(rows), 1 + len(cases))
        for row, case in zip(rows[1:], cases):
            values = dict(zip(names, row.split(",")))
            self.assertEqual(values["policy"], case["policy"])
            self.assertAlmostEqual(float(values["step [s]"]), case["step_s"], places=12)
        listed = json.loads(self.piped("list", "topologies", "--format", "json"))["topologies"]
        self.assertTrue(all(row["description"] for row in listed))
        self.assertIn("| --- |", self.piped("list", "gpus", "--format", "markdown"))

    def test_sorts(self):
        def policies(*flags):
            lines = self.piped("compare", *QUICK, "--topology", "h100-rail", "--format", "csv", *flags).splitlines()
            return [line.split(",")[1] for line in lines[1:]]
        self.assertEqual(policies("--sort", "step"), policies("--sort", "-speedup"))
        self.assertEqual(policies("--sort", "policy"), sorted(policies()))
        self.piped("compare", *QUICK, "--topology", "h100-rail", "--sort", "stpe", status=2)

    def complete(self, *words):
        """What bash offers behind these words."""
        script = ("source <($MOESIM completion bash); COMP_WORDS=(\"$@\"); COMP_CWORD=$(($# - 1)); _moesim; "
                  "printf '%s\\n' \"${COMPREPLY[@]}\"")
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(self.moesim, f"{folder}/moesim")
            done = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, check=True, cwd=ROOT,
                                  env=os.environ | {"MOESIM": self.moesim, "PATH": folder + os.pathsep + os.environ["PATH"]})
        return done.stdout.split()

    def test_bash_completes_commands_flags_and_names(self):
        self.assertEqual(self.complete("moesim", "comp"), ["compare", "completion"])
        self.assertEqual(self.complete("moesim", "compare", "--topol"), ["--topology"])
        self.assertEqual(self.complete("moesim", "compare", "--topology", "h100"), ["h100-efa", "h100-measured", "h100-nccl", "h100-rail", "h100-roce"])
        self.assertEqual(self.complete("moesim", "trace", "imp"), ["import"])
        self.assertEqual(self.complete("moesim", "compare", "--format", "m"), ["markdown"])

    def test_other_shells_have_every_command(self):
        for shell in ("zsh", "fish"):
            script = self.piped("completion", shell)
            for command in self.commands():
                with self.subTest(shell=shell, command=command):
                    self.assertTrue(not command or command[-1] in script)
            if shutil.which(shell):
                subprocess.run([shell, "-n"], input=script, text=True, check=True)

    def test_the_manual_page_has_every_flag(self):
        page = self.piped("man")
        for command in self.commands():
            for flag in re.findall(r"^  (?:-\w,)?(--[\w-]+)", self.piped(*command, "--help"), re.MULTILINE):
                self.assertIn(flag.replace("-", "\\-"), page)
        if shutil.which("groff"):
            done = subprocess.run(["groff", "-man", "-Tascii", "-ww"], input=page, text=True, capture_output=True, check=True)
            self.assertEqual(done.stderr, "")
            self.assertGreater(len(done.stdout), 10000)


if __name__ == "__main__":
    Terminal.moesim = str(pathlib.Path(sys.argv[1]).resolve())
    if len(sys.argv) > 2:
        Terminal.moesim_hw = str(pathlib.Path(sys.argv[2]).resolve())
    unittest.main(argv=sys.argv[:1])
