// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/parcels.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>

namespace moesim {
namespace {

std::vector<Parcel> listed(std::map<GpuId, Parcel>&& parcels, Bytes row_bytes) {
  std::vector<Parcel> list;
  for (auto& [peer, parcel] : parcels) {
    const auto rows = static_cast<std::int64_t>(parcel.rows.size());
    if (row_bytes.value * rows > parcel.bytes.value) {
      throw std::runtime_error(fmt::format("{} rows from GPU {} to {} do not fit into {} bytes",
                                           rows, parcel.from.value, parcel.to.value,
                                           parcel.bytes.value));
    }
    list.push_back(std::move(parcel));
  }
  return list;
}

}  // namespace

Bytes row_bytes_of(const Exchange& exchange) {
  if (exchange.rows.empty()) return Bytes(0);
  if (exchange.padded) return exchange.traffic.unit();
  return Bytes(exchange.traffic.total().value / static_cast<std::int64_t>(exchange.rows.size()));
}

RankParcels parcels_of(const Op& op, GpuId rank) {
  std::map<GpuId, Parcel> sent, received;
  const Exchange& exchange = *op.exchange();
  op.traffic().for_each([&](GpuId from, GpuId to, Bytes bytes) {
    const Parcel parcel{from, to, bytes, {}};
    if (from == rank) sent.emplace(to, parcel);
    if (to == rank) received.emplace(from, parcel);
  });
  for (std::size_t i = 0; i < exchange.rows.size(); ++i) {
    const RowMove& row = exchange.rows[i];
    const auto index = static_cast<std::uint32_t>(i);
    const Parcel none{row.from, row.to, Bytes(0), {}};
    if (row.from == rank) sent.emplace(row.to, none).first->second.rows.push_back(index);
    if (row.to == rank) received.emplace(row.from, none).first->second.rows.push_back(index);
  }
  const Bytes row_bytes = row_bytes_of(exchange);
  return {listed(std::move(sent), row_bytes), listed(std::move(received), row_bytes), row_bytes};
}

}  // namespace moesim
