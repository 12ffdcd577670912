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
import io
import json
import sys


class Placement:
    """A function that plans, and the parameters of the policy that asks it (interval=10, slots_per_gpu=3 ...)."""

    def __init__(self, function, parameters, policy):
        self.function, self.parameters, self.policy = function, parameters, policy
        self.name = function.__name__.replace("_", "-")

    def __call__(self, ask):
        return self.function(ask)

    def serve(self, lines=None, out=None):
        """Answers requests, a line of JSON each, until their end. A binary stream may have loads as bytes after a line, other
        `lines` have lists."""
        lines, out = lines or sys.stdin.buffer, out or sys.stdout
        binary = isinstance(lines, io.BufferedIOBase)
        known = {}                     # what the first request says of the cluster
        for line in lines:
            asked = json.loads(line)
            if isinstance(asked.get("loads"), dict):
                asked["loads"] = _read_loads(lines, **asked["loads"])
            if asked["do"] == "begin":
                known = asked
            answer = self.function({**known, **asked})
            if hasattr(answer, "tolist"):
                answer = answer.tolist()
            key = "shares" if asked["do"] == "split" else "slots"
            said = {} if answer is None else {key: answer}
            if asked["do"] == "begin" and binary and asked.get("binary"):
                said["binary"] = True
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


def _read_loads(stream, shape, bytes):
    """[rank][expert] of the numbers that follow a line."""
    data = stream.read(shape[0] * shape[1] * bytes)
    rows = range(0, len(data), shape[1] * bytes)
    if bytes == 1:
        return [list(data[row:row + shape[1]]) for row in rows]
    numbers = array.array(next(code for code in "HILQ" if array.array(code).itemsize == bytes), data)
    if sys.byteorder == "big":
        numbers.byteswap()
    return [numbers[row // bytes:row // bytes + shape[1]].tolist() for row in rows]
