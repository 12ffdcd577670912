// SPDX-License-Identifier: Apache-2.0
// Steps of policies that the whole host program executes on emulated GPUs: realhw/nccl on
// realhw/cuda on the runtime, cuBLAS and NCCL that are emulated.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "realhw/measure/measure.h"
#include "realhw/nccl/nccl_backend.h"
#include "tests/realhw/real_case.h"
#include "tests/realhw/stack/ranks.h"

namespace moesim {

/// Seeds of the orders of one of `cases`: its part of $MOESIM_ORDERS, else of `otherwise`, at least
/// one. Many orders can run in pieces: they begin with $MOESIM_ORDER.
std::vector<std::uint64_t> orders_of_case(std::size_t cases, std::uint64_t otherwise);

/// Attention, gates and codecs of the step's plan become nothing: work that has no meaning takes
/// time on CPUs.
void drop_scratch(Plan& plan, const RealStep& step);

/// A small step of two nodes, without scratch work.
class StackCase {
 public:
  explicit StackCase(const std::string& policy, int nodes = 2, int gpus = 2);

  struct Result {
    RunEnd end;
    Comparison compared;  // over all ranks
    bool replayed = false;
  };
  /// A verified run, one that is captured, and a replay; all numbers compared after the first and
  /// the last.
  Result run(std::uint64_t seed);

  RealCase real;
  NcclOptions options;
};

}  // namespace moesim
