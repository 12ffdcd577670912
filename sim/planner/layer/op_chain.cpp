// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/op_chain.h"

#include <algorithm>
#include <utility>

#include "sim/base/ordering.h"

namespace moesim {
namespace {

constexpr OpId none(-1);

/// GPUs that follow each other most often wait for the same ops, which are then listed once.
void add_waits(const OpList& of_gpu, std::vector<OpId>& waits) {
  const std::size_t count = of_gpu.size();
  const bool same = waits.size() >= count &&
                    std::equal(of_gpu.begin(), of_gpu.end(), waits.end() - std::ptrdiff_t(count));
  if (!same) waits.insert(waits.end(), of_gpu.begin(), of_gpu.end());
}

}  // namespace

std::vector<OpId> waits_of(const Group& gpus, const Mark& mark) {
  std::vector<OpId> waits;
  if (gpus.empty() || mark.empty()) return waits;
  if (mark.is_one()) {
    add_waits(mark[0], waits);
    return waits;
  }
  waits.reserve(gpus.size());
  for (const GpuId gpu : gpus) {
    add_waits(mark[gpu.index()], waits);
  }
  return waits;
}

OpChain::OpChain(Plan& plan)
    : OpChain(plan, std::make_shared<const GpuSubset>(GpuSubset::all(plan.gpus))) {}

OpChain::OpChain(Plan& plan, std::shared_ptr<const GpuSubset> subset)
    : plan_(plan), gpus_(std::move(subset)) {
  Reached begun{none, {}};
  begun.stream_knows.fill(none);
  reached_ = PerGpu<Reached>(static_cast<std::size_t>(gpus_->size()), begun);
}

OpId OpChain::add(Op op) {
  waits_.assign(op.after.begin(), op.after.end());
  return add_waiting(std::move(op));
}

/// After waits_. They held the waits of every GPU, most of them the same, which the plan keeps in
/// no more room than they need.
OpId OpChain::add_waiting(Op op) {
  gpus_->to_plan(op);
  sort_once(waits_);
  if (op.after.capacity() == waits_.size()) {
    op.after.assign(waits_.begin(), waits_.end());
  } else {
    op.after = std::vector<OpId>(waits_.begin(), waits_.end());
  }
  return plan_.add(std::move(op));
}

OpId OpChain::compute(Op op) {
  const Group group = op.group;
  waits_.assign(op.after.begin(), op.after.end());
  reached_.change(group, [&](Reached& at) {
    add_waits(at.awaited, waits_);
    at.awaited.clear();
    at.arriving.clear();
  });
  const OpId id = add_waiting(std::move(op));
  reached_.change(group, [&](Reached& at) { at.last_compute = id; });
  return id;
}

OpId OpChain::kernel(Op op) {
  const Group group = op.group;
  const OpId id = add(std::move(op));
  if (plan_[id].stream != Stream::compute) return id;
  reached_.change(group, [&](Reached& at) { at.last_compute = id; });
  return id;
}

OpId OpChain::exchange(Op op) {
  const Group members = op.group;
  const auto stream = static_cast<std::size_t>(op.stream);
  waits_.assign(op.after.begin(), op.after.end());
  reached_.change(members, [&](Reached& at) {
    add_waits(at.arriving, waits_);
    const OpId compute = at.last_compute;
    if (at.stream_knows[stream] == compute) return;
    if (waits_.empty() || waits_.back() != compute) waits_.push_back(compute);
    at.stream_knows[stream] = compute;
  });
  const OpId id = add_waiting(std::move(op));
  // An earlier exchange of the stream has ended when this one starts.
  const auto ended = [&](OpId other) { return plan_[other].stream == plan_[id].stream; };
  reached_.change(members, [&](Reached& at) {
    at.awaited.erase(std::remove_if(at.awaited.begin(), at.awaited.end(), ended), at.awaited.end());
    at.awaited.push_back(id);
  });
  return id;
}

OpId OpChain::detached(Op op) { return add(std::move(op)); }

void OpChain::require(const std::vector<OpId>& ops) {
  for (const OpId op : ops) {
    change_members(reached_, op, [op](Reached& at) { at.awaited.push_back(op); });
  }
}

void OpChain::begin_after(const std::vector<OpId>& ops) {
  require(ops);
  for (const OpId op : ops) {
    change_members(reached_, op, [op](Reached& at) { at.arriving.push_back(op); });
  }
}

void OpChain::join(const std::vector<OpChain>& parts) {
  const auto join_at = [&](std::size_t gpu, Reached& at) {
    at.awaited.clear();
    at.arriving.clear();
    at.stream_knows.fill(none);
    for (const OpChain& part : parts) {
      const Reached& of = std::as_const(part.reached_)[gpu];
      at.last_compute = std::max(at.last_compute, of.last_compute);
      at.awaited.insert(at.awaited.end(), of.awaited.begin(), of.awaited.end());
      at.arriving.insert(at.arriving.end(), of.arriving.begin(), of.arriving.end());
    }
    sort_once(at.awaited);
    sort_once(at.arriving);
  };
  const auto is_one = [](const OpChain& chain) { return chain.reached_.is_one(); };
  if (is_one(*this) && std::ranges::all_of(parts, is_one)) {
    return reached_.change_all([&](Reached& at) { join_at(0, at); });
  }
  for (std::size_t gpu = 0; gpu < reached_.size(); ++gpu) join_at(gpu, reached_[gpu]);
}

Mark OpChain::per_gpu(const std::vector<OpId>& ops) const {
  Mark mark(reached_.size());
  for (const OpId op : ops) add_to(mark, op);
  return mark;
}

Mark OpChain::mark() const {
  const auto list_of = [](const Reached& at) {
    OpList list = at.awaited;
    if (list.empty() && at.last_compute != none) list.push_back(at.last_compute);
    return list;
  };
  if (reached_.is_one()) return Mark(reached_.size(), list_of(reached_[0]));
  Mark mark(reached_.size());
  for (std::size_t gpu = 0; gpu < mark.size(); ++gpu) mark[gpu] = list_of(reached_[gpu]);
  return mark;
}

}  // namespace moesim
