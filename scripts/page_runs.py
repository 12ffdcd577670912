# SPDX-License-Identifier: Apache-2.0
"""Pages as scripts: their commands are run as a reader would, in one folder that the blocks of a page share.

A fenced block "sh" is run, "yaml NAME" and "python NAME" are written as files; "text" and all others are only read.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^```(?P<language>\w*)[ ]?(?P<name>\S*)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)


class CommandFailed(Exception):
    """A command of a page, with what it said."""


def environment(moesim):
    """A shell in which `moesim` is on the path and names are found, as after an installation."""
    path = os.pathsep.join([str(pathlib.Path(moesim).resolve().parent), str(pathlib.Path(sys.executable).parent),
                            os.environ["PATH"]])
    return os.environ | {"PATH": path, "MOESIM_DATA": str(ROOT), "PYTHONPATH": str(ROOT / "scripts" / "python")}


class PageRun:
    """The blocks of one page, run one after the other in a folder."""

    def __init__(self, moesim, folder, timeout=None):
        self.environment, self.folder, self.timeout = environment(moesim), pathlib.Path(folder), timeout
        self.last = None  # what the last "sh" block printed

    def run(self, block):
        """Runs or writes a fenced block; whether it was a "sh" block."""
        if block["language"] == "sh":
            done = subprocess.run(["bash", "-eo", "pipefail", "-c", block["body"]], cwd=self.folder, text=True,
                                  timeout=self.timeout, capture_output=True, env=self.environment, check=False)
            if done.returncode != 0:
                raise CommandFailed(block["body"] + done.stdout[-1000:] + done.stderr[-1000:])
            self.last = done
        elif block["name"] and block["language"] in ("yaml", "python"):
            (self.folder / block["name"]).write_text(block["body"], encoding="utf-8")
        return block["language"] == "sh"
