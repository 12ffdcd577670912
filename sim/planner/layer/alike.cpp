// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/alike.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "sim/planner/layer/phase_exchange.h"

namespace moesim {
namespace {

template <class Values>
bool all_equal(const Values& values) {
  return std::ranges::all_of(values, [&](const auto& value) { return value == values.front(); });
}

/// What a communicator asks of links, whichever these are.
using Asked = std::tuple<int, std::int64_t, Seconds, Seconds>;  // class, bytes, time, first

std::vector<Asked> asked(const LinkLoads& loads, const Topology& cluster) {
  std::vector<Asked> list;
  for (const LinkUse& use : loads.uses) {
    const int link_class = cluster.link(use.link).link_class;
    list.emplace_back(link_class, use.bytes.value, use.time, use.first);
  }
  std::ranges::sort(list);
  return list;
}

bool ask_the_same(const PhaseTraffic& phase, const Topology& cluster, bool back) {
  std::set<LinkId> taken;
  std::vector<Asked> first;
  Seconds latency(0);
  for (std::size_t c = 0; c < phase.groups.size(); ++c) {
    const Group& group = phase.groups[c];
    const LinkLoads loads = cluster.loads({phase.rows[c], group, back});
    for (const LinkUse& use : loads.uses) {
      if (!taken.insert(use.link).second) return false;
    }
    std::vector<Asked> list = asked(loads, cluster);
    if (c == 0) {
      first = std::move(list);
      latency = loads.latency;
    } else if (group.size() != phase.groups[0].size() || list != first ||
               loads.latency != latency) {
      return false;
    }
  }
  return true;
}

std::vector<const SideExchange*> sides_of(const DispatchShape& shape) {
  std::vector<const SideExchange*> sides;
  for (const Stage stage : {Stage::dispatch, Stage::combine}) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      for (const SideExchange& side : shape.wire(stage, pass).sides) sides.push_back(&side);
    }
  }
  return sides;
}

bool has_alike_gpus(const ReplayedLayer& layer, int phases) {
  const LayerWork& work = layer.work();
  if (!all_equal(work.tokens_per_rank) || !all_equal(layer.packed()) ||
      !all_equal(layer.delivered()) || !all_equal(layer.gathered())) {
    return false;
  }
  for (int p = 0; p < phases; ++p) {
    if (!all_equal(layer.phase(p).sent) || !all_equal(layer.phase(p).arrived)) return false;
    if (!all_equal(layer.fullest_senders(p, false))) return false;
    if (!all_equal(layer.fullest_senders(p, true))) return false;
  }
  const std::vector<std::int64_t> first = layer.computed(GpuId(0));
  for (std::size_t g = 1; g < work.counts.gpus(); ++g) {
    if (layer.computed(GpuId(static_cast<std::int64_t>(g))) != first) return false;
  }
  return true;
}

}  // namespace

bool asks_the_same(const PhaseTraffic& phase, const Topology& cluster) {
  return phase.groups.size() == 1 ||
         (ask_the_same(phase, cluster, false) && ask_the_same(phase, cluster, true));
}

bool are_alike(ReplayedLayer& layer, const Topology& cluster) {
  const LayerWork& work = layer.work();
  const DispatchShape& shape = work.dispatch->shape();
  if (work.tensor_groups || !work.rows.empty() || !has_alike_gpus(layer, shape.size())) {
    return false;
  }
  for (int p = 0; p < shape.size(); ++p) {
    if (!asks_the_same(layer.traffic(p), cluster)) return false;
    for (const SideExchange* side : sides_of(shape)) {
      if (!asks_the_same(layer.traffic(p, *side), cluster)) return false;
    }
  }
  return true;
}

PhaseTraffic as_one(const PhaseTraffic& phase, bool apart, KnownCollectives& known) {
  std::vector<GpuId> everybody;
  for (const Group& group : phase.groups) {
    everybody.insert(everybody.end(), group.begin(), group.end());
  }
  std::ranges::sort(everybody);
  const Group all(std::move(everybody));
  std::vector<std::vector<ByteMatrix::Entry>> rows(all.size());
  std::vector<std::vector<GpuId>> collectives;
  for (std::size_t c = 0; c < phase.groups.size(); ++c) {
    auto& places = collectives.emplace_back();
    for (const GpuId gpu : phase.groups[c]) {
      places.emplace_back(static_cast<std::int64_t>(all.member(gpu)));
    }
    for (std::size_t m = 0; m < places.size(); ++m) {
      for (const auto& entry : phase.rows[c].row(GpuId(static_cast<std::int64_t>(m)))) {
        rows[places[m].index()].push_back({places[entry.to.index()], entry.units});
      }
    }
  }
  ByteMatrix matrix(phase.rows.front().unit());
  for (const auto& row : rows) matrix.add_row(row);
  auto& shared = known[{collectives, apart}];
  if (!shared) shared = std::make_shared<const Collectives>(std::move(collectives), apart);
  return {{all}, {std::move(matrix)}, shared};
}

}  // namespace moesim
