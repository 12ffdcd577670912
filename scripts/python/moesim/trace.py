# SPDX-License-Identifier: Apache-2.0
"""The native trace form: a trace.json and one folder of .npy arrays per recorded step (docs/trace-format.md)."""

import json
import os
import re
import shutil

import numpy as np

MOST_EXPERTS = 65535  # of the two bytes of an id, the last value marks a dropped choice
PHASES = ("training", "prefill", "decode", "mixed", "synthetic")


class TraceError(ValueError):
    """A trace, or what is to become one, is damaged; says where."""


def id_type(experts):
    """The narrowest type of NumPy that holds every expert's id."""
    return np.uint8 if experts <= 256 else np.uint16


def step_folder(number):
    return f"step-{number:08d}"


def check_ids(ids, experts, layers, top_k):
    """Throws TraceError unless ids are [layers][tokens][top_k], below `experts`, distinct in each row."""
    if ids.ndim != 3 or ids.shape[0] != len(layers) or ids.shape[2] != top_k:
        raise TraceError(f"ids have shape {ids.shape}, not ({len(layers)} layers, tokens, {top_k})")
    if ids.dtype.kind not in "iu":
        raise TraceError(f"ids are of type {ids.dtype}, not integers")
    if ids.size == 0:
        raise TraceError("a step without tokens")
    if ids.min() < 0 or ids.max() >= experts:
        layer, token, k = np.argwhere((ids < 0) | (ids >= experts))[0]
        raise TraceError(f"layer {layers[layer]}, token {token}: expert {ids[layer, token, k]} of {experts}; ids beyond the "
                         "experts are slots, shared experts or padding")
    row = np.sort(ids, axis=2)
    repeated = (row[:, :, 1:] == row[:, :, :-1]).any(axis=2)
    if repeated.any():
        layer, token = np.argwhere(repeated)[0]
        raise TraceError(f"layer {layers[layer]}, token {token}: chose an expert twice, {ids[layer, token].tolist()}; equal "
                         "ids are padding or a dense layer")


def check_lengths(lengths, tokens):
    if lengths.ndim != 1 or (lengths <= 0).any() or lengths.sum() != tokens:
        raise TraceError(f"sequences of {lengths.tolist()[:8]} tokens do not add up to the step's {tokens}")


class TraceWriter:
    """Writes a trace step by step. A step appears under its name once it is complete, so that a crash loses one step at
    most and others may read the trace while it grows."""

    def __init__(self, path, *, experts, top_k, layers, name=None, model="unknown", phase="training", provenance=None,
                 resume=False):
        """Creates the folder `path` and its trace.json. With `resume` it continues with a trace of the same experts, top-k,
        layers and phase. Throws FileExistsError if there is something else, TraceError for values that cannot be."""
        layers = [int(layer) for layer in layers]
        if not 1 <= experts <= MOST_EXPERTS:
            raise TraceError(f"{experts} experts; there are 1 to {MOST_EXPERTS}")
        if not 1 <= top_k <= experts:
            raise TraceError(f"top-k {top_k} of {experts} experts")
        if not layers or layers != sorted(set(layers)) or layers[0] < 0:
            raise TraceError(f"layers {layers} are not ascending numbers of layers")
        if phase not in PHASES:
            raise TraceError(f"phase '{phase}' is none of {', '.join(PHASES)}")
        self.path = os.fspath(path)
        self.header = {"format": "moesim-trace", "version": 1,
                       "name": name or os.path.basename(os.path.normpath(self.path)), "model": model, "experts": int(experts),
                       "top_k": int(top_k), "layers": layers, "phase": phase, "expert_ids": "logical",
                       "provenance": provenance or {}}
        self.last = -1
        if resume and os.path.exists(os.path.join(self.path, "trace.json")):
            self._resume()
        else:
            os.makedirs(self.path, exist_ok=resume and self._unstarted())
            self.write_header()

    def _unstarted(self):
        """Whether a job was killed before there was a header: its folder has no visible name in it."""
        return os.path.isdir(self.path) and all(entry.startswith(".") for entry in os.listdir(self.path))

    def _resume(self):
        """Goes on behind the last complete step; what a crash left unfinished is removed."""
        found = Trace(self.path)
        for key in ("experts", "top_k", "layers", "phase"):
            if found.header[key] != self.header[key]:
                raise TraceError(f"{self.path}: {key} is {found.header[key]} there and {self.header[key]} here")
        self.header = found.header
        self.last = max(found.numbers, default=-1)
        for entry in os.listdir(self.path):
            if entry.startswith(".step-"):
                shutil.rmtree(os.path.join(self.path, entry))

    def write_header(self):
        """Replaces trace.json by the present header."""
        temporary = os.path.join(self.path, ".trace.json.tmp")
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump(self.header, file, indent=2)
            file.write("\n")
        os.replace(temporary, os.path.join(self.path, "trace.json"))

    def append(self, ids, sequence_lengths, *, weights=None, source_ranks=None, number=None):
        """Adds a step and returns its number (default: the one after the last).

        ids: [layers][tokens][top_k], logical experts; sequence_lengths: [sequences], in tokens; weights: the shape of ids;
        source_ranks: [tokens]. Throws TraceError, and writes nothing, where they do not fit each other."""
        header, ids = self.header, np.asarray(ids)
        lengths = np.asarray(sequence_lengths, dtype=np.int32)
        number = self.last + 1 if number is None else int(number)
        if number <= self.last:
            raise TraceError(f"step {number} after step {self.last}")
        check_ids(ids, header["experts"], header["layers"], header["top_k"])
        check_lengths(lengths, ids.shape[1])
        arrays = {"ids": np.ascontiguousarray(ids, id_type(header["experts"])), "sequence_lengths": lengths}
        if weights is not None:
            with np.errstate(over="ignore"):  # refused below
                arrays["gate_weights"] = np.ascontiguousarray(weights, np.float16)
            if arrays["gate_weights"].shape != ids.shape:
                raise TraceError(f"weights have shape {arrays['gate_weights'].shape}, ids {ids.shape}")
            if not np.isfinite(arrays["gate_weights"]).all():
                raise TraceError("weights are not finite in float16")
        if source_ranks is not None:
            arrays["source_ranks"] = np.ascontiguousarray(source_ranks, np.int32)
            if arrays["source_ranks"].shape != (ids.shape[1],):
                raise TraceError(f"source ranks have shape {arrays['source_ranks'].shape}, not ({ids.shape[1]} tokens)")
        self._write(number, arrays)
        self.last = number
        return number

    def _write(self, number, arrays):
        temporary = os.path.join(self.path, f".{step_folder(number)}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        os.makedirs(temporary)
        for name, array in arrays.items():
            np.save(os.path.join(temporary, name + ".npy"), array)
        os.rename(temporary, os.path.join(self.path, step_folder(number)))


class Step:
    """A recorded step; arrays are mapped, not loaded."""

    def __init__(self, folder, number):
        self.folder, self.number = folder, number
        self.ids = self._array("ids")                            # [layers][tokens][top_k]
        self.sequence_lengths = self._array("sequence_lengths")  # [sequences]
        self.weights = self._array("gate_weights")               # as ids, or None
        self.source_ranks = self._array("source_ranks")          # [tokens], or None

    def _array(self, name):
        path = os.path.join(self.folder, name + ".npy")
        return np.load(path, mmap_mode="r") if os.path.exists(path) else None

    @property
    def tokens(self):
        return self.ids.shape[1]


class Trace:
    """Reads a trace: `len(trace)` steps, `trace[i]`, `trace.layers`, `trace.loads()`."""

    def __init__(self, path):
        """Throws TraceError if there is no trace."""
        self.path = os.fspath(path)
        try:
            with open(os.path.join(self.path, "trace.json"), encoding="utf-8") as file:
                self.header = json.load(file)
        except (OSError, ValueError) as error:
            raise TraceError(f"{self.path}: no trace, {error}") from error
        if self.header.get("format") != "moesim-trace" or self.header.get("version") != 1:
            raise TraceError(f"{self.path}: not a moesim-trace of version 1")
        numbers = (re.fullmatch(r"step-(\d{8,})", entry) for entry in os.listdir(self.path))
        self.numbers = sorted(int(match[1]) for match in numbers if match)

    def __getattr__(self, name):
        if name in ("experts", "top_k", "layers", "phase", "model", "name"):
            return self.header[name]
        raise AttributeError(name)

    def __len__(self):
        return len(self.numbers)

    def __getitem__(self, index):
        number = self.numbers[index]
        return Step(os.path.join(self.path, step_folder(number)), number)

    def loads(self):
        """Tokens per expert, int64 [steps][layers][experts]."""
        return np.stack([np.stack([np.bincount(layer.ravel(), minlength=self.experts) for layer in step.ids])
                         for step in self])


def merge_ranks(paths, output):
    """Joins the traces that the ranks of one job recorded: a step of all ranks is one step, in the order of `paths`, whose
    `source_ranks` say where its tokens were. Steps that a rank lacks (it was killed) are left out. Returns the new trace."""
    traces = [Trace(path) for path in paths]
    if not traces:
        raise TraceError("no traces to merge")
    first = traces[0].header
    for trace in traces[1:]:
        for key in ("experts", "top_k", "layers", "phase"):
            if trace.header[key] != first[key]:
                raise TraceError(f"{trace.path}: {key} is {trace.header[key]}, in {traces[0].path} {first[key]}")
    common = sorted(set.intersection(*(set(trace.numbers) for trace in traces)))
    writer = TraceWriter(output, name=os.path.basename(os.path.normpath(output)), provenance={
        "merged_ranks": len(traces), "first_rank": first["provenance"]},
        **{key: first[key] for key in ("experts", "top_k", "layers", "phase", "model")})
    for number in common:
        steps = [trace[trace.numbers.index(number)] for trace in traces]
        weighted = all(step.weights is not None for step in steps)
        writer.append(np.concatenate([step.ids for step in steps], axis=1),
                      np.concatenate([step.sequence_lengths for step in steps]),
                      weights=np.concatenate([step.weights for step in steps], axis=1) if weighted else None,
                      source_ranks=np.repeat(np.arange(len(steps)), [step.tokens for step in steps]), number=number)
    return Trace(output)
