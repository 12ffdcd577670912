# SPDX-License-Identifier: Apache-2.0
"""Records the routing of mixture-of-experts models, and runs moesim from Python.

    from moesim import Recorder, TraceWriter, watch_huggingface     # record
    from moesim import Trace                                        # read
    from moesim import run, compare                                 # simulate
"""

import importlib

from moesim.policy import Placement, placement

# A planner that moesim starts needs none of these, and starts in half the time.
_SIMULATES = {"MoesimError": "results", "Result": "results", "compare": "results", "run": "results"}
# What records and reads traces needs numpy; what simulates does not, so that it runs where nothing else is installed.
_NEEDS_NUMPY = {"Recorder": "recorder", "Step": "trace", "Trace": "trace", "TraceError": "trace", "TraceWriter": "trace",
                "merge_ranks": "trace", "save_csv": "export", "save_megatron": "export", "save_npz": "export",
                "watch_huggingface": "watch", "watch_megatron": "watch", "watch_sglang": "watch", "watch_vllm": "watch"}

__all__ = ["Placement", "placement", *_SIMULATES, *_NEEDS_NUMPY]


def __getattr__(name):
    place = (_SIMULATES | _NEEDS_NUMPY).get(name)
    if place is None:
        raise AttributeError(f"module 'moesim' has no attribute '{name}'")
    try:
        module = importlib.import_module(f"moesim.{place}")
    except ModuleNotFoundError as error:
        if error.name != "numpy":
            raise
        raise ImportError(f"moesim.{name} needs numpy: pip install 'moesim[traces]'") from error
    return getattr(module, name)


def __dir__():
    return __all__
