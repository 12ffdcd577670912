// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/micro_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace moesim {

Seconds time_of_exchange(const OpIntervals& participants) {
  Seconds start = participants.front().start, end = participants.front().end;
  for (const Interval& interval : participants) {
    start = std::max(start, interval.start);
    end = std::max(end, interval.end);
  }
  return std::max(Seconds(0), end - start);
}

namespace {

OpId add_joined(Plan& plan, Op op, ByteMatrix traffic) {
  op.group = Group::first(plan.gpus);
  op.work = Exchange{std::move(traffic), {}, false};
  return plan.add(std::move(op));
}

}  // namespace

const char* name_of(Probe probe) {
  switch (probe) {
    case Probe::sized:
      return "sized";
    case Probe::empty:
      return "empty";
    case Probe::tiny:
      return "tiny";
    case Probe::alone:
      return "alone";
    case Probe::beside:
      return "beside";
  }
  return "";
}

OpKey key_of(Probe probe) {
  OpKey key{.kind = OpKind::probe};
  key.part = static_cast<int>(probe);
  return key;
}

bool is_probe(const Op& op, Probe probe) { return op.key == key_of(probe); }

OpId add_exchange(Plan& plan, Probe probe, Stream stream, ByteMatrix traffic,
                  std::vector<OpId> after) {
  return add_joined(
      plan,
      {fmt::format("exchange {}", name_of(probe)), key_of(probe), stream, {}, std::move(after), {}},
      std::move(traffic));
}

OpId add_settle(Plan& plan, std::vector<OpId> after) {
  ByteMatrix traffic;
  for (int from = 0; from < plan.gpus; ++from) {
    std::vector<std::uint32_t> row(static_cast<std::size_t>(plan.gpus), 1);
    row[static_cast<std::size_t>(from)] = 0;
    traffic.add_dense_row(row);
  }
  OpKey key{.kind = OpKind::settle};
  return add_joined(plan, {name_of(key.kind), key, Stream::ep, {}, std::move(after), {}},
                    std::move(traffic));
}

}  // namespace moesim
