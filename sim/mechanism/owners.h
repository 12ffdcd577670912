// SPDX-License-Identifier: Apache-2.0
// Who holds what when every expert has one home, and what moves between GPUs.
#pragma once

#include <span>
#include <vector>

#include "sim/base/byte_matrix.h"
#include "sim/mechanism/loads.h"
#include "sim/plan/placement.h"

namespace moesim {

/// One expert's state, parameters or gradients in transit; its list says which and when.
struct ExpertTransfer {
  ExpertId expert;
  GpuId from;
  GpuId to;
  Bytes bytes;
  bool operator==(const ExpertTransfer&) const = default;
};

/// The bytes of a list by sender and receiver.
ByteMatrix traffic_of(std::span<const ExpertTransfer> transfers, int gpus);

/// The GPU of every expert: [expert]. Throws Error unless experts 0..n-1 have one slot each.
std::vector<GpuId> owners_of(const SlotTable& table);
/// The same for the experts of `loads`; throws Error also unless its sources are the GPUs.
std::vector<GpuId> owners_of(const SlotTable& table, const LoadMatrix& loads);

/// Experts by descending load; the lowest id first of equal ones.
std::vector<ExpertId> heaviest_first(std::span<const std::int64_t> loads);

/// Load of every GPU when its own experts serve all their choices.
std::vector<std::int64_t> gpu_loads(const SlotTable& table, std::span<const std::int64_t> loads);

}  // namespace moesim
