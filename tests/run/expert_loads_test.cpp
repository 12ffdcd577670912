// SPDX-License-Identifier: Apache-2.0
// What reports draw of a trace: the loads of its experts.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/run/pictured_results.h"
#include "tests/trace/samples.h"

namespace moesim {
namespace {

TEST(ExpertLoads, AreThoseOfTheTrace) {
  nlohmann::ordered_json tiny, document;
  add_pictures(tiny, {}, tiny_trace());  // 2 1 2 1
  EXPECT_EQ(tiny.at("expert_loads").at("percent_of_mean"),
            nlohmann::ordered_json::parse("[[133, 67, 133, 67]]"));
  add_pictures(document, {}, trace_of_sequences({{6}, {8}}));  // 2 2 1 1, then 2 of each
  const nlohmann::ordered_json loads = document.at("expert_loads");
  EXPECT_EQ(loads.at("percent_of_mean"), nlohmann::ordered_json::parse("[[114, 114, 86, 86]]"));
  EXPECT_EQ(loads.at("max_over_mean_percent"), nlohmann::ordered_json::parse("[[133, 100]]"));
  EXPECT_EQ(loads.at("steps"), nlohmann::ordered_json::parse("[0, 1]"));
  EXPECT_EQ(loads.at("layers"), nlohmann::ordered_json::parse("[0]"));
}

TEST(ExpertLoads, OfManyStepsAreReadOfEveryFew) {
  for (const auto& [steps, shown] : {std::pair(128, 128), std::pair(129, 65)}) {
    nlohmann::ordered_json document;
    const std::vector<std::int32_t> four = {4};
    const RoutingTrace trace = trace_of_sequences(
        std::vector<std::vector<std::int32_t>>(static_cast<std::size_t>(steps), four));
    add_pictures(document, {}, trace);
    EXPECT_EQ(document.at("expert_loads").at("steps").size(), static_cast<std::size_t>(shown));
    EXPECT_EQ(document.at("expert_loads").at("recorded_steps"), steps);
  }
}

/// A step that says it has more tokens than anybody would read.
class VastStep : public TraceStep {
 public:
  explicit VastStep(std::shared_ptr<const TraceStep> first) : first_(std::move(first)) {}
  std::int64_t number() const override { return first_->number(); }
  std::int64_t tokens() const override { return 30'000'000; }
  IdRows ids(int layer) const override { return first_->ids(layer); }
  std::span<const std::int32_t> sequence_lengths() const override {
    return first_->sequence_lengths();
  }
  bool has_weights() const override { return false; }
  float weight(int, std::int64_t, int) const override { return 1; }
  bool has_source_ranks() const override { return false; }
  int source_rank(std::int64_t) const override { return 0; }

 private:
  std::shared_ptr<const TraceStep> first_;
};

TEST(ExpertLoads, OfVastStepsAreReadOfEveryFew) {
  const RoutingTrace two_of_four = tiny_trace();
  const auto vast = std::make_shared<const VastStep>(two_of_four.shared_step(0));
  // 60 million choices a step: 360, 480 and 960 million in all, of which 400 million are read.
  for (const auto& [steps, shown] : {std::pair(6, 6), std::pair(8, 4), std::pair(16, 6)}) {
    nlohmann::ordered_json document;
    add_pictures(document, {}, {two_of_four.info(), {static_cast<std::size_t>(steps), vast}});
    EXPECT_EQ(document.at("expert_loads").at("steps").size(), static_cast<std::size_t>(shown));
  }
}

TEST(ExpertLoads, AreNotThereWithoutATrace) {
  nlohmann::ordered_json document;
  add_pictures(document, {}, RoutingTrace({"none", "toy", 4, 1, {0}, Phase::synthetic, ""}, {}));
  EXPECT_FALSE(document.contains("expert_loads"));
  EXPECT_EQ(document.at("drawings").size(), 0u);
}

}  // namespace
}  // namespace moesim
