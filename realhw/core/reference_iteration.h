// SPDX-License-Identifier: Apache-2.0
// What a whole iteration must compute: one process without any parallelism, in double precision,
// from only the model, the routing and the token ids. It knows no plan, no placement and no
// exchange.
#pragma once

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "realhw/core/dense_tensors.h"
#include "realhw/core/matrix_math.h"
#include "realhw/core/routed_layer.h"
#include "sim/model/parameters.h"
#include "sim/saved/held_iteration.h"

namespace moesim {

/// Parameters with their gradients and Adam's moments, element by element.
struct TrainedTensor {
  Doubles weights, gradients, first, second;
  Doubles before = {};  // the weights that the last iteration began with
};

class ReferenceIteration {
 public:
  /// `layers`: the routing of every microbatch, whose slots do not matter.
  ReferenceIteration(const HeldIteration& held, const std::vector<RoutedLayer>& layers);

  /// One more iteration, from the weights that the last one has left.
  void run();

  /// The values that enter a block of a microbatch in the last iteration, or the gradient of the
  /// loss by them: [token of all replicas x hidden].
  const Doubles& entering(int microbatch, int layer, BlockKind block, Pass pass) const {
    return entering_.at({microbatch, layer, block, pass});
  }
  /// [token] cross entropy.
  const Doubles& losses(int microbatch) const { return losses_.at(microbatch); }
  const TrainedTensor& dense(const StagePart& part) const {
    return dense_.at({part.kind, part.number});
  }
  TrainedTensor& dense(const StagePart& part) { return dense_.at({part.kind, part.number}); }
  /// W1, then W2.
  const TrainedTensor& expert(int layer, ExpertId expert) const {
    return experts_.at({layer, expert});
  }
  TrainedTensor& expert(int layer, ExpertId expert) { return experts_.at({layer, expert}); }
  /// Mean cross entropy of the last iteration.
  double loss() const;
  /// Only the passes, without an update: for tests of gradients.
  void compute_gradients();

 private:
  struct Attention;
  struct Experts;
  struct Ffn;
  using BlockKey = std::tuple<int, int, BlockKind, Pass>;

  std::int64_t tokens() const { return held_.replicas() * held_.rows(); }
  std::size_t all(std::int64_t width) const { return static_cast<std::size_t>(tokens() * width); }
  void add_part(const StagePart& part);
  double* weights(const StagePart& part, DenseTensorId id);
  double* gradients(const StagePart& part, DenseTensorId id);
  Doubles normed(const StagePart& part, DenseTensorId gain, const Doubles& x);
  /// Adds the gradient by x to `by_x`.
  void norm_back(const StagePart& part, DenseTensorId gain, const Doubles& x, const Doubles& dout,
                 Doubles& by_x);
  void run_microbatch(int m);
  Doubles embed(int m);
  void embed_back(int m, const Doubles& by_x);
  void attention(int m, int layer, Doubles& x, Attention& kept);
  void attention_back(int m, int layer, Doubles& by_x, const Attention& kept);
  void rotate(Doubles& rows, int way) const;
  Doubles head(int m, const Doubles& x);
  void ffn(const StagePart& part, std::int64_t width, DenseTensorId fc1, DenseTensorId fc2,
           const Doubles& in, Doubles& out, Ffn& kept);
  void ffn_back(const StagePart& part, std::int64_t width, DenseTensorId fc1, DenseTensorId fc2,
                const Doubles& in, const Doubles& dout, const Ffn& kept, Doubles& by_in);
  void mlp(int m, int layer, Doubles& x, Experts& kept);
  void mlp_back(int m, int layer, Doubles& by_x, const Experts& kept);
  void experts(const RoutedLayer& routing, int layer, const Doubles& in, Doubles& out,
               Experts& kept);
  void experts_back(const RoutedLayer& routing, int layer, const Doubles& in, const Doubles& dout,
                    const Experts& kept, Doubles& by_in);
  void update();

  const HeldIteration& held_;
  const MoeModel& model_;
  HeadShape heads_;
  bool gated_;
  std::map<std::pair<int, int>, const RoutedLayer*> routing_;  // microbatch, layer
  std::map<std::pair<StagePartKind, int>, DenseTensors> layout_;
  std::map<std::pair<StagePartKind, int>, TrainedTensor> dense_;
  std::map<std::pair<int, ExpertId>, TrainedTensor> experts_;
  std::map<BlockKey, Doubles> entering_;
  std::map<int, Doubles> losses_;
};

}  // namespace moesim
