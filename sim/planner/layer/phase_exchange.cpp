// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/phase_exchange.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

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

/// The explicit rows of every communicator of a phase; nothing if they were not asked for.
std::vector<std::vector<RowMove>> rows_of(const LayerWork& work, int phase, bool mirrored) {
  const Communicators& communicators = work.dispatch->shape().phase(phase).communicators;
  if (work.rows.empty()) return {};
  std::vector<std::vector<RowMove>> result(communicators.size());
  std::vector<std::size_t> communicator_of(work.counts.gpus());
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    for (GpuId gpu : communicators[c]) communicator_of[gpu.index()] = c;
  }
  for (RowMove row : work.rows[static_cast<std::size_t>(phase)]) {
    auto& rows = result[communicator_of[row.from.index()]];
    if (mirrored) std::swap(row.from, row.to);
    rows.push_back(row);
  }
  return result;
}

/// The same bytes between any two members.
ByteMatrix all_pairs(std::size_t members, Bytes bytes) {
  ByteMatrix result(bytes);
  std::vector<std::uint32_t> row(members, 1);
  for (std::size_t from = 0; from < members; ++from) {
    row[from] = 0;
    result.add_dense_row(row);
    row[from] = 1;
  }
  return result;
}

Communicators communicators_of(const PhaseTraffic& phase) {
  Communicators list;
  if (!phase.collectives) {
    for (const Group& group : phase.groups) list.push_back(group.list());
    return list;
  }
  for (const auto& places : phase.collectives->members) {
    auto& members = list.emplace_back();
    for (const GpuId place : places) members.push_back(phase.groups.front()[place.index()]);
  }
  return list;
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

std::vector<bool> continued_phases(const DispatchShape& shape) {
  std::vector<bool> continued(shape.phases.size());
  for (const PhaseShape& phase : shape.phases) {
    const int before = phase.previous;
    if (before >= 0) continued[static_cast<std::size_t>(before)] = true;
  }
  return continued;
}

PhaseTraffic phase_traffic(const LayerWork& work, int phase) {
  const RowTable& counts = work.counts.on_wire()[static_cast<std::size_t>(phase)];
  const bool repeats = counts.repeats();
  std::map<std::pair<const void*, std::vector<GpuId>>, ByteMatrix> known;  // by block and ranks
  PhaseTraffic list;
  for (const auto& members : work.dispatch->shape().phase(phase).communicators) {
    list.groups.emplace_back(members);
    if (!repeats) {
      list.rows.push_back(traffic_among(members, counts, Bytes(1)));
      continue;
    }
    const std::size_t first = counts.first(members.front().index());
    std::vector<GpuId> ranks = members;
    for (GpuId& rank : ranks) rank = GpuId(rank.value - static_cast<std::int64_t>(first));
    const auto [same, fresh] = known.try_emplace({counts.block_of(first), std::move(ranks)});
    if (fresh) same->second = traffic_among(members, counts, Bytes(1));
    list.rows.push_back(same->second);
  }
  return list;
}

std::vector<GroupExchange> phase_exchanges(const LayerWork& work, int phase,
                                           const PhaseTraffic& traffic, Bytes row_bytes,
                                           bool mirrored) {
  auto rows = rows_of(work, phase, mirrored);
  std::vector<GroupExchange> exchanges;
  exchanges.reserve(traffic.groups.size());
  for (std::size_t c = 0; c < traffic.groups.size(); ++c) {
    Exchange exchange{
        traffic.rows[c].with_unit(row_bytes), {}, !work.counts.padded_phases.empty(), mirrored};
    if (!rows.empty()) exchange.rows = std::move(rows[c]);
    exchange.sms = work.dispatch->shape().sms;
    exchange.collectives = traffic.collectives;
    if (work.goes_on) exchange.rounds = 0;
    exchanges.push_back({traffic.groups[c], std::move(exchange)});
  }
  return exchanges;
}

PhaseTraffic side_traffic(const PhaseTraffic& phase, const SideExchange& side) {
  PhaseTraffic list;
  if (!side.among && side.per_pair.value == 0) {
    list = phase;
    for (ByteMatrix& rows : list.rows) rows = rows.with_unit(side.per_row);
    return list;
  }
  for (const auto& members : side.among ? *side.among : communicators_of(phase)) {
    list.groups.emplace_back(members);
    list.rows.push_back(all_pairs(members.size(), side.per_pair));
  }
  if (!phase.collectives) return list;
  KnownCollectives known;
  return as_one(list, phase.collectives->apart, known);
}

std::vector<GroupExchange> side_exchanges(const PhaseTraffic& traffic, bool mirrored) {
  std::vector<GroupExchange> exchanges;
  for (std::size_t c = 0; c < traffic.groups.size(); ++c) {
    Exchange exchange{traffic.rows[c], {}, false, mirrored};
    exchange.collectives = traffic.collectives;
    exchanges.push_back({traffic.groups[c], std::move(exchange)});
  }
  return exchanges;
}

}  // namespace moesim
