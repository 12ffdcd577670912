// SPDX-License-Identifier: Apache-2.0
// Calls of the dense parts of a model (realhw/program/dense_calls.h) as a GPU takes them.
#pragma once

#include <memory>
#include <variant>

#include "realhw/cuda/device_memory.h"
#include "realhw/cuda/kernels/dense.h"
#include "realhw/program/dense_calls.h"

namespace moesim::cuda {

struct Addresses;

struct LoadedNorm {
  NormList list;  // without its ranges
  Listed<NormRange> ranges;
};
struct LoadedAttention {
  bool gradient = false;
  AttentionRows rows;
  DeviceMemory sums;
};
struct LoadedCrossEntropy {
  bool gradient = false;
  CrossEntropyRows rows;  // without their labels
  Listed<std::int64_t> labels;
};
struct LoadedDividedEntropy {
  bool joined = false;
  DividedEntropyRows rows;  // without their labels
  Listed<std::int64_t> labels;
};
struct LoadedAdd {
  AddedList list;  // without its ranges
  Listed<AddedRange> ranges;
  Listed<const float*> from;
};
struct LoadedAdam {
  AdamList list;  // without its ranges
  Listed<AdamRange> ranges;
};
using LoadedDense = std::variant<LoadedNorm, RotaryRows, LoadedAttention, LoadedCrossEntropy,
                                 LoadedDividedEntropy, LoadedAdd, LoadedAdam>;

/// Adds what must be on the device to `lists`. Throws std::runtime_error for what no kernel of ours
/// does.
std::shared_ptr<const LoadedDense> load_dense(const DenseCall& call, const Addresses& addresses,
                                              DeviceLists& lists);
void run_dense(const LoadedDense& loaded, const DeviceLists& lists, cudaStream_t stream);

}  // namespace moesim::cuda
