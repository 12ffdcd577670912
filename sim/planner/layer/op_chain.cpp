// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/op_chain.h"

#include <algorithm>

#include "sim/base/sort_once.h"

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
  for (const GpuId gpu : gpus) {
    add_waits(mark[gpu.index()], waits);
  }
  return waits;
}

OpChain::OpChain(Plan& plan)
    : OpChain(plan, std::make_shared<const GpuSubset>(GpuSubset::all(plan.gpus))) {}

OpChain::OpChain(Plan& plan, std::shared_ptr<const GpuSubset> subset)
    : plan_(plan), gpus_(std::move(subset)) {
  const auto gpus = static_cast<std::size_t>(gpus_->size());
  std::array<OpId, stream_count> nothing;
  nothing.fill(none);
  last_compute_.assign(gpus, none);
  stream_knows_.assign(gpus, nothing);
  awaited_.resize(gpus);
  arriving_.resize(gpus);
}

OpId OpChain::add(Op op) {
  gpus_->to_plan(op);
  sort_once(op.after);
  op.after.shrink_to_fit();  // it held the waits of every GPU, most of them the same
  return plan_.add(std::move(op));
}

OpId OpChain::compute(Op op) {
  const Group group = op.group;
  for (const GpuId gpu : group) {
    auto& awaited = awaited_[gpu.index()];
    add_waits(awaited, op.after);
    awaited.clear();
    arriving_[gpu.index()].clear();
  }
  const OpId id = add(std::move(op));
  for (const GpuId gpu : group) last_compute_[gpu.index()] = id;
  return id;
}

OpId OpChain::kernel(Op op) {
  const Group group = op.group;
  const OpId id = add(std::move(op));
  if (plan_[id].stream != Stream::compute) return id;
  for (const GpuId gpu : group) last_compute_[gpu.index()] = id;
  return id;
}

OpId OpChain::exchange(Op op) {
  const Group members = op.group;
  const auto stream = static_cast<std::size_t>(op.stream);
  for (const GpuId gpu : members) {
    add_waits(arriving_[gpu.index()], op.after);
    const OpId compute = last_compute_[gpu.index()];
    if (stream_knows_[gpu.index()][stream] == compute) continue;
    if (op.after.empty() || op.after.back() != compute) op.after.push_back(compute);
    stream_knows_[gpu.index()][stream] = compute;
  }
  const OpId id = add(std::move(op));
  for (const GpuId gpu : members) {
    auto& awaited = awaited_[gpu.index()];
    // An earlier exchange of the stream has ended when this one starts.
    const auto ended = [&](OpId other) { return plan_[other].stream == plan_[id].stream; };
    awaited.erase(std::remove_if(awaited.begin(), awaited.end(), ended), awaited.end());
    awaited.push_back(id);
  }
  return id;
}

OpId OpChain::detached(Op op) { return add(std::move(op)); }

void OpChain::require(const std::vector<OpId>& ops) {
  for (const OpId op : ops) {
    for_each_gpu(op, [&](GpuId gpu) { awaited_[gpu.index()].push_back(op); });
  }
}

void OpChain::begin_after(const std::vector<OpId>& ops) {
  require(ops);
  for (const OpId op : ops) {
    for_each_gpu(op, [&](GpuId gpu) { arriving_[gpu.index()].push_back(op); });
  }
}

void OpChain::join(const std::vector<OpChain>& parts) {
  for (std::size_t gpu = 0; gpu < awaited_.size(); ++gpu) {
    awaited_[gpu].clear();
    arriving_[gpu].clear();
    stream_knows_[gpu].fill(none);
    for (const OpChain& part : parts) {
      last_compute_[gpu] = std::max(last_compute_[gpu], part.last_compute_[gpu]);
      awaited_[gpu].insert(awaited_[gpu].end(), part.awaited_[gpu].begin(),
                           part.awaited_[gpu].end());
      arriving_[gpu].insert(arriving_[gpu].end(), part.arriving_[gpu].begin(),
                            part.arriving_[gpu].end());
    }
    sort_once(awaited_[gpu]);
    sort_once(arriving_[gpu]);
  }
}

Mark OpChain::per_gpu(const std::vector<OpId>& ops) const {
  Mark mark(awaited_.size());
  for (const OpId op : ops) {
    for_each_gpu(op, [&](GpuId gpu) { mark[gpu.index()].push_back(op); });
  }
  return mark;
}

Mark OpChain::mark() const {
  Mark mark(awaited_.size());
  for (std::size_t gpu = 0; gpu < mark.size(); ++gpu) {
    mark[gpu] = awaited_[gpu];
    if (mark[gpu].empty() && last_compute_[gpu] != none) mark[gpu].push_back(last_compute_[gpu]);
  }
  return mark;
}

}  // namespace moesim
