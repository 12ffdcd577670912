// SPDX-License-Identifier: Apache-2.0
// The parameters of an iteration that a rank holds: dense ones by part of the model, experts' by
// layer, each with gradients and the moments of Adam.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "realhw/core/dense_tensors.h"
#include "realhw/program/draft.h"

namespace moesim {

/// Elements from the first to one past the last.
using ElementRange = std::pair<std::int64_t, std::int64_t>;

/// The ops that must follow one another around some parameters.
struct ParameterOps {
  OpId gathered{-1};        // brings the weights; below 0: they are here
  std::vector<OpId> uses;   // compute with the weights
  std::vector<OpId> added;  // make the gradients
  OpId summed{-1};          // over the replicas; below 0: nobody has to
};

struct DenseBuffers {
  DenseTensors tensors;
  BufferId weights, gradients, first, second;
  std::vector<std::int64_t> shard_begin;  // [replica], and the end: the shards of ZeRO
  ParameterOps ops;

  Place weight(DenseTensorId id) const { return {weights, tensors[id].offset * float_bytes}; }
  Place gradient(DenseTensorId id) const { return {gradients, tensors[id].offset * float_bytes}; }
  ElementRange shard(int replica) const {
    const auto r = static_cast<std::size_t>(replica);
    return {shard_begin[r], shard_begin[r + 1]};
  }
};

struct ExpertMoments {
  BufferId first, second;
  ParameterOps ops;
};

class HeldParameters {
 public:
  /// Parameters of a rank of this stage. All must outlive it.
  HeldParameters(Draft& draft, const HeldStage& stage, HeldPlace place);

  int replica() const { return place_.replica; }
  TensorShare share() const { return {draft_.step.iteration->tp, place_.part}; }
  /// The rank's tensor group, part by part.
  std::vector<GpuId> tensor_group() const;
  DenseBuffers& dense(const StagePart& part) { return dense_.at({part.kind, part.number}); }
  /// In the order of the stage's chunks.
  std::vector<DenseBuffers*> all_dense();
  /// By layer; Draft::experts has weights and gradients. Made when the experts are known.
  std::map<int, ExpertMoments>& moments() { return moments_; }
  void add_moments();

 private:
  void add_dense(const StagePart& part, std::int64_t& shared);
  BufferId buffer(const std::string& name, std::vector<float> values);

  Draft& draft_;
  const HeldStage& stage_;
  HeldPlace place_;
  std::vector<std::pair<StagePartKind, int>> order_;
  std::map<std::pair<StagePartKind, int>, DenseBuffers> dense_;
  std::map<int, ExpertMoments> moments_;
};

}  // namespace moesim
