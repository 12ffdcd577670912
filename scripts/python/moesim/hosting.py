# SPDX-License-Identifier: Apache-2.0
"""Lets moesim ask Python functions of this process: a socket for each, whose other end relay.py joins to moesim."""

import contextlib
import os
import shlex
import socket
import sys
import tempfile
import threading

from moesim.policy import Placement


def _answer(planner, server):
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_converse, args=(planner, connection), daemon=True).start()


def _converse(planner, connection):
    with connection, connection.makefile("rb") as lines, connection.makefile("w", encoding="utf-8") as out:
        try:
            planner.serve(lines, out)
        except BrokenPipeError:
            pass
        except Exception as error:  # noqa: BLE001  moesim shows it
            with contextlib.suppress(OSError):
                out.write(f"{type(error).__name__}: {error}\n")


@contextlib.contextmanager
def hosted(policies):
    """Names for policies of which some are Placements: these are files, whose command asks this process."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        names = []
        for number, item in enumerate(policies):
            if not isinstance(item, Placement):
                names.append(item)
                continue
            server = stack.enter_context(socket.socket(socket.AF_UNIX))
            path = os.path.join(folder, f"{number}.socket")
            server.bind(path)
            server.listen()
            threading.Thread(target=_answer, args=(item, server), daemon=True).start()
            relay = os.path.join(os.path.dirname(__file__), "relay.py")
            names.append(os.path.join(folder, f"{number}.yaml"))
            with open(names[-1], "w", encoding="utf-8") as file:
                file.write(item.text(f"exec {shlex.quote(sys.executable)} {shlex.quote(relay)} {shlex.quote(path)}"))
        yield names
