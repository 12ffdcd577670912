// SPDX-License-Identifier: Apache-2.0
// An iteration as its planner takes it.
#pragma once

#include "sim/iteration/iteration_spec.h"
#include "sim/mechanism/placer.h"
#include "sim/model/training_traffic.h"

namespace moesim {

/// What kernels of an iteration in this precision move beside their operands, where gradients by
/// weights add to main gradients of so many bytes.
TrainingTraffic training_traffic(TrainingPrecision precision, int gradient_bytes);

struct IterationOptions {
  IterationSpec spec = {};
  TrainingState state = {};
  bool optimizer = true;       // the end of the iteration: sums of gradients, update, new weights
  bool explicit_rows = false;  // token lists for real execution

  /// Of GEMMs: all forms of 8 bits count as fp8.
  DataType gemm_type() const {
    switch (spec.precision) {
      case TrainingPrecision::bf16:
        return DataType::bf16;
      case TrainingPrecision::fp16:
        return DataType::fp16;
      case TrainingPrecision::nvfp4:
        return DataType::fp4;
      default:
        return DataType::fp8;
    }
  }
};

}  // namespace moesim
