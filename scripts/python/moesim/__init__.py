# SPDX-License-Identifier: Apache-2.0
"""Records the routing of mixture-of-experts models, and runs moesim from Python.

    from moesim import Recorder, TraceWriter, watch_huggingface     # record
    from moesim import Trace                                        # read
    from moesim import run, compare                                 # simulate
"""

import importlib

from moesim.policy import Placement, placement
from moesim.results import MoesimError, Result, compare, run

# What records and reads traces needs numpy; what simulates does not, so that it runs where nothing else is installed.
_NEEDS_NUMPY = {"Recorder": "recorder", "Step": "trace", "Trace": "trace", "TraceError": "trace", "TraceWriter": "trace",
                "merge_ranks": "trace", "save_csv": "export", "save_megatron": "export", "save_npz": "export",
                "watch_huggingface": "watch", "watch_megatron": "watch", "watch_sglang": "watch", "watch_vllm": "watch"}

__all__ = ["MoesimError", "Placement", "Result", "compare", "placement", "run", *_NEEDS_NUMPY]


def __getattr__(name):
    if name not in _NEEDS_NUMPY:
        raise AttributeError(f"module 'moesim' has no attribute '{name}'")
    try:
        module = importlib.import_module(f"moesim.{_NEEDS_NUMPY[name]}")
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        raise ImportError(f"moesim.{name} needs numpy: pip install 'moesim[traces]'") from error
    return getattr(module, name)


def __dir__():
    return __all__
