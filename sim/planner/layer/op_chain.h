// SPDX-License-Identifier: Apache-2.0
// Adds ops to a plan so that every GPU's kernels and exchanges wait for each other.
#pragma once

#include <array>
#include <boost/container/small_vector.hpp>
#include <memory>
#include <vector>

#include "sim/plan/plan.h"
#include "sim/planner/layer/gpu_subset.h"

namespace moesim {

/// What one GPU waits for: few ops, by the exchanges that a phase of a dispatch brings it.
using OpList = boost::container::small_vector<OpId, 12>;

/// Per GPU, under the numbers of a chain, ops that later ones can wait for: a point in time.
using Mark = std::vector<OpList>;

/// What some GPUs wait for, together: what one of them has done is not news to another that took
/// part in it.
std::vector<OpId> waits_of(const Group& gpus, const Mark& mark);

/// Ops that follow each other through the layers of one microbatch on some GPUs of the plan. Ops
/// come in with groups under the chain's own numbers.
class OpChain {
 public:
  /// Over all GPUs of the plan.
  explicit OpChain(Plan& plan);
  OpChain(Plan& plan, std::shared_ptr<const GpuSubset> gpus);
  int gpus() const { return gpus_->size(); }

  /// A kernel on the compute stream, after every exchange that its GPUs have joined or been told to
  /// wait for since their last one.
  OpId compute(Op op);
  /// A kernel on any stream, only after what op.after names.
  OpId kernel(Op op);
  /// A token exchange, after op.after and the newest compute of its participants; their next
  /// compute waits for it.
  OpId exchange(Op op);
  /// An exchange only after what op.after names, for which nobody waits until told to.
  OpId detached(Op op);
  /// The next compute of every GPU that takes part in one of these ops waits for it.
  void require(const std::vector<OpId>& ops);
  /// The next op of every GPU that takes part in one of these waits for it, also an exchange: what
  /// it works on has to arrive first.
  void begin_after(const std::vector<OpId>& ops);
  /// Continues from where all of some chains have come to, which have begun as copies of it.
  void join(const std::vector<OpChain>& parts);
  /// What every GPU has done so far: exchanges that nothing waits for yet, else its newest compute.
  Mark mark() const;
  /// Returns the ops, of some, that each GPU takes part in.
  Mark per_gpu(const std::vector<OpId>& ops) const;
  Stream stream_of(OpId op) const { return plan_[op].stream; }
  /// Calls visit(gpu) for each of the chain's GPUs, under its own number, that runs the op.
  template <class Visit>
  void for_each_gpu(OpId op, Visit visit) const {
    for (const GpuId gpu : plan_[op].group) {
      if (const GpuId own = gpus_->own(gpu); own.value >= 0) visit(own);
    }
  }

 private:
  OpId add(Op op);

  Plan& plan_;
  std::shared_ptr<const GpuSubset> gpus_;
  std::vector<OpId> last_compute_;  // [gpu]
  std::vector<std::array<OpId, stream_count>>
      stream_knows_;              // [gpu] newest compute the stream waits for
  std::vector<OpList> awaited_;   // [gpu]
  std::vector<OpList> arriving_;  // [gpu] of these, what exchanges wait for, too
};

}  // namespace moesim
