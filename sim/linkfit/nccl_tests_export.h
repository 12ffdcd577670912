// SPDX-License-Identifier: Apache-2.0
// The exchanges of a plan as inputs of alltoallv_perf of NVIDIA's nccl-tests, which times them on
// real GPUs. The format is that of nccl-tests 2.19.6 (commit a0b82b2, src/alltoallv.cu).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/plan/plan.h"

namespace moesim {

/// The communicators of one phase as a single matrix: what alltoallv_perf runs as one exchange.
struct NcclTestsExchange {
  std::string name;  // also that of its file, without ".txt"
  std::vector<OpId> ops;
  std::vector<GpuId> participants;  // ascending
  Bytes bytes;                      // that leave a GPU, as in the plan
  Bytes written;                    // the same in the file, if entries are multiples of 16
  Bytes largest;                    // most written bytes that one rank sends or receives: -b and -e
  std::string matrix;               // text; empty when nothing leaves a GPU
};

/// One exchange per phase (exchange_phases), in the order of the plan. Entry (i, j) is the bytes
/// from GPU i to GPU j; the diagonal is 0, because no link carries it. Entries are rounded up to
/// multiples of 16 bytes, because alltoallv_perf rounds down and a count of 4 bytes would vanish.
std::vector<NcclTestsExchange> nccl_tests_exchanges(const Plan& plan);

/// Writes the folder with a file per exchange that moves something, index.json (names, bytes,
/// participants, ops) and run.sh (the command lines); returns the number of matrix files. The
/// folder appears whole or not at all. Throws Error when it exists with files that no earlier
/// export wrote, or cannot be written.
int write_nccl_tests(const Plan& plan, const std::string& folder);

}  // namespace moesim
