// SPDX-License-Identifier: Apache-2.0
// A program while it is compiled: the state that the parts of the compiler share.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "realhw/core/real_step.h"
#include "realhw/program/program.h"

namespace moesim {

/// Which ops of a rank must have ended when another starts.
class Ancestors {
 public:
  explicit Ancestors(const RankProgram& program);
  /// Steps, each behind the steps that it waits for.
  const std::vector<std::size_t>& order() const { return order_; }
  /// Whether what `earlier` made is there for `later`: it precedes it on the rank, is the same op,
  /// or is below 0, which stands for the start of the step.
  bool visible(OpId earlier, OpId later) const;

 private:
  std::vector<std::size_t> order_;
  std::vector<int> step_of_;                        // [op] -1: it runs elsewhere
  std::vector<std::vector<std::uint64_t>> before_;  // [step] a bit per step
};

/// The parameters of a layer's experts on the rank, which all microbatches compute with.
struct ExpertBuffers {
  std::vector<ExpertId> experts;  // [slot]
  BufferId parameters{-1}, gradients{-1};
};

struct Draft {
  BufferId add_buffer(std::string name, std::int64_t bytes, RowFormat format);
  const Op& op(const RankStep& rank_step) const { return step.plan[rank_step.op]; }
  /// The rank's own, of a kernel op.
  const Kernel& kernel(const RankStep& rank_step) const {
    return op(rank_step).kernels()->of(op(rank_step).group.member(program.rank));
  }
  /// Whether an exchange moves activations, gradients or weights of an iteration, not tokens or
  /// patterns.
  bool moves_training(const OpKey& key) const {
    return step.iteration &&
           (key.kind == OpKind::stage_transfer || key.kind == OpKind::gradient_exchange ||
            key.kind == OpKind::weight_exchange || key.kind == OpKind::gradient_sum ||
            key.kind == OpKind::parameter_exchange || key.kind == OpKind::tensor_exchange);
  }
  /// Bytes of a row of a matrix.
  std::int64_t row_bytes(std::int64_t width) const {
    return width * static_cast<std::int64_t>(size_of(program.matrices));
  }

  const RealStep& step;
  RankProgram& program;
  const Ancestors& ancestors;
  std::map<int, ExpertBuffers> experts = {};  // by layer
};

}  // namespace moesim
