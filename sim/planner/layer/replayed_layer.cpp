// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/replayed_layer.h"

#include <algorithm>
#include <numeric>

#include "sim/planner/layer/gradient_sum.h"
#include "sim/planner/layer/phase_exchange.h"

namespace moesim {
namespace {

/// GPUs that send or receive, ascending.
Group members_of(const ByteMatrix& traffic) {
  std::vector<bool> takes_part(static_cast<std::size_t>(traffic.ranks()));
  for (int g = 0; g < traffic.ranks(); ++g) {
    for (const auto& entry : traffic.row(GpuId(g))) {
      takes_part[static_cast<std::size_t>(g)] = takes_part[entry.to.index()] = true;
    }
  }
  std::vector<GpuId> gpus;
  for (int g = 0; g < traffic.ranks(); ++g) {
    if (takes_part[static_cast<std::size_t>(g)]) gpus.emplace_back(g);
  }
  return gpus;
}

}  // namespace

ReplayedLayer::ReplayedLayer(const LayerWork& work)
    : work_(work), chunks_(work.chunks.begin(), work.chunks.end()) {
  const RowCounts& counts = work.counts;
  const std::size_t gpus = counts.gpus();
  packed_.resize(gpus);
  delivered_.resize(gpus);
  const std::vector<bool> continued = continued_phases(work.dispatch->shape());
  for (std::size_t p = 0; p < counts.phases.size(); ++p) {
    const RowTable::Sums& phase = phases_.emplace_back(counts.on_wire()[p].sums());
    const bool first = work.dispatch->shape().phases[p].previous < 0;
    for (std::size_t g = 0; g < gpus; ++g) {
      if (first) packed_[g] += phase.sent[g];
      if (!continued[p]) delivered_[g] += phase.arrived[g];
    }
  }
  gathered_ = delivered_;
  if (!work.tensor_groups) return;
  sharing_.resize(gpus);
  for (const Group& group : *work.tensor_groups) {
    std::int64_t all = 0;
    for (const GpuId gpu : group) all += delivered_[gpu.index()];
    for (const GpuId gpu : group) {
      gathered_[gpu.index()] = all;
      sharing_[gpu.index()] = &group;
    }
  }
}

std::vector<std::int64_t> ReplayedLayer::fullest_senders(int phase, bool back) const {
  const RowTable& rows = work_.counts.on_wire()[static_cast<std::size_t>(phase)];
  std::vector<std::int64_t> most(rows.gpus());
  for (std::size_t from = 0; from < rows.gpus(); ++from) {
    rows.for_each(from, [&](std::size_t to, std::uint32_t count) {
      std::int64_t& of = most[back ? from : to];
      if (from != to) of = std::max<std::int64_t>(of, count);
    });
  }
  return most;
}

std::vector<std::int64_t> ReplayedLayer::computed(GpuId gpu) const {
  const Placement& placement = work_.assignment().placement();
  std::vector<std::int64_t> rows(static_cast<std::size_t>(placement.slots_on(gpu)));
  const auto add = [&](GpuId holder) {
    const auto first = work_.counts.computed().begin() + placement.first_slot(holder).value;
    for (std::size_t slot = 0; slot < rows.size(); ++slot) {
      rows[slot] += first[static_cast<std::ptrdiff_t>(slot)];
    }
  };
  if (sharing_.empty()) {
    add(gpu);
  } else {
    for (const GpuId holder : *sharing_[gpu.index()]) add(holder);
  }
  return rows;
}

const ReplayedLayer::ExpertWork& ReplayedLayer::expert_work() {
  if (expert_work_) return *expert_work_;
  ExpertWork& work = expert_work_.emplace();
  for (GpuId gpu(0); gpu.value < work_.assignment().placement().gpus(); ++gpu.value) {
    const auto& m = work.m.emplace_back(computed(gpu));
    work.rows.push_back(std::accumulate(m.begin(), m.end(), std::int64_t{0}));
    work.read.push_back(std::min(gathered_[gpu.index()], work.rows.back()));
  }
  return work;
}

std::vector<Exchange> ReplayedLayer::tensor_exchanges(Bytes row, bool back) {
  if (!work_.tensor_groups) return {};
  if (gathers_.empty()) {
    for (const Group& group : *work_.tensor_groups) {
      std::vector<std::int64_t> parts;
      for (const GpuId gpu : group) parts.push_back(delivered_[gpu.index()]);
      const CollectiveTraffic moves = all_gather(parts, Bytes(1));
      gathers_.push_back({moves.traffic, {}, false});
      gathers_.back().rounds = work_.goes_on ? 0 : std::max(1, moves.rounds);
      gathers_.back().ring = moves.ring;
    }
  }
  std::vector<Exchange> exchanges = gathers_;
  for (Exchange& exchange : exchanges) {
    exchange.traffic = exchange.traffic.with_unit(row);
    exchange.transposed = back;
  }
  return exchanges;
}

std::vector<Exchange> ReplayedLayer::tensor_sums(Bytes row) const {
  std::vector<Exchange> sums;
  for (const Group& group : *work_.tensor_groups) {
    std::vector<std::int64_t> parts;
    for (const GpuId gpu : group) parts.push_back(work_.tokens_per_rank[gpu.index()]);
    const CollectiveTraffic moves = two_shot_all_reduce(work_.tensor_nodes, parts, row);
    sums.push_back({moves.traffic, {}, false});
    sums.back().rounds = std::max(1, moves.rounds);
  }
  return sums;
}

const PhaseTraffic& ReplayedLayer::traffic(int phase) {
  PhaseTraffic& out = (*traffic_)[{phase, nullptr}];
  if (out.groups.empty()) out = phase_traffic(work_, phase);
  return out;
}

const PhaseTraffic& ReplayedLayer::traffic(int phase, const SideExchange& side) {
  PhaseTraffic& out = (*traffic_)[{phase, &side}];
  if (out.groups.empty()) out = side_traffic(traffic(phase), side);
  return out;
}

bool ReplayedLayer::share_traffic(const ReplayedLayer& twin) {
  const auto& own = work_.counts.on_wire();
  const auto& others = twin.work_.counts.on_wire();
  const bool same = work_.dispatch == twin.work_.dispatch && own.size() == others.size() &&
                    std::ranges::equal(own, others, [](const RowTable& a, const RowTable& b) {
                      return a.shares_blocks(b);
                    });
  if (same) {
    traffic_ = twin.traffic_;
    joined_ = twin.joined_;
  }
  return same;
}

void ReplayedLayer::join_communicators(bool apart, KnownCollectives& known) {
  if (joined_) return;
  joined_ = true;
  Moved joined;
  for (int phase = 0; phase < work_.dispatch->shape().size(); ++phase) {
    const PhaseTraffic& each = traffic(phase);
    joined[{phase, nullptr}] = each.groups.size() > 1 ? as_one(each, apart, known) : each;
  }
  *traffic_ = std::move(joined);
}

const ReplayedLayer::Concerned& ReplayedLayer::concerned(const ByteMatrix& whole) {
  const auto [known, is_new] = concerned_.try_emplace(whole.identity());
  if (is_new) {
    const Group members = members_of(whole);
    known->second = {whole, members, whole.among(members)};
  }
  return known->second;
}

const ReplayedLayer::KernelsOfGroup* ReplayedLayer::kernels(OpKey key, const Group& everybody,
                                                            const KernelOf& kernel_of) {
  key.microbatch = key.chunk = 0;
  const auto [known, is_new] = kernels_.try_emplace(key);
  KernelsOfGroup& made = known->second;
  if (is_new) {
    std::vector<GpuId> gpus;
    std::vector<Kernel> each;
    gpus.reserve(everybody.size());
    each.reserve(everybody.size());
    for (const GpuId gpu : everybody) {
      Kernel kernel = kernel_of(gpu);
      if (is_empty(kernel)) continue;
      gpus.push_back(gpu);
      each.push_back(std::move(kernel));
    }
    made.group = gpus.size() == everybody.size() ? everybody : Group(std::move(gpus));
    if (!each.empty()) made.kernels = Kernels(std::move(each));
  }
  return made.group.empty() ? nullptr : &made;
}

std::vector<ExpertMemory> memory_of_experts(const LayerWork& work, const MoeModel& model,
                                            const TrainingState& state) {
  if (!work.decision.memory.empty()) return work.decision.memory;
  return whole_experts(work.assignment().placement(), model, state);
}

std::vector<std::int64_t> parameters_with_state(const LayerWork& work, const MoeModel& model,
                                                const TrainingState& state) {
  std::vector<std::int64_t> parameters;
  const bool whole = work.decision.gradients == GradientLayout::homes;
  if (work.decision.memory.empty() || (whole && state.optimizer == 0)) {
    for (const auto& own : state_homes(work.decision)) {
      parameters.push_back(model.expert_parameters() * std::ssize(own));
    }
    return parameters;
  }
  for (const ExpertMemory& gpu : work.decision.memory) {
    parameters.push_back(state.optimizer == 0 ? gpu.weights.value / size_of(model.weights)
                                              : gpu.optimizer.value / state.optimizer);
  }
  return parameters;
}

}  // namespace moesim
