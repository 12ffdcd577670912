// SPDX-License-Identifier: Apache-2.0
// A GPU with faster or slower parts.
#pragma once

#include "sim/model/gpu_model.h"

namespace moesim {

/// So many times the rates, and so many times the times, of the GPU as it is.
struct GpuFactors {
  double flops = 1;             // rate
  double memory_bandwidth = 1;  // rate
  double launch = 1;            // time
  double host = 1;              // time

  auto operator<=>(const GpuFactors&) const = default;
};

/// Rooflines change exactly. A measured time changes as the roofline of the same kernel does: the
/// fitted one, else that of all kernels; if the GPU states no peak for its type, as flops do.
GpuModel changed(const GpuModel& gpu, const GpuFactors& factors);

}  // namespace moesim
