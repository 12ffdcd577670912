# SPDX-License-Identifier: Apache-2.0
"""Collects what the routers of a running model choose, and writes it in a thread of its own."""

import queue
import threading

import numpy as np

from moesim.trace import TraceError, id_type


def to_host(tensor, dtype=None):
    """A tensor of PyTorch, on whichever device, or an array, as an array."""
    if hasattr(tensor, "detach"):
        tensor = tensor.detach()
        if str(tensor.dtype) == "torch.bfloat16":  # NumPy has none
            tensor = tensor.float()
        tensor = tensor.cpu().numpy()
    return np.asarray(tensor, dtype)


class Recorder:
    """What routers chose since the last `step()`, layer by layer.

        recorder = Recorder(writer)
        watch_huggingface(model, recorder)
        for batch in loader:
            model(**batch)
            recorder.step(sequence_lengths)

    `keep(number)` says which steps are recorded (default: all, `every=n`: each n-th); in between the hooks return at once.
    One step is on its way to the disk while the next one runs, so that a job that is killed loses one complete step at
    most."""

    def __init__(self, writer, *, every=1, keep=None, weights=True):
        self.writer, self.keeps_weights = writer, weights
        self.keep = keep or (lambda number: number % every == 0)
        self.number = 0              # of the step that runs
        self.layers = set(writer.header["layers"])
        self.chosen = {}             # layer: list of (ids, weights), a pair per call of the router
        self.failure = None          # of the thread
        self.work = queue.Queue(maxsize=1)
        self.thread = threading.Thread(target=self._write, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def on(self):
        return self.keep(self.number)

    def choose(self, layer, ids, weights=None):
        """Hooks call this: `ids` [tokens][top_k] of one call of the router of `layer`, with `weights` of the same shape.
        Layers that the trace does not record are ignored."""
        if self.on and layer in self.layers:
            self.chosen.setdefault(layer, []).append((ids, weights if self.keeps_weights else None))

    def step(self, sequence_lengths=None, number=None):
        """Ends a step: what was chosen since the last one is written under `number` (default: steps counted from 0).

        sequence_lengths: [sequences], in tokens, in the order in which the routers saw them; None: one sequence. Returns the
        ids [layers][tokens][top_k], or None where the step is not kept. Throws TraceError where layers disagree, and what
        the thread met while it wrote an earlier step."""
        keep, chosen, self.chosen = self.on, self.chosen, {}
        label = self.number if number is None else int(number)
        self.number += 1
        if not keep:
            return None
        self._raise()
        ids, weights = self._arrays(chosen)
        lengths = [ids.shape[1]] if sequence_lengths is None else to_host(sequence_lengths)
        self.work.join()  # the step before is on the disk
        self._raise()
        self.work.put((label, ids, weights, lengths))
        return ids

    def close(self):
        """Waits until all steps are on the disk."""
        self.work.join()
        self.work.put(None)
        self.thread.join()
        self._raise()

    def _arrays(self, chosen):
        header = self.writer.header
        missing = sorted(self.layers - set(chosen))
        if missing:
            raise TraceError(f"step {self.number - 1}: the routers of layers {missing} were not called; are they watched?")
        weighted = all(pair[1] is not None for calls in chosen.values() for pair in calls)
        ids, weights = [], []
        for layer in header["layers"]:
            rows = [to_host(pair[0]) for pair in chosen[layer]]
            ids.append(np.concatenate([row.reshape(-1, row.shape[-1]) for row in rows]))
            if weighted:
                rows = [to_host(pair[1], np.float32) for pair in chosen[layer]]
                weights.append(np.concatenate([row.reshape(-1, row.shape[-1]) for row in rows]))
        shapes = {array.shape for array in ids}
        if len(shapes) > 1:
            raise TraceError(f"step {self.number - 1}: layers routed {sorted(shapes)} (tokens, choices); a pass that is "
                             "recomputed calls its routers again, and pipeline stages record their own layers")
        ids = np.stack(ids)
        if ids.min(initial=0) >= 0 and ids.max(initial=0) < header["experts"]:
            ids = ids.astype(id_type(header["experts"]), copy=False)  # else the writer says which one is wrong
        return ids, np.stack(weights) if weighted else None

    def _write(self):
        while (task := self.work.get()) is not None:
            try:
                label, ids, weights, lengths = task
                self.writer.append(ids, lengths, weights=weights, number=label)
            except Exception as error:  # noqa: BLE001  told to the thread that records
                self.failure = error
            finally:
                self.work.task_done()
        self.work.task_done()

    def _raise(self):
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure
