# SPDX-License-Identifier: Apache-2.0
"""A measurement of two ranks of this machine, for tests of what is shown of one."""
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).parents[1]


def measure(moesim_hw, result):
    """Writes `moesim-hw run --json` of two policies; how near a simulation comes does not matter here."""
    environment = os.environ | {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
                                "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none"}
    subprocess.run(["mpirun", "-n", "2", moesim_hw, "run", "--topology", "hiermoe-a6000", "--set", "topology.nodes=1", "--set",
                    "topology.node.gpus=2", "--model", "tiny-moe", "--set", "model.hidden=64", "--set", "model.expert_ffn=32",
                    "--trace", "traces/tiny-moe-train", "--tokens-per-rank", "16", "--steps", "0", "--repeats", "1",
                    "--policy", "alltoall,megatron", "--json", result],
                   cwd=ROOT, check=True, capture_output=True, env=environment)
