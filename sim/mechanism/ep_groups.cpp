// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/ep_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/plan/exchange_time.h"

namespace moesim {
namespace {

/// The ranks of one EP group by `key_of` their GPUs, in the order of the keys.
template <class KeyOf>
Communicators ranks_by(GpuId first, int size, const KeyOf& key_of) {
  std::map<int, std::vector<GpuId>> groups;
  for (int r = 0; r < size; ++r) groups[key_of(GpuId(first.value + r))].emplace_back(r);
  Communicators result;
  for (auto& entry : groups) result.push_back(std::move(entry.second));
  return result;
}

bool equal_sizes(const std::vector<Communicators>& of_group) {
  const std::size_t size = of_group.front().front().size();
  return std::ranges::all_of(of_group, [&](const Communicators& groups) {
    return std::ranges::all_of(groups, [&](const auto& group) { return group.size() == size; });
  });
}

std::size_t number(const std::vector<Communicators>& of_group) {
  std::size_t sum = 0;
  for (const Communicators& groups : of_group) sum += groups.size();
  return sum;
}

bool splits_hosts(const Topology& topology, const std::vector<Communicators>& of_group, int ep) {
  for (std::size_t g = 0; g < of_group.size(); ++g) {
    const auto first = static_cast<std::int64_t>(g) * ep;
    std::map<int, std::size_t> list_of;  // by host
    for (std::size_t i = 0; i < of_group[g].size(); ++i) {
      for (const GpuId rank : of_group[g][i]) {
        const int host = topology.host_of(GpuId(first + rank.value));
        if (list_of.try_emplace(host, i).first->second != i) return true;
      }
    }
  }
  return false;
}

/// GPUs of a host; 0 unless all have equally many consecutive ones.
int equal_hosts(const Topology& topology) {
  const int gpus = topology.gpu_count();
  if (gpus % topology.host_count() != 0) return 0;
  const int size = gpus / topology.host_count();
  for (int g = 0; g < gpus; ++g) {
    if (topology.host_of(GpuId(g)) != g / size) return 0;
  }
  return size;
}

/// The levels of every EP group: [group][level].
std::vector<std::vector<RankLevel>> nested_levels(const Topology& topology, int ep) {
  const int count = topology.gpu_count() / ep;
  std::vector<std::vector<RankLevel>> levels(static_cast<std::size_t>(count));
  const auto cut = [&](const auto& key_of) {
    std::vector<Communicators> of_group;
    for (int g = 0; g < count; ++g) {
      of_group.push_back(ranks_by(GpuId(std::int64_t{g} * ep), ep, key_of));
    }
    return of_group;
  };
  const auto add = [&](std::vector<Communicators> of_group) {
    const RankLevel::Facts facts{equal_sizes(of_group), splits_hosts(topology, of_group, ep)};
    for (std::size_t g = 0; g < levels.size(); ++g) {
      const RankLevel* outer = levels[g].empty() ? nullptr : &levels[g].back();
      levels[g].push_back(RankLevel(std::move(of_group[g]), outer, facts));
    }
  };
  add(cut([](GpuId) { return 0; }));
  auto groups = static_cast<std::size_t>(count);
  for (const Level& level : topology.levels()) {
    auto of_group = cut([&](GpuId gpu) { return level.group_of[gpu.index()]; });
    const std::size_t more = number(of_group);
    if (more == groups || more == static_cast<std::size_t>(topology.gpu_count())) continue;
    groups = more;
    add(std::move(of_group));
  }
  return levels;
}

}  // namespace

EpGroups::EpGroups(const Topology& topology, int ep) : topology_(&topology), size_(ep) {
  const int gpus = topology.gpu_count();
  if (ep < 1 || gpus % ep != 0) {
    throw Error(fmt::format("{} cannot form groups of ep = {}", counted(gpus, "GPU"), ep),
                "ep must divide the number of GPUs");
  }
  gpus_per_host_ = equal_hosts(topology);
  auto levels = nested_levels(topology, ep);
  std::vector<Communicators> by_host;
  for (std::size_t g = 0; g < levels.size(); ++g) {
    by_host.push_back(ranks_by(GpuId(static_cast<std::int64_t>(g) * ep), ep,
                               [&](GpuId gpu) { return topology.host_of(gpu); }));
  }
  const std::size_t hosts = number(by_host);
  const RankSpace::HostFacts facts{hosts > levels.size(), hosts < static_cast<std::size_t>(gpus)};
  const bool equal = equal_sizes(by_host);
  std::vector<RankSpace> spaces;
  for (std::size_t g = 0; g < levels.size(); ++g) {
    RankLevel level(std::move(by_host[g]), nullptr, {equal});
    spaces.emplace_back(std::move(levels[g]), std::move(level), facts);
  }
  spaces_ = std::make_shared<const std::vector<RankSpace>>(std::move(spaces));
}

Communicators EpGroups::lifted(const std::vector<const Communicators*>& of_group) const {
  Communicators all;
  for (std::size_t g = 0; g < of_group.size(); ++g) {
    for (const auto& ranks : *of_group[g]) {
      auto& gpus = all.emplace_back();
      for (const GpuId rank : ranks) gpus.push_back(gpu(static_cast<int>(g), rank));
    }
  }
  return all;
}

ByteMatrix EpGroups::joined(const std::vector<ByteMatrix>& of_group) const {
  ByteMatrix all(of_group.front().unit());
  std::vector<ByteMatrix::Entry> row;
  for (int g = 0; g < count(); ++g) {
    for (int r = 0; r < size_; ++r) {
      const auto entries = of_group[static_cast<std::size_t>(g)].row(GpuId(r));
      row.assign(entries.begin(), entries.end());
      for (auto& entry : row) entry.to = gpu(g, entry.to);
      all.add_row(row);
    }
  }
  return all;
}

ByteMatrix EpGroups::in_every_group(const ByteMatrix& of_group) const {
  return joined(std::vector<ByteMatrix>(static_cast<std::size_t>(count()), of_group));
}

Assignment EpGroups::in_every_group(const Assignment& of_group) const {
  return Assignment::joined(std::vector<Assignment>(static_cast<std::size_t>(count()), of_group));
}

std::vector<ExpertTransfer> EpGroups::lifted(std::vector<ExpertTransfer> transfers,
                                             int group) const {
  for (ExpertTransfer& t : transfers) {
    t.from = gpu(group, t.from);
    t.to = gpu(group, t.to);
  }
  return transfers;
}

ByteMatrix EpGroups::traffic(std::span<const ExpertTransfer> transfers) const {
  std::vector<ExpertTransfer> moving;
  std::ranges::copy_if(transfers, std::back_inserter(moving),
                       [](const ExpertTransfer& t) { return t.from != t.to; });
  return traffic_of(moving, topology_->gpu_count());
}

Seconds EpGroups::busiest_link(const ByteMatrix& traffic) const {
  return price(*topology_, traffic)->alone.transfer;
}

ExchangeTime EpGroups::alone(const ByteMatrix& traffic) const {
  return price(*topology_, traffic, {transport_.get(), false})->alone;
}

Seconds EpGroups::slowest(const std::vector<GroupTraffic>& traffic) const {
  std::vector<ExchangePrice> together;
  for (const GroupTraffic& one : traffic) {
    together.push_back(price(*topology_, one, {transport_.get(), false}));
  }
  return std::ranges::max(shared_times(together));
}

Batch EpGroups::part(const Batch& batch, int group) const {
  const auto ranks = batch.ranks.begin() + static_cast<std::ptrdiff_t>(first(group));
  return {batch.step, {ranks, ranks + size_}};
}

GroupPart EpGroups::part(const Batch& batch, const Assignment& assignment, int group) const {
  return {part(batch, group), assignment.part(gpu(group, GpuId(0)), size_)};
}

LoadMatrix EpGroups::part(const LoadMatrix& loads, int group) const {
  return loads.sources() == 0 ? loads : loads.rows(gpu(group, GpuId(0)), size_);
}

SlotTable EpGroups::part(const SlotTable& table, int group) const {
  const auto ranks = table.begin() + static_cast<std::ptrdiff_t>(first(group));
  return {ranks, ranks + size_};
}

std::optional<GroupNodes> EpGroups::nodes() const {
  if (gpus_per_host_ == 0) return std::nullopt;
  if (size_ % gpus_per_host_ == 0) return GroupNodes{size_ / gpus_per_host_, gpus_per_host_};
  if (gpus_per_host_ % size_ == 0) return GroupNodes{1, size_};
  return std::nullopt;
}

std::set<std::string> EpGroups::gpu_models() const {
  std::set<std::string> names;
  for (int g = 0; g < topology_->gpu_count(); ++g) names.insert(topology_->gpu_model(GpuId(g)));
  return names;
}

int EpGroups::most_hosts() const {
  int most = 1;
  for (const RankSpace& ranks : spaces()) most = std::max(most, ranks.hosts().size());
  return most;
}

int EpGroups::equal_blocks() const {
  const int gpus = topology_->gpu_count();
  int size = std::gcd(gpus, size_);
  for (int g = 1; g < gpus; ++g) {
    if (topology_->host_of(GpuId(g)) != topology_->host_of(GpuId(g - 1))) size = std::gcd(size, g);
  }
  return size;
}

}  // namespace moesim
