// SPDX-License-Identifier: Apache-2.0
// One rank of a plan with real data: it computes kernels, and packs and unpacks messages, for
// whatever carries them.
#pragma once

#include <array>
#include <deque>
#include <map>
#include <vector>

#include "realhw/core/layer_state.h"
#include "realhw/core/parcels.h"
#include "realhw/core/real_step.h"
#include "realhw/core/scratch_kernels.h"

namespace moesim {

class RankState {
 public:
  /// The step must outlive it. Throws std::runtime_error, naming the op, for a plan without rows.
  RankState(const RealStep& step, GpuId rank);
  /// Before every run of the step. Patterns in bytes without numbers are written and compared only
  /// when `verify` is set.
  void reset(bool verify);

  const RankParcels& parcels(OpId exchange) const;
  /// Writes parcel.bytes of a sent parcel. Throws when the rank does not hold what it must send.
  void pack(OpId exchange, const Parcel& parcel, std::byte* bytes);
  /// Takes in a received parcel.
  void unpack(OpId exchange, const Parcel& parcel, const std::byte* bytes);
  /// Runs a kernel; host work takes no time here. The lanes may be threads of their own, beside one
  /// that packs and unpacks.
  void compute(OpId op);

  GpuId rank() const { return rank_; }
  const RealStep& step() const { return step_; }
  /// Bytes without numbers that arrived wrong since the last reset.
  std::int64_t wrong_bytes() const { return wrong_bytes_; }
  /// What the rank holds of a layer, by index, once the step has ended.
  LayerState& layer(std::size_t index) { return layers_[index]; }

 private:
  LayerState* find_layer(const Op& op);

  const RealStep& step_;
  GpuId rank_;
  std::deque<LayerState> layers_;        // they do not move
  std::map<int, std::size_t> index_of_;  // by model layer number
  std::vector<RankParcels> parcels_;     // [op]
  std::array<ScratchKernels, lane_count> scratch_;
  std::vector<float> vector_;
  bool verify_ = true;
  std::int64_t wrong_bytes_ = 0;
};

}  // namespace moesim
