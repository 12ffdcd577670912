# SPDX-License-Identifier: Apache-2.0
"""Runs moesim and hands back what it wrote, as records."""

import html
import importlib.metadata
import json
import os
import shutil
import subprocess
import tempfile

from moesim.hosting import hosted
from moesim.policy import Placement


class MoesimError(RuntimeError):
    """What moesim said on standard error; `code` is its exit code: 2 for bad input."""

    def __init__(self, code, message):
        super().__init__(message.strip())
        self.code = code


def flat(value, prefix=""):
    """A nested dict as one level, keys joined by dots; lists stay values."""
    out = {}
    for key, item in value.items():
        if isinstance(item, dict):
            out.update(flat(item, f"{prefix}{key}."))
        else:
            out[prefix + key] = item
    return out


class Result:
    """What a comparison found: `document`, as `--json` writes it; `cases`, a dict per row of the table."""

    def __init__(self, document):
        if document.get("format_version", 2) != 2 or document.get("format", "moesim-result") != "moesim-result":
            raise ValueError("a result of an older or a newer moesim, whose figures have other names: simulate again with --json")
        self.document = document
        self.cases = document["cases"]

    @classmethod
    def read(cls, path):
        """Reads a file of `--json`."""
        with open(path, encoding="utf-8") as file:
            return cls(json.load(file))

    time = "step_s"  # the name of the time that cases are compared by, of a step or an iteration

    def records(self):
        """A flat dict per case, as `pandas.DataFrame(result.records())` takes it. Figures of single layers are left out."""
        return [{key: item for key, item in flat(case).items() if key != "layers"} for case in self.cases]

    def _repr_html_(self):
        """A bar per case, in notebooks."""
        longest = max((case.get(self.time, 0) for case in self.cases), default=0) or 1
        rows = []
        for case in self.cases:
            name = html.escape(" ".join(str(case[key]) for key in ("topology", "policy", "fidelity", "routing") if key in case))
            if self.time not in case:
                rows.append(f"<tr><td>{name}</td><td>did not run</td><td></td></tr>")
                continue
            bar = f'<div style="background:#4c78a8;height:1em;width:{200 * case[self.time] / longest:.0f}px"></div>'
            rows.append(f"<tr><td>{name}</td><td>{case[self.time] * 1e3:.4g} ms</td><td>{bar}</td></tr>")
        return "<table>" + "".join(rows) + "</table>"

    def best(self, lossy="never", **where):
        """The fastest case that ran, of those whose fields are as given: `best(topology="h100-rail")`. What holds for all cases, such
        as `software` or `model`, may be given by its name, too; another name finds no case. Balanced routing next to
        recorded one is a what-if and never the best; nor are cases that drop, replace, round or compress (their field `lossy` says
        what), unless lossy="allow" or all are lossy cases of one policy."""
        def is_so(case, key, item):
            value = case[key] if key in case else self.document.get(key)
            return (value["name"] if isinstance(value, dict) and "name" in value else value) == item

        ran = [case for case in self.cases if self.time in case and all(is_so(case, *given) for given in where.items())]
        if not ran:
            raise LookupError(f"no case with {where}")
        recorded = [case for case in ran if case.get("routing") != "balanced"] or ran
        one = all(case.get("lossy") and case["policy"] == recorded[0]["policy"] for case in recorded)
        chosen = [case for case in recorded if lossy == "allow" or one or not case.get("lossy")]
        if not chosen:
            raise LookupError(f"all cases with {where} are lossy: best(lossy=\"allow\") takes them, too")
        return min(chosen, key=lambda case: case[self.time])


def installed_program():
    """The program of the wheel that this package is from; None for a package without one."""
    try:
        files = importlib.metadata.distribution("moesim").files or []
    except importlib.metadata.PackageNotFoundError:
        return None
    # A distribution of the same name elsewhere on the path has another package.
    if not any(file.name == "results.py" and os.path.samefile(file.locate(), __file__) for file in files if file.locate().exists()):
        return None
    return next((str(file.locate().resolve()) for file in files if file.name == "moesim" and file.parent.name in ("bin", "Scripts")), None)


def program():
    """moesim: $MOESIM, else the one that was installed with this package, else the one on the path, else that of a build
    next to this package."""
    beside = os.path.join(os.path.dirname(__file__), *[os.pardir] * 3, "build", "sim", "cli", "moesim")
    found = os.environ.get("MOESIM") or installed_program() or shutil.which("moesim") or (beside if os.path.exists(beside) else None)
    if not found:
        raise MoesimError(2, "moesim is not on the path: build it, or name it in $MOESIM")
    return found


def arguments(flags):
    """Keyword arguments as flags: tokens_per_rank=4096 is --tokens-per-rank 4096, a list is repeated by commas, True a flag
    without a value; `set={"topology.nodes": 8}` is --set topology.nodes=8, `synth={"skew": 1, "seed": 7}` --synth skew=1,seed=7."""
    out = []
    for name, value in flags.items():
        flag = "--" + name.replace("_", "-")
        if name == "set":
            for path, item in (value.items() if isinstance(value, dict) else (entry.split("=", 1) for entry in value)):
                out += [flag, f"{path}={item}"]
        elif isinstance(value, dict):
            out += [flag, ",".join(f"{key}={item}" for key, item in value.items())]
        elif value is True:
            out.append(flag)
        elif value is not None and value is not False:
            out += [flag, ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)]
    return out


def call(command, scenario, flags):
    given = flags.get("policy")
    policies = list(given) if isinstance(given, (list, tuple)) else [given]
    own = any(isinstance(policy, Placement) for policy in policies)
    with hosted(policies) as names, tempfile.TemporaryDirectory() as folder:
        if own:
            flags = {**flags, "policy": names, "allow_commands": True}
        if isinstance(scenario, dict):
            path = os.path.join(folder, "scenario.yaml")
            with open(path, "w", encoding="utf-8") as file:
                json.dump(scenario, file)
            scenario = path
        words = [program(), command, *([os.fspath(scenario)] if scenario else []), *arguments(flags), "--json", "-"]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise MoesimError(done.returncode, done.stderr)
    return Result(json.loads(done.stdout))


def run(scenario=None, **flags):
    """`moesim run SCENARIO`: one policy on one cluster. Throws MoesimError."""
    return call("run", scenario, flags)


def compare(scenario=None, **flags):
    """`moesim compare SCENARIO`: several policies, topologies or fidelities. Throws MoesimError."""
    return call("compare", scenario, flags)
