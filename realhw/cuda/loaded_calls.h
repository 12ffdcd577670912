// SPDX-License-Identifier: Apache-2.0
// Calls of a program as a GPU takes them: addresses instead of places, lists in its own memory.
// Made once, because a step is run many times.
#pragma once

#include <memory>
#include <variant>
#include <vector>

#include "realhw/cuda/blas/products.h"
#include "realhw/cuda/device_memory.h"
#include "realhw/cuda/kernels/kernels.h"
#include "realhw/cuda/loaded_dense.h"
#include "realhw/program/program.h"

namespace moesim::cuda {

struct LoadedRowSums {
  std::int64_t rows = 0, width = 0;
  RowFormat format = RowFormat::float32;
  Listed<std::byte*> to;
  Listed<std::uint32_t> first;
  Listed<RowTerm> terms;
};
struct LoadedActivation {
  ActivationList list;  // without its ranges
  Listed<ActivationRange> ranges;
};
struct LoadedPattern {
  bool compare = false;
  Listed<PatternRange> ranges;
};
struct LoadedFiniteCheck {
  OpId op;
  Listed<FiniteRange> ranges;
};
struct LoadedCopy {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  std::int64_t bytes = 0;
};
struct LoadedMove {
  MemoryBound bytes;
  std::int64_t start = 0;  // in the windows
};
using LoadedProduct = std::shared_ptr<const Product>;
using LoadedCall =
    std::variant<LoadedRowSums, LoadedActivation, LoadedPattern, LoadedFiniteCheck, LoadedCopy,
                 LoadedProduct, LoadedMove, const HostWork*, std::shared_ptr<const LoadedDense>>;

/// Where buffers and the memory of scratch work lie.
struct Addresses {
  const RankProgram& program;
  std::vector<std::byte*> buffers;
  std::byte* scratch = nullptr;

  std::byte* operator[](const Place& place) const {
    return buffers[place.buffer.index()] + place.offset;
  }
  RowFormat format(const Place& place) const { return program[place.buffer].format; }
};

/// Adds lists of calls to the uploaded ones. Calls keep pointing into the program. Throws
/// std::runtime_error for what no GPU of ours runs.
class CallLoader {
 public:
  /// `cublas` may be null if no call multiplies.
  CallLoader(const Addresses& addresses, const Cublas* cublas, GemmWay way, DeviceLists& lists)
      : addresses_(addresses), cublas_(cublas), way_(way), lists_(lists) {}

  LoadedCall load(const Call& call);

 private:
  LoadedCall load_call(const RowSums& call);
  LoadedCall load_call(const GroupedProduct& call);
  LoadedCall load_call(const Activation& call);
  LoadedCall load_call(const LocalCopy& call);
  LoadedCall load_call(const Pattern& call);
  LoadedCall load_call(const FiniteCheck& call);
  LoadedCall load_call(const Scratch& call);
  LoadedCall load_call(const HostWork& call) { return &call; }
  LoadedCall load_call(const DenseCall& call) { return load_dense(call, addresses_, lists_); }

  const Addresses& addresses_;
  const Cublas* cublas_;
  GemmWay way_;
  DeviceLists& lists_;
  std::int64_t next_start_ = 0;  // of a call that is bound by memory
};

/// Memory that a call of scratch work needs: its matrices, or an input and an output window that it
/// passes over again and again. Windows are larger than any cache, and each call starts behind the
/// one before, so that their traffic is that of memory.
std::int64_t scratch_bytes(const Call& call);
inline constexpr std::int64_t scratch_window = std::int64_t{256} << 20;

}  // namespace moesim::cuda
