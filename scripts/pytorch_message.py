#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A message from rank 0 to rank 1 over the NCCL of PyTorch, all bytes compared: what fails here is no fault of moesim.

Launched as ranks of PyTorch are (RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT). Exits with 77 without PyTorch.
"""
import os
import sys

try:
    import torch
    import torch.distributed as dist
except ImportError:
    print("no PyTorch in", sys.executable)
    sys.exit(77)
rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
sent = torch.arange(1 << 20, dtype=torch.float32, device="cuda")
got = sent if rank == 0 else torch.zeros_like(sent)
if rank == 0:
    dist.send(sent, 1)
else:
    dist.recv(got, 0)
torch.cuda.synchronize()
wrong = int((got != sent).sum())
print("PyTorch", torch.__version__, "NCCL", torch.cuda.nccl.version(), "wrong", wrong)
sys.exit(1 if wrong else 0)
