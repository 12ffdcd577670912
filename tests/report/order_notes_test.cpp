// SPDX-License-Identifier: Apache-2.0
// Why steps come out in an order that surprises.
#include "sim/report/order_notes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/report/two_hosts.h"

namespace moesim {
namespace {

/// A step of `time` seconds with a load, of a policy whose experts stay unless it plans.
CaseResult stepping(const std::string& policy, double time, double load, bool plans = false) {
  CaseResult c;
  c.name = {"a", policy, "port"};
  c.metrics.steps = {Seconds(time)};
  c.metrics.path.length = Seconds(time);
  c.metrics.total.load_max_over_mean.add(load);
  c.twin.fixed = !plans;
  return c;
}

/// The same with weights for which the critical path and the mean GPU wait so long.
CaseResult restoring(CaseResult c, double path, double mean) {
  c.metrics.path.kinds[static_cast<std::size_t>(PathKind::weights)].time = Seconds(path);
  c.metrics.breakdown.weights = Seconds(mean);
  return c;
}

TEST(OrderNotes, WeightsThatNothingHides) {
  const CaseResult laer = stepping("laer", 5, 1.2, true), flex = stepping("flex", 6, 1.2, true);
  EXPECT_EQ(
      order_notes({restoring(laer, 3.5, 3), restoring(flex, 1, 0.7), stepping("megatron", 2, 2)}),
      "# note: weights travel in every step, and nothing hides them for so much of it: "
      "laer 60 %, flex 12 % (a, port); with more tokens per GPU compute hides more\n");
  EXPECT_EQ(order_notes({restoring(laer, 3, 0.4), restoring(flex, 0.5, 0.5)}), "");
  // Weights off the path are migrations, which have a note of their own.
  EXPECT_EQ(order_notes({restoring(laer, 0, 3)}), "");
  CaseResult iteration = restoring(laer, 3, 3);
  iteration.metrics.iteration.emplace();
  EXPECT_EQ(order_notes({iteration}), "");
}

TEST(OrderNotes, APlacementThatLoadsAGpuMore) {
  const CaseResult occult = stepping("occult", 5, 2.76, true);
  EXPECT_EQ(order_notes({occult, stepping("megablocks", 4, 2.29), stepping("tutel", 3, 1)}),
            "# note: occult places experts so that the busiest GPU has 2.76 times the mean load; "
            "megablocks, whose experts stay, has 2.29 and is faster (a, port)\n");
  // It is faster, its load is as good, the other plans too, or is on another cluster.
  EXPECT_EQ(order_notes({occult, stepping("megablocks", 6, 2.29)}), "");
  EXPECT_EQ(order_notes({occult, stepping("megablocks", 4, 2.72)}), "");
  EXPECT_EQ(order_notes({occult, stepping("exflow", 4, 2.29, true)}), "");
  CaseResult elsewhere = stepping("megablocks", 4, 2.29);
  elsewhere.name.topology = "b";
  EXPECT_EQ(order_notes({occult, elsewhere}), "");
  CaseResult refused = stepping("megablocks", 4, 2.29);
  refused.unsuitable = "too few GPUs";
  EXPECT_EQ(order_notes({occult, refused}), "");
}

TEST(OrderNotes, ExpertsWhoseWeightsTravelDoNotStay) {
  CaseResult gathers = stepping("hybridep-exact", 4, 2.29);
  gathers.metrics.total.parameters = Seconds(2);
  gathers.metrics.total.gradients = Seconds(1);
  const CaseResult occult = stepping("occult", 5, 2.76, true);
  EXPECT_EQ(order_notes({occult, gathers}), "");
  gathers.metrics.total.gradients = Seconds(2);
  EXPECT_THAT(order_notes({occult, gathers}),
              ::testing::HasSubstr("hybridep-exact, whose experts"));
}

/// Tokens go by links of the classes pcie and nic.
CaseResult exchanging(const std::string& policy, const Topology& topology,
                      std::vector<std::size_t> by_data_sheet) {
  CaseResult c = stepping(policy, static_cast<double>(policy.size()), 1);
  c.topology = &topology;
  c.by_data_sheet = std::move(by_data_sheet);
  c.metrics.total.traffic.link_class.resize(topology.classes().size(), 1);
  return c;
}

TEST(OrderNotes, DataSheetsAgainstMeasurements) {
  const Topology& topology = test::two_hosts();
  constexpr std::size_t nic = 1;  // behind pcie
  const std::string note =
      "# note: nic by data sheet (hybrid) against measured or assumed rates (deepep-normal, nccl): "
      "the order of these is not known (a, port)\n";
  const CaseResult sheet = exchanging("hybrid", topology, {nic});
  std::vector<CaseResult> cases = {exchanging("deepep-normal", topology, {}), sheet,
                                   exchanging("nccl", topology, {})};
  EXPECT_EQ(order_notes(cases), note);
  EXPECT_EQ(order_notes({sheet, exchanging("ideal", topology, {nic})}), "");
  for (CaseResult& c : cases) c.metrics.total.traffic.link_class[nic] = 0;
  EXPECT_EQ(order_notes(cases), "") << "nothing goes that way";
  for (CaseResult& c : cases) {
    c.metrics.total.traffic = {};
    c.metrics.iteration.emplace();
  }
  EXPECT_EQ(order_notes(cases), "");
  const auto dispatch = static_cast<std::size_t>(PathKind::dispatch);
  for (CaseResult& c : cases) c.metrics.path.kinds[dispatch].by["shared nic"] = Seconds(1);
  cases.push_back(cases.back());
  cases.back().name.routing = "balanced";
  EXPECT_EQ(order_notes(cases), note);
}

TEST(OrderNotes, ExchangesThatSomeHide) {
  CaseResult tutel = stepping("tutel", 4, 1);
  tutel.metrics.breakdown.overlapped = Seconds(2);
  const CaseResult linear = stepping("tutel-linear", 6, 1);
  EXPECT_EQ(order_notes({tutel, linear, stepping("occult", 3, 1)}),
            "# note: compute hides exchanges of tokens for so much of the step: tutel 50 %; "
            "tutel-linear, which is slower, hides none (a, port)\n");
  EXPECT_EQ(order_notes({tutel, stepping("occult", 3, 1)}), "");
  CaseResult weights = tutel;
  weights.metrics.total.parameters = Seconds(2);
  EXPECT_EQ(order_notes({weights, linear}), "");
}

TEST(OrderNotes, CasesTooCloseForAnOrder) {
  EXPECT_EQ(order_notes({stepping("hd2", 1.009, 1), stepping("megatron", 2, 1),
                         stepping("hd", 1, 1), stepping("smart", 1.018, 1),
                         stepping("2dh", 2.001, 1), stepping("tutel", 3, 1)}),
            "# note: less than 1 % apart, too little for an order: hd, hd2, smart; megatron, 2dh "
            "(a, port)\n");
  EXPECT_EQ(order_notes({stepping("hd2", 1.009, 1), stepping("hd", 1, 1)}),
            "# note: less than 1 % apart, too little for an order: hd, hd2 (a, port)\n");
}

}  // namespace
}  // namespace moesim
