# SPDX-License-Identifier: Apache-2.0
"""Times calls of PyTorch on the first GPU, and keeps the times in tables, for gpu_kernels.py."""
import csv
import math
import statistics

import torch

GPU = torch.device("cuda:0")
ROTATED = 256 << 20  # bytes; an H100 caches 50 MB


def normal(*shape, dtype=torch.bfloat16):
    return torch.randn(shape, device=GPU, dtype=torch.bfloat16).to(dtype)


def copies(size):
    return max(1, min(16, math.ceil(ROTATED / size)))


def graph_of(calls):
    """A CUDA graph of calls, warm."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for call in calls[:2]:
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for call in calls:
            call()
    return graph


def elapsed(work):
    """Seconds on the GPU."""
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    work()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e-3


def timed(calls, repeats=7):
    """Median seconds of a call, replayed from a graph of all `calls`, which differ in their data."""
    while len(calls) < 8:
        calls = calls + calls
    graph = graph_of(calls)
    graph.replay()
    return statistics.median(elapsed(graph.replay) for _ in range(repeats)) / len(calls)


def timed_eagerly(call, repeats=7):
    for _ in range(3):
        call()
    torch.cuda.synchronize()
    return statistics.median(elapsed(call) for _ in range(repeats))


class Table:
    """A file of cases that is whole after each line; a case that fails is told, and the next one runs."""

    def __init__(self, path, columns):
        self.file = open(path, "w", newline="", encoding="utf-8")
        self.lines = csv.writer(self.file, lineterminator="\n")
        self.lines.writerow([*columns, "seconds"])

    def add(self, *case, measure):
        self.add_passes(case, lambda: {(): measure()})

    def add_passes(self, case, measure):
        """`measure` gives seconds by what comes before the case."""
        try:
            for first, seconds in measure().items():
                self.put(*first, *case, seconds)
        except Exception as error:  # pylint: disable=broad-except
            print(f"  {self.file.name} {case}: {str(error).splitlines()[0][:200]}", flush=True)
            torch.cuda.synchronize()

    def put(self, *values):
        self.lines.writerow(values)
        self.file.flush()
