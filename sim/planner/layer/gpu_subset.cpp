// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/gpu_subset.h"

#include <algorithm>
#include <numeric>

namespace moesim {
namespace {

constexpr std::size_t most_lists = 4096;  // that are kept although nothing else may use them

/// [member] its place in an order of members.
std::vector<std::int64_t> places_in(const std::vector<std::size_t>& order) {
  std::vector<std::int64_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<std::int64_t>(i);
  return place;
}

/// Row and column i of the result are those of member order[i].
ByteMatrix in_order(const ByteMatrix& traffic, const std::vector<std::size_t>& order) {
  const std::vector<std::int64_t> place = places_in(order);
  ByteMatrix result(traffic.unit());
  for (const std::size_t member : order) {
    const auto row = traffic.row(GpuId(static_cast<std::int64_t>(member)));
    std::vector<ByteMatrix::Entry> entries(row.begin(), row.end());
    for (auto& entry : entries) entry.to = GpuId(place[entry.to.index()]);
    std::ranges::sort(entries, {}, &ByteMatrix::Entry::to);
    result.add_row(entries);
  }
  return result;
}

Kernels in_order(const Kernels& kernels, const std::vector<std::size_t>& order) {
  std::vector<Kernel> each;
  for (const std::size_t member : order) each.push_back(kernels.of(member));
  return Kernels(std::move(each));
}

Collectives in_order(const Collectives& collectives, const std::vector<std::size_t>& order) {
  const std::vector<std::int64_t> place = places_in(order);
  std::vector<std::vector<GpuId>> each = collectives.members;
  for (auto& members : each) {
    for (GpuId& member : members) member = GpuId(place[member.index()]);
    std::ranges::sort(members);
  }
  return {std::move(each), collectives.apart};
}

}  // namespace

MemberNodes nodes_of(const std::vector<GpuId>& members, const Topology& topology) {
  std::vector<int> nodes;
  for (const GpuId gpu : members) nodes.push_back(topology.host_of(gpu));
  return by_node(nodes);
}

GpuSubset::GpuSubset(std::vector<GpuId> chosen, int gpus)
    : chosen_(std::move(chosen)), own_(static_cast<std::size_t>(gpus), GpuId(-1)) {
  for (std::size_t i = 0; i < chosen_.size(); ++i) {
    own_.at(chosen_[i].index()) = GpuId(static_cast<std::int64_t>(i));
  }
}

GpuSubset::Members& GpuSubset::members(const Group& own) const {
  if (members_of_.size() > most_lists) members_of_.clear();
  const auto [known, fresh] = members_of_.try_emplace(&own.list());
  if (fresh) known->second = {own, &found(own)};
  return *known->second.second;
}

bool GpuSubset::all_in(const Group& of_plan) const {
  if (of_plan.size() < chosen_.size()) return false;
  if (all_in_.size() > most_lists) all_in_.clear();
  const auto [known, fresh] = all_in_.try_emplace(&of_plan.list());
  if (fresh) {
    const bool all = std::ranges::all_of(chosen_, [&](GpuId g) { return of_plan.contains(g); });
    known->second = {of_plan, all};
  }
  return known->second.second;
}

GpuSubset::Members& GpuSubset::found(const Group& own) const {
  Members& known = groups_[own.list()];
  if (!known.group.empty() || own.empty()) return known;
  std::vector<GpuId> gpus;
  for (const GpuId gpu : own) gpus.push_back(in_plan(gpu));
  if (!std::ranges::is_sorted(gpus)) {
    known.order.resize(gpus.size());
    std::iota(known.order.begin(), known.order.end(), std::size_t{0});
    std::ranges::sort(known.order, {}, [&](std::size_t member) { return gpus[member]; });
    std::ranges::sort(gpus);
  }
  known.group = Group(std::move(gpus));
  return known;
}

void GpuSubset::to_plan(Op& op) const {
  Members& known = members(op.group);
  op.group = known.group;
  if (auto* exchange = std::get_if<Exchange>(&op.work)) {
    for (RowMove& row : exchange->rows) {
      row.from = in_plan(row.from);
      row.to = in_plan(row.to);
    }
  }
  if (known.order.empty()) return;
  if (auto* exchange = std::get_if<Exchange>(&op.work)) {
    const ByteMatrix traffic = exchange->traffic;
    const auto [made, is_new] = known.traffic.try_emplace(traffic.identity().first);
    if (is_new) made->second = {traffic, in_order(traffic, known.order)};
    exchange->traffic = made->second.second.with_unit(traffic.unit());
    if (!exchange->collectives) return;
    const auto parts = exchange->collectives;
    const auto [moved, fresh] = known.collectives.try_emplace(parts.get());
    if (fresh) {
      moved->second = {parts, std::make_shared<const Collectives>(in_order(*parts, known.order))};
    }
    exchange->collectives = moved->second.second;
    return;
  }
  auto& kernels = std::get<Kernels>(op.work);
  if (kernels.each().size() == 1) return;
  const auto [made, is_new] = known.kernels.try_emplace(kernels.each().data());
  if (is_new) made->second = {kernels, in_order(kernels, known.order)};
  kernels = made->second.second;
}

}  // namespace moesim
