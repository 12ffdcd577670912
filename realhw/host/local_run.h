// SPDX-License-Identifier: Apache-2.0
// All ranks of a plan in one process, one after the other: real data without MPI.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "realhw/host/host_device.h"
#include "realhw/program/compare.h"
#include "realhw/program/compile.h"

namespace moesim {

/// One rank with its memory. The step must outlive it.
struct LocalRank {
  LocalRank(const RealStep& s, GpuId rank, const CompileOptions& options = {})
      : LocalRank(s, compile(s, rank, options), std::make_unique<HostDevice>()) {}
  /// The device's memory must be the host's.
  LocalRank(const RealStep& s, RankProgram p, std::unique_ptr<Device> d)
      : step(s), program(std::move(p)), owned(std::move(d)), device(*owned) {
    device.load(program);
  }
  LocalRank(const LocalRank&) = delete;

  const RealStep& step;
  RankProgram program;
  std::unique_ptr<Device> owned;
  Device& device;
};

/// One per GPU of the plan.
std::vector<std::unique_ptr<LocalRank>> all_ranks(const RealStep& step,
                                                  const CompileOptions& options = {});

/// Sees, and may change, a message to another rank on its way.
using Tamper = std::function<void(OpId exchange, GpuId from, GpuId to, std::span<std::byte>)>;

/// Runs the step on all ranks, verified, whose memory is poisoned first; host work takes no time. A
/// message arrives when its sender has joined the exchange. Throws std::runtime_error when ops
/// never end or make numbers that are not finite.
void run_locally(std::vector<std::unique_ptr<LocalRank>>& ranks, const Tamper& tamper = {});

}  // namespace moesim
