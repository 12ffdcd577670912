// SPDX-License-Identifier: Apache-2.0
// How far a topology's times are from those measured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>

#include "realhw/calibrate/exchange_fit.h"
#include "sim/plan/exchange_time.h"
#include "tests/realhw/calibrate/clusters.h"

namespace moesim {
namespace {

using Stretch = std::function<double(const MicroPlan&, std::size_t op)>;

/// Exchanges take the times that the topology gives them, those at once together, times a factor.
Times simulated_exchanges(const Topology& topology, const std::vector<ExchangePlan>& plans,
                          const Stretch& factor) {
  Times times;
  for (const ExchangePlan& plan : plans) {
    const auto& ops = plan.micro.plan.ops;
    std::vector<std::vector<Interval>> rows(ops.size());
    std::vector<std::size_t> together;
    const auto take = [&] {
      std::vector<ExchangePrice> prices;
      for (const std::size_t op : together) {
        prices.push_back(price(topology, ops[op].exchange()->traffic));
      }
      const std::vector<Seconds> seconds = shared_times(prices);
      for (std::size_t i = 0; i < together.size(); ++i) {
        const Seconds end = seconds[i] * factor(plan.micro, together[i]);
        rows[together[i]].assign(ops[together[i]].group.size(), {Seconds(0), end});
      }
      together.clear();
    };
    for (std::size_t op = 0; op < ops.size(); ++op) {
      if (ops[op].key.kind != OpKind::settle) {
        together.push_back(op);
        continue;
      }
      take();
      rows[op].assign(ops[op].group.size(), {Seconds(0), Seconds(1)});
    }
    take();
    Timeline timeline;
    for (const auto& row : rows) timeline.ops.add_row(row);
    times[plan.micro.name][0] = {timeline};
  }
  return times;
}

/// Checks of a topology against its own times but for a factor.
struct CheckedExchanges {
  explicit CheckedExchanges(const Topology& topology, const Stretch& factor)
      : plans(exchange_plans(topology, {.longest = Seconds(1e-3)})) {
    const Times times = simulated_exchanges(topology, plans, factor);
    checks = check_exchanges(topology, plans, fit_exchanges(topology, plans, times), times);
  }
  const ExchangeCheck& of(const std::string& plan) const {
    return *std::ranges::find(checks, plan, &ExchangeCheck::plan);
  }
  const MicroPlan& plan(const std::string& name) const {
    return std::ranges::find_if(plans,
                                [&](const ExchangePlan& plan) { return plan.micro.name == name; })
        ->micro;
  }
  std::vector<ExchangePlan> plans;
  std::vector<ExchangeCheck> checks;
};

double as_simulated(const MicroPlan&, std::size_t) { return 1; }

TEST(ExchangeChecks, FindNoErrorInTimesOfTheTopologyItself) {
  const CheckedExchanges all(switched_cluster(2, 2), as_simulated);
  std::vector<std::string> names;
  for (const ExchangeCheck& check : all.checks) {
    names.push_back(check.plan);
    EXPECT_LT(check.typical, 1e-9) << check.plan;
    EXPECT_LT(std::abs(check.worst), 1e-9) << check.plan;
    EXPECT_GT(check.worst_bytes, Bytes(0)) << "some exchange is the worst";
    const auto& ops = all.plan(check.plan).plan.ops;
    EXPECT_EQ(check.exchanges, std::ranges::count_if(ops, [](const Op& op) {
                return op.key.kind != OpKind::settle;
              }));
    EXPECT_EQ(check.fitted,
              check.plan == "alltoall between nodes" || check.plan == "alltoall inside a node")
        << check.plan;
  }
  EXPECT_THAT(names, ::testing::ElementsAre(
                         "alltoall between nodes", "sendrecv between nodes",
                         "two at once between nodes", "alltoall inside a node",
                         "two at once inside a node", "alltoall in the whole cluster",
                         "between nodes and inside a node", "uneven in the whole cluster"));
}

TEST(ExchangeChecks, TellTheWorstErrorAndWhatAGpuSendsThere) {
  const CheckedExchanges all(unequal_nodes(1, 3), [](const MicroPlan& micro, std::size_t op) {
    if (micro.name != "alltoall between nodes") return 1.0;
    return op == 7 ? 2 : op == 9 ? 0.625 : 1;
  });
  const ExchangeCheck& check = all.of("alltoall between nodes");
  EXPECT_NEAR(check.worst, 1 / 0.625 - 1, 1e-9) << "farther than half of the time";
  const ByteMatrix& traffic = all.plan(check.plan).plan.ops.at(9).exchange()->traffic;
  EXPECT_EQ(check.worst_bytes, 3 * traffic.at(GpuId(0), GpuId(1))) << "it has three peers";
  EXPECT_LT(check.typical, 1e-9);
  EXPECT_LT(std::abs(all.of("alltoall in the whole cluster").worst), 1e-9);
}

TEST(ExchangeChecks, TellTheMedianOfErrorsWhateverTheirSign) {
  const CheckedExchanges all(switched_cluster(1, 3), [](const MicroPlan&, std::size_t op) {
    return op % 4 == 1 ? 0.8 : 4.0 / 3;
  });
  for (const ExchangeCheck& check : all.checks) {
    if (check.plan.starts_with("two")) continue;
    EXPECT_NEAR(check.typical, 0.25, 1e-9) << check.plan;
    EXPECT_NEAR(std::abs(check.worst), 0.25, 1e-9) << check.plan;
  }
}

}  // namespace
}  // namespace moesim
