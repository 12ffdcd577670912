// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/exchange_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <stdexcept>

namespace moesim {
namespace {

/// Messages begin at multiples of this, so that devices may read several elements at once.
constexpr std::int64_t alignment = 16;

bool moves_tokens(const Op& op) {
  return carries_tokens(op.stream) &&
         (op.key.stage == Stage::dispatch || op.key.stage == Stage::combine) &&
         op.exchange()->traffic.total().value > 0;
}

std::int64_t aligned(std::int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

/// The room that parcels take, one after the other.
std::int64_t room_for(const std::vector<Parcel>& parcels) {
  std::int64_t bytes = 0;
  for (const Parcel& parcel : parcels) bytes += aligned(parcel.bytes.value);
  return bytes;
}

}  // namespace

/// Parcels of one direction in their buffer.
struct ExchangePrograms::Side {
  Place row(std::size_t parcel, std::int64_t row) const {
    return {places[parcel].buffer, places[parcel].offset + row * row_bytes};
  }
  std::int64_t rows(std::size_t parcel) const {
    return vector_bytes == 0 ? 0 : static_cast<std::int64_t>(parcels[parcel].rows.size());
  }
  /// Bytes that hold no vector.
  Pattern pattern(OpId op, bool compare) const;
  FiniteCheck finite_check(OpId op, std::int64_t hidden) const;

  const std::vector<Parcel>& parcels;
  std::vector<Place> places;  // [parcel]
  std::int64_t row_bytes = 0;
  std::int64_t vector_bytes = 0;  // of a row; 0: no numbers
};

Pattern ExchangePrograms::Side::pattern(OpId op, bool compare) const {
  Pattern pattern{compare, op, {}};
  for (std::size_t p = 0; p < parcels.size(); ++p) {
    const Parcel& parcel = parcels[p];
    const auto add = [&](std::int64_t begin, std::int64_t end) {
      if (begin == end) return;
      const Place at{places[p].buffer, places[p].offset + begin};
      pattern.ranges.push_back({parcel.from, parcel.to, begin, at, end - begin});
    };
    std::int64_t at = 0;
    for (std::int64_t row = 0; row < rows(p); ++row) {
      add(at, row * row_bytes);
      at = row * row_bytes + vector_bytes;
    }
    add(at, parcel.bytes.value);
  }
  return pattern;
}

FiniteCheck ExchangePrograms::Side::finite_check(OpId op, std::int64_t hidden) const {
  FiniteCheck check{op, {}};
  for (std::size_t p = 0; p < parcels.size(); ++p) {
    if (rows(p) == 0) continue;
    if (row_bytes == vector_bytes) {
      check.ranges.push_back({places[p], rows(p) * hidden});
      continue;
    }
    for (std::int64_t r = 0; r < rows(p); ++r) check.ranges.push_back({row(p, r), hidden});
  }
  return check;
}

ExchangePrograms::ExchangePrograms(Draft& draft, std::function<LayerProgram*(const Op&)> layer_of)
    : draft_(draft), layer_of_(std::move(layer_of)) {
  std::array<std::array<std::int64_t, 2>, stream_count> most{};
  for (const RankStep& step : draft.program.steps) {
    const Op& op = draft.op(step);
    if (op.exchange() == nullptr || moves_tokens(op) || draft.moves_training(op.key)) continue;
    const RankParcels parcels = parcels_of(op, draft.program.rank);
    auto& of_stream = most.at(static_cast<std::size_t>(op.stream));
    of_stream[0] = std::max(of_stream[0], room_for(parcels.received));
    of_stream[1] = std::max(of_stream[1], room_for(parcels.sent));
  }
  for (std::size_t stream = 0; stream < most.size(); ++stream) {
    for (const std::size_t sent : {0, 1}) {
      if (most[stream][sent] == 0) continue;
      shared_[stream][sent] =
          draft.add_buffer(fmt::format("{} stream, {}", name_of(static_cast<Stream>(stream)),
                                       sent == 1 ? "sent" : "received"),
                           most[stream][sent], RowFormat::float32);
    }
  }
}

ExchangePrograms::Side ExchangePrograms::place(const RankStep& step, const RankParcels& parcels,
                                               bool sent, bool rows) {
  Side side{sent ? parcels.sent : parcels.received, {}};
  BufferId buffer = shared_[static_cast<std::size_t>(draft_.op(step).stream)][sent ? 1 : 0];
  const std::int64_t room = room_for(side.parcels);
  if (rows && room > 0) {
    const std::int64_t hidden = draft_.step.shape.hidden;
    const RowFormat format = format_for(parcels.row_bytes.value, hidden);
    side.row_bytes = parcels.row_bytes.value;
    side.vector_bytes = hidden * static_cast<std::int64_t>(size_of(format));
    buffer = draft_.add_buffer(fmt::format("op {} {}", step.op.value, sent ? "sent" : "received"),
                               room, format);
  }
  std::int64_t at = 0;
  for (const Parcel& parcel : side.parcels) {
    side.places.push_back({buffer, at});
    at += aligned(parcel.bytes.value);
  }
  return side;
}

void ExchangePrograms::add(RankStep& step) {
  const Op& op = draft_.op(step);
  const RankParcels parcels = parcels_of(op, draft_.program.rank);
  const bool rows = moves_tokens(op);
  LayerProgram* layer = rows ? layer_of_(op) : nullptr;
  if (rows && parcels.row_bytes.value == 0) throw std::runtime_error("the plan lists no rows");
  if (rows && layer == nullptr) throw std::runtime_error("its routing is not known");
  const Side sent = place(step, parcels, true, rows), received = place(step, parcels, false, rows);
  if (rows) pack(step, sent, *layer);
  const auto add = [](std::vector<Call>& calls, auto call) {
    if (!call.ranges.empty()) calls.emplace_back(std::move(call));
  };
  const std::int64_t hidden = draft_.step.shape.hidden;
  add(step.before, sent.finite_check(step.op, hidden));
  add(step.before, sent.pattern(step.op, false));
  add_messages(step, sent, received);
  add(step.after, received.pattern(step.op, true));
  add(step.after, received.finite_check(step.op, hidden));
  if (rows) store(step, received, *layer);
}

void ExchangePrograms::pack(RankStep& step, const Side& sent, LayerProgram& layer) const {
  RowSums sums{draft_.step.shape.hidden, {}, {0}, {}};
  for (std::size_t p = 0; p < sent.parcels.size(); ++p) {
    for (std::int64_t r = 0; r < sent.rows(p); ++r) {
      const std::uint32_t index = sent.parcels[p].rows[static_cast<std::size_t>(r)];
      layer.take(step, draft_.op(step).exchange()->rows[index], sums.terms);
      sums.to.push_back(sent.row(p, r));
      sums.first.push_back(static_cast<std::uint32_t>(sums.terms.size()));
    }
  }
  if (!sums.to.empty()) step.before.emplace_back(std::move(sums));
}

void ExchangePrograms::store(const RankStep& step, const Side& received,
                             LayerProgram& layer) const {
  for (std::size_t p = 0; p < received.parcels.size(); ++p) {
    for (std::int64_t r = 0; r < received.rows(p); ++r) {
      const std::uint32_t index = received.parcels[p].rows[static_cast<std::size_t>(r)];
      layer.store(step, draft_.op(step).exchange()->rows[index], received.row(p, r));
    }
  }
}

/// What stays on the rank is copied, from its parcel to its parcel.
void ExchangePrograms::add_messages(RankStep& step, const Side& sent, const Side& received) {
  std::optional<Place> own;
  for (std::size_t p = 0; p < received.parcels.size(); ++p) {
    const Parcel& parcel = received.parcels[p];
    if (parcel.from == parcel.to) {
      own = received.places[p];
    } else {
      step.receives.push_back({parcel.from, received.places[p], parcel.bytes.value});
    }
  }
  for (std::size_t p = 0; p < sent.parcels.size(); ++p) {
    const Parcel& parcel = sent.parcels[p];
    if (parcel.from == parcel.to) {
      step.before.emplace_back(LocalCopy{sent.places[p], *own, parcel.bytes.value});
    } else {
      step.sends.push_back({parcel.to, sent.places[p], parcel.bytes.value});
    }
  }
}

}  // namespace moesim
