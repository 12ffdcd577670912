// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/phase_exchange.h"

#include <algorithm>
#include <map>
#include <utility>

#include "sim/planner/layer/alike.h"

namespace moesim {
namespace {

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
