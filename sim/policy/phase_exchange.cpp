// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/phase_exchange.h"

#include <algorithm>

namespace moesim {
namespace {

/// The rows of one communicator, as units of a matrix.
ByteMatrix traffic_of(const std::vector<std::uint32_t>& rows, std::size_t gpus,
                      const std::vector<GpuId>& members, Bytes row_bytes) {
  ByteMatrix result(row_bytes);
  auto member = members.begin();
  for (std::size_t from = 0; from < gpus; ++from) {
    const bool sends = member != members.end() && member->index() == from;
    result.add_dense_row({rows.data() + from * gpus, sends ? gpus : 0});
    if (sends) ++member;
  }
  return result;
}

/// The explicit rows of every communicator of a phase.
std::vector<std::vector<RowMove>> rows_of(const LayerWork& work, int phase, bool mirrored) {
  const Communicators& communicators = work.dispatch->shape().phase(phase).communicators;
  std::vector<std::vector<RowMove>> result(communicators.size());
  if (work.rows.empty()) return result;
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
ByteMatrix all_pairs(const std::vector<GpuId>& members, std::size_t gpus, Bytes bytes) {
  ByteMatrix result(bytes);
  std::vector<ByteMatrix::Entry> row;
  for (std::size_t from = 0; from < gpus; ++from) {
    row.clear();
    const GpuId gpu(static_cast<std::int64_t>(from));
    if (std::binary_search(members.begin(), members.end(), gpu)) {
      for (const GpuId to : members) {
        if (to != gpu) row.push_back({to, 1});
      }
    }
    result.add_row(row);
  }
  return result;
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

std::vector<ByteMatrix> phase_traffic(const LayerWork& work, int phase, bool mirrored) {
  const auto& counts = work.counts.on_wire()[static_cast<std::size_t>(phase)];
  std::vector<ByteMatrix> list;
  for (const auto& members : work.dispatch->shape().phase(phase).communicators) {
    const ByteMatrix traffic = traffic_of(counts, work.counts.gpus(), members, Bytes(1));
    list.push_back(mirrored ? traffic.transposed() : traffic);
  }
  return list;
}

std::vector<GroupExchange> phase_exchanges(const LayerWork& work, int phase,
                                           const std::vector<ByteMatrix>& traffic, Bytes row_bytes,
                                           bool mirrored) {
  const Communicators& communicators = work.dispatch->shape().phase(phase).communicators;
  auto rows = rows_of(work, phase, mirrored);
  std::vector<GroupExchange> exchanges;
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    Exchange exchange{traffic[c].with_unit(row_bytes), std::move(rows[c]),
                      !work.counts.padded_phases.empty()};
    exchanges.push_back({communicators[c], std::move(exchange)});
  }
  return exchanges;
}

std::vector<GroupExchange> side_exchanges(const LayerWork& work, int phase,
                                          const SideExchange& side, bool mirrored) {
  std::vector<GroupExchange> exchanges;
  for (const auto& members : work.dispatch->shape().phase(phase).communicators) {
    const auto& counts = work.counts.on_wire()[static_cast<std::size_t>(phase)];
    ByteMatrix traffic = side.per_pair.value > 0
                             ? all_pairs(members, work.counts.gpus(), side.per_pair)
                             : traffic_of(counts, work.counts.gpus(), members, side.per_row);
    if (mirrored) traffic = traffic.transposed();
    exchanges.push_back({members, {std::move(traffic), {}, false}});
  }
  return exchanges;
}

}  // namespace moesim
