# SPDX-License-Identifier: Apache-2.0
"""Records the routing of mixture-of-experts models, and runs moesim from Python.

    from moesim import Recorder, TraceWriter, watch_huggingface     # record
    from moesim import Trace                                        # read
    from moesim import run, compare                                 # simulate
"""

from moesim.export import save_csv, save_megatron, save_npz
from moesim.policy import Placement, placement
from moesim.recorder import Recorder
from moesim.results import MoesimError, Result, compare, run
from moesim.trace import Step, Trace, TraceError, TraceWriter, merge_ranks
from moesim.watch import watch_huggingface, watch_megatron, watch_sglang, watch_vllm

__all__ = ["MoesimError", "Placement", "Recorder", "Result", "Step", "Trace", "TraceError", "TraceWriter", "compare",
           "merge_ranks", "placement", "run", "save_csv", "save_megatron", "save_npz", "watch_huggingface", "watch_megatron", "watch_sglang", "watch_vllm"]
