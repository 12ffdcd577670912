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

/// A value per GPU, kept once while all GPUs have the same, as they do where they are in every op
/// together.
template <class T>
class PerGpu {
 public:
  PerGpu() = default;
  explicit PerGpu(std::size_t gpus, const T& value = {}) : gpus_(gpus), values_{value} {}

  std::size_t size() const { return gpus_; }
  bool empty() const { return gpus_ == 0; }
  /// Whether it is kept once.
  bool is_one() const { return values_.size() == 1; }
  const T& operator[](std::size_t gpu) const { return values_[is_one() ? 0 : gpu]; }
  /// Of a single GPU, to be changed.
  T& operator[](std::size_t gpu) {
    divide();
    return values_[gpu];
  }
  /// Calls change(value) for some GPUs: once for all of them if they are all and have one.
  template <class Change>
  void change(const Group& gpus, Change change) {
    if (is_one() && gpus.size() == gpus_) return change(values_[0]);
    divide();
    for (const GpuId gpu : gpus) change(values_[gpu.index()]);
  }
  /// Appends lists, GPU by GPU.
  void add(const PerGpu& others) {
    if (!others.is_one()) divide();
    for (std::size_t i = 0; i < values_.size(); ++i) {
      values_[i].insert(values_[i].end(), others[i].begin(), others[i].end());
    }
  }
  template <class Change>
  void change_all(Change change) {
    for (T& value : values_) change(value);
  }
  /// Over the values that are kept: one, or that of each GPU.
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  void divide() {
    if (is_one()) values_.resize(gpus_, T(values_[0]));
  }

  std::size_t gpus_ = 0;
  std::vector<T> values_;
};

/// Per GPU, under the numbers of a chain, ops that later ones can wait for: a point in time.
using Mark = PerGpu<OpList>;

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
  /// Adds an op to what those of the chain's GPUs wait for that run it.
  void add_to(Mark& waits, OpId op) const {
    change_members(waits, op, [op](OpList& list) { list.push_back(op); });
  }

 private:
  /// How far a GPU has come.
  struct Reached {
    OpId last_compute;
    std::array<OpId, stream_count> stream_knows;  // newest compute that the stream waits for
    OpList awaited = {};
    OpList arriving = {};  // of these, what exchanges wait for, too
  };
  OpId add(Op op);
  OpId add_waiting(Op op);
  /// Calls change(value) for the chain's GPUs that run an op.
  template <class T, class Change>
  void change_members(PerGpu<T>& values, OpId op, Change change) const {
    const Group& members = plan_[op].group;
    if (values.is_one() && gpus_->all_in(members)) return values.change_all(change);
    for (const GpuId gpu : members) {
      if (const GpuId own = gpus_->own(gpu); own.value >= 0) change(values[own.index()]);
    }
  }

  Plan& plan_;
  std::shared_ptr<const GpuSubset> gpus_;
  PerGpu<Reached> reached_;
  std::vector<OpId> waits_;  // of the op that is being added
};

}  // namespace moesim
