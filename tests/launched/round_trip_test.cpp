// SPDX-License-Identifier: Apache-2.0
// Launch lines that moesim writes for an engine, read again.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "sim/base/data_files.h"
#include "sim/serving/engine/launch_line.h"
#include "tests/launched/launched_keys.h"

namespace moesim {
namespace {

/// Instances of all forms that the line of an engine can say.
std::vector<LaunchFacts> instances_of(const EngineModel& engine) {
  std::vector<LaunchFacts> all;
  for (const auto& [tp, dp] : {std::pair{1, 1}, {8, 1}, {1, 16}, {2, 8}}) {
    for (const bool experts : {false, true}) {
      for (const int drafts : {0, 2}) {
        LaunchFacts facts;
        facts.model = "deepseek-v3";
        facts.gpus = tp * dp;
        facts.tp = tp;
        facts.dp = dp;
        facts.ep = experts ? facts.gpus : 1;
        facts.drafts = drafts;
        facts.dispatch = engine.launch.dispatch.empty() ? "" : engine.launch.dispatch[0].first;
        for (const auto pool :
             {LaunchFacts::Pool::all, LaunchFacts::Pool::prompts, LaunchFacts::Pool::decode}) {
          facts.pool = pool;
          for (const auto& [overlap, text] : engine.launch.overlaps) {
            facts.overlap = overlap;
            all.push_back(facts);
          }
          facts.overlap = "none";
          all.push_back(facts);
        }
      }
    }
  }
  std::erase_if(all,
                [&](const LaunchFacts& facts) { return !left_out_of_line(engine, facts).empty(); });
  return all;
}

/// Experts over so many GPUs, and each over so many.
std::string experts_of(const Launched& launched) {
  const std::string etp = value_in(launched, "parallel.etp");
  const bool whole = value_in(launched, "parallel.ep") != "1";
  return fmt::format("{} {}", value_in(launched, "parallel.ep"),
                     etp != "-" ? etp
                     : whole    ? "1"
                                : value_in(launched, "parallel.tp"));
}

TEST(RoundTrip, OfAllEngines) {
  std::size_t lines = 0;
  for (const std::string& name : data_names("models/engine")) {
    const EngineModel engine = engine_named(name);
    for (const LaunchFacts& facts : instances_of(engine)) {
      const std::string line = launch_line(engine, facts);
      const Launched launched = launch_of_text(line + "\n", "a.sh");
      ++lines;
      EXPECT_EQ(launched.gpus, facts.gpus) << line;
      EXPECT_EQ(value_in(launched, "parallel.tp"), std::to_string(facts.tp)) << line;
      const int spread = facts.ep > 1 ? 1 : facts.gpus;
      EXPECT_EQ(experts_of(launched), fmt::format("{} {}", facts.ep, spread)) << line;
      EXPECT_EQ(value_in(launched, "serving.engine.preset"), name);
      EXPECT_EQ(value_in(launched, "serving.drafts"),
                facts.drafts > 0 ? std::to_string(facts.drafts) : "-")
          << line;
      EXPECT_EQ(value_in(launched, "serving.overlap"),
                facts.overlap == "none" ? "-" : facts.overlap)
          << line;
      EXPECT_EQ(launched.model, "deepseek-v3");
      EXPECT_TRUE(launched.not_simulated.empty()) << line << launched.not_simulated.front();
      const bool tokens_of_all = engine.tokens_of_all_ranks != no_limit;
      EXPECT_EQ(
          value_in(launched, tokens_of_all ? "serving.engine.max_tokens_of_all_ranks"
                                           : "serving.engine.max_tokens"),
          std::to_string(tokens_of_all ? engine.tokens_of_all_ranks : engine.options.max_tokens));
    }
  }
  EXPECT_GT(lines, 60U);
}

TEST(RoundTrip, OfDispatches) {
  for (const std::string& name : data_names("models/engine")) {
    const EngineModel engine = engine_named(name);
    for (const auto& [dispatch, text] : engine.launch.dispatch) {
      const LaunchFacts facts{
          .model = "m", .gpus = 16, .tp = 1, .dp = 16, .ep = 16, .dispatch = dispatch};
      const Launched launched = launch_of_text(launch_line(engine, facts), "a.sh");
      EXPECT_EQ(value_in(launched, "policy"),
                dispatch == "allgather" ? "megatron-allgather" : dispatch);
    }
  }
}

TEST(RoundTrip, OfSharedKeys) {
  const EngineModel engine = engine_named("vllm");
  LaunchFacts facts;
  facts.model = "m";
  facts.gpus = facts.tp = 8;
  facts.dcp = 4;
  EXPECT_EQ(value_in(launch_of_text(launch_line(engine, facts), "a.sh"), "serving.dcp"), "4");
}

}  // namespace
}  // namespace moesim
