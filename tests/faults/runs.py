# SPDX-License-Identifier: Apache-2.0
"""Runs of moesim that tests break or surround with other settings."""
import os
import pathlib
import time

CASE = ["--topology", "h100-rail", "--set", "topology.nodes=2", "--model", "tiny-moe", "--trace", "tiny-moe-train"]


def environment(root, **variables):
    """The caller's, with the data of these sources."""
    env = {name: value for name, value in os.environ.items() if name != "MOESIM_DATA"}
    env.update(MOESIM_DATA=str(root), **variables)
    return env


def has_address_sanitizer(program):
    """Whether a program reserves terabytes of addresses, which no limit of memory allows for."""
    return b"__asan_init" in pathlib.Path(program).read_bytes()


def files_of(folder):
    """The content of every file below a folder, by path."""
    folder = pathlib.Path(folder)
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def members(group):
    """Living processes of a process group."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            state, _, its_group = (entry / "stat").read_text().rsplit(")", 1)[1].split()[:3]
        except OSError:
            continue
        if int(its_group) == group and state not in "ZX":
            found.append(int(entry.name))
    return found


def wait_until_gone(group, seconds=10):
    """The processes of a group that are still there after so long."""
    end = time.monotonic() + seconds
    while members(group) and time.monotonic() < end:
        time.sleep(0.02)
    return members(group)
