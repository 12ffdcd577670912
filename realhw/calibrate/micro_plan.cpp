// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/micro_plan.h"

#include <algorithm>
#include <utility>

namespace moesim {

Seconds time_of_exchange(const std::vector<Interval>& participants) {
  Seconds start = participants.front().start, end = participants.front().end;
  for (const Interval& interval : participants) {
    start = std::max(start, interval.start);
    end = std::max(end, interval.end);
  }
  return std::max(Seconds(0), end - start);
}

OpId add_exchange(Plan& plan, const std::string& name, Lane lane, ByteMatrix traffic,
                  std::vector<OpId> after) {
  Exchange exchange;
  for (int g = 0; g < plan.gpus; ++g) exchange.participants.emplace_back(g);
  exchange.traffic = std::move(traffic);
  return plan.add(
      {name, lane, -1, Pass::forward, Stage::other, std::move(after), std::move(exchange)});
}

OpId add_settle(Plan& plan, std::vector<OpId> after) {
  ByteMatrix traffic;
  for (int from = 0; from < plan.gpus; ++from) {
    std::vector<std::uint32_t> row(static_cast<std::size_t>(plan.gpus), 1);
    row[static_cast<std::size_t>(from)] = 0;
    traffic.add_dense_row(row);
  }
  return add_exchange(plan, MicroPlan::settle, Lane::token, std::move(traffic), std::move(after));
}

}  // namespace moesim
