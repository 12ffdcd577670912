# SPDX-License-Identifier: Apache-2.0
"""Placements of one's own: a Python function that moesim asks for the slots of every layer.

    from moesim import placement

    @placement
    def mine(ask):                     # a dict: loads [experts], ranks, slots_per_rank, step, layer ...
        return [[0, 1], [2, 3]]        # [rank][slot], or None: as they are

    compare(..., policy=["eplb", mine])      # or, as a program: mine.serve()

docs/external-policies.md says what is asked.
"""

import array
import binascii
import contextlib
import json
import os
import shlex
import socket
import sys
import tempfile
import threading


class Placement:
    """A function that plans, and the parameters of the policy that asks it (interval=10, slots_per_gpu=3 ...)."""

    def __init__(self, function, parameters, policy):
        self.function, self.parameters, self.policy = function, parameters, policy
        self.name = function.__name__.replace("_", "-")

    def __call__(self, ask):
        return self.function(ask)

    def serve(self, lines=None, out=None):
        """Answers requests, a line of JSON each, until their end."""
        lines, out = lines or sys.stdin, out or sys.stdout
        known = {}                     # what the first request says of the cluster
        for line in lines:
            asked = json.loads(line)
            if isinstance(asked.get("loads"), dict):
                asked["loads"] = _unpacked(**asked["loads"])
            if asked["do"] == "begin":
                known = asked
            answer = self.function({**known, **asked})
            if hasattr(answer, "tolist"):
                answer = answer.tolist()
            key = "shares" if asked["do"] == "split" else "slots"
            said = {} if answer is None else {key: answer}
            if asked["do"] == "begin" and asked.get("packs"):
                said["packed"] = True
            out.write(json.dumps(said) + "\n")
            out.flush()

    def text(self, command):
        """The policy file that runs it by a command."""
        return json.dumps({"name": self.name, "source": "Python", "routing": "identity",
                           "placement": {"kind": "external", "command": command, **self.parameters},
                           "dispatch": "alltoall", "schedule": "sequential", **self.policy})


def placement(function=None, *, policy=None, **parameters):
    """Makes a policy of a function. `parameters` are those of `kind: external`; `policy` has the other keys of a policy
    file, such as {"dispatch": "dedup"}."""
    def make(planner):
        return Placement(planner, parameters, policy or {})
    return make(function) if function else make


def _unpacked(shape, bytes, base64):
    """Lists of the numbers that moesim packs into one text."""
    data = binascii.a2b_base64(base64)
    rows = range(0, len(data), shape[1] * bytes)
    if bytes == 1:
        return [list(data[row:row + shape[1]]) for row in rows]
    numbers = array.array(next(code for code in "HILQ" if array.array(code).itemsize == bytes), data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return [numbers[row // bytes:row // bytes + shape[1]].tolist() for row in rows]


def _answer(planner, server):
    with contextlib.suppress(OSError):
        while True:
            connection, _ = server.accept()
            threading.Thread(target=_converse, args=(planner, connection), daemon=True).start()


def _converse(planner, connection):
    with connection, connection.makefile("r", encoding="utf-8") as lines, connection.makefile("w", encoding="utf-8") as out:
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
