// SPDX-License-Identifier: Apache-2.0
// Tables and the document of an explained iteration that is made up.
#include "sim/report/iteration_explain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/report/table_rows.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// 10 s on so many GPUs of two stages: those of the second wait 4 s for the first ones, and GPU g
/// computes 6 + g / 8 s and is on the path for 10 / gpus s.
IterationExplanation ten_seconds_of_two_stages(int gpus) {
  IterationExplanation e;
  const auto part_of = [](IterationTimes& times, IterationPart part) -> Seconds& {
    return times.parts[static_cast<std::size_t>(part)];
  };
  e.times.iteration = Seconds(10);
  part_of(e.times, IterationPart::experts) = Seconds(8);
  part_of(e.times, IterationPart::bubble) = Seconds(2);
  for (int g = 0; g < gpus; ++g) {
    RankReport rank{GpuId(g), "gpu" + std::to_string(g), 2 * g / gpus, e.times, {}};
    part_of(rank.times, IterationPart::bubble) = Seconds(rank.stage == 0 ? 0 : 4);
    part_of(rank.times, IterationPart::tensor) = Seconds(1);
    part_of(rank.times, IterationPart::gradients) = Seconds(0.5);
    part_of(rank.times, IterationPart::waiting) = Seconds(0.25);
    rank.times.slowest_compute = Seconds(6 + g / 8.0);
    rank.memory.memory = Bytes(4000);
    rank.memory.peak = Bytes(3000 + 400 * g);
    rank.memory.parts = {{"weights", Bytes(3000)}, {"cache", Bytes(0)}, {"rest", Bytes(400 * g)}};
    rank.memory.when = "in turn " + std::to_string(g);
    e.ranks.push_back(std::move(rank));
  }
  e.sums.length = Seconds(10);
  e.sums.segments = 3;
  e.sums.gpus.assign(static_cast<std::size_t>(gpus), Seconds(10.0 / gpus));
  e.sums.waited.assign(static_cast<std::size_t>(gpus), Seconds(0));
  return e;
}

std::vector<std::string> rows_of(const IterationExplanation& e, const std::string& name) {
  return test::rows_of(iteration_explanation_text(e), name);
}

TEST(IterationExplained, StagesAreMeansOfTheirGpus) {
  EXPECT_THAT(rows_of(ten_seconds_of_two_stages(4), "stages"),
              ::testing::ElementsAre("0|2|50.0 %|80.0 %|0.0 %", "1|2|50.0 %|80.0 %|40.0 %"));
}

TEST(IterationExplained, RanksSayWhatIsExposedAndWhichIsTooFull) {
  EXPECT_THAT(rows_of(ten_seconds_of_two_stages(4), "ranks"),
              ::testing::ElementsAre("0|gpu0|0|6 s|1.5 s|250 ms|0 ns|2.5 s|3 kB",
                                     "1|gpu1|0|6.125 s|1.5 s|250 ms|0 ns|2.5 s|3.4 kB",
                                     "2|gpu2|1|6.25 s|1.5 s|250 ms|4 s|2.5 s|3.8 kB",
                                     "3|gpu3|1|6.375 s|1.5 s|250 ms|4 s|2.5 s|4.2 kB!"));
}

TEST(IterationExplained, OfManyRanksTheLongestAndTheShortestOfEachStageAreShown) {
  EXPECT_EQ(rows_of(ten_seconds_of_two_stages(16), "ranks").size(), 16U);
  const std::vector<std::string> rows = rows_of(ten_seconds_of_two_stages(18), "ranks");
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_THAT(rows[0], ::testing::StartsWith("8|gpu8|0|"));
  EXPECT_THAT(rows[1], ::testing::StartsWith("0|gpu0|0|"));
  EXPECT_THAT(rows[2], ::testing::StartsWith("17|gpu17|1|"));
  EXPECT_THAT(rows[3], ::testing::StartsWith("9|gpu9|1|"));
}

TEST(IterationExplained, MemoryIsThatOfTheFullestRankOfEachStageWithoutEmptyParts) {
  const IterationExplanation e = ten_seconds_of_two_stages(4);
  EXPECT_THAT(rows_of(e, "memory"),
              ::testing::ElementsAre("0|1|3.4 kB|3 kB|400 B", "1|3|4.2 kB|3 kB|1.2 kB"));
  EXPECT_THAT(iteration_explanation_text(e).text(),
              HasSubstr("# rank 1 is fullest in turn 1\n# rank 3 is fullest in turn 3\n"));
}

TEST(IterationExplained, TurnsAndResourcesAreThereIfTheyWereAskedFor) {
  IterationExplanation e = ten_seconds_of_two_stages(4);
  const std::string without = iteration_explanation_text(e).text();
  EXPECT_THAT(without, Not(HasSubstr("the turns of the mean GPU")));
  EXPECT_THAT(without, Not(HasSubstr("with more of a resource")));
  EXPECT_THAT(without, HasSubstr("the critical path: 3 segments, 10 s\n"));
  PathPart& part = e.sums.kinds[static_cast<std::size_t>(PathKind::dispatch)];
  part.time = Seconds(10);
  part.by = {{"nic", Seconds(10)}};
  EXPECT_THAT(rows_of(e, "critical_path"),
              ::testing::ElementsAre("dispatch|10 s|100.0 %|nic 100 %|-"));
  EXPECT_THAT(rows_of(e, "critical_gpus"), ::testing::SizeIs(4));
  e.turns.emplace();
  e.turns->of(TurnPart::forward) = Seconds(0.5);
  e.turns->of(TurnPart::backward) = Seconds(3);
  e.elasticities = {{"gpu.flops", 1.1, Seconds(10), Seconds(9)}};
  EXPECT_THAT(rows_of(e, "turns"), ::testing::ElementsAre("500 ms|3 s"));
  EXPECT_THAT(iteration_explanation_text(e).text(),
              ::testing::ContainsRegex("the turns of the mean GPU\n *1F +1B\n"));
  EXPECT_THAT(iteration_explanation_text(e).text(), HasSubstr("with more of a resource"));
}

TEST(IterationExplained, TheDocumentHasAllUnrounded) {
  IterationExplanation e = ten_seconds_of_two_stages(4);
  e.ranks[3].times.overlapped = Seconds(0.125);
  const nlohmann::ordered_json json = iteration_explanation_json(e, {"plan", 4, {}});
  EXPECT_EQ(json["iteration_s"], 10);
  EXPECT_EQ(json["parts_s"]["experts"], 8);
  EXPECT_EQ(json["critical_path"]["length_s"], 10);
  EXPECT_FALSE(json.contains("turns_s"));
  const auto& rank = json["ranks"].at(3);
  EXPECT_EQ(rank["rank"], 3);
  EXPECT_EQ(rank["gpu"], "gpu3");
  EXPECT_EQ(rank["stage"], 1);
  EXPECT_EQ(rank["compute_s"], 6.375);
  EXPECT_EQ(rank["parts_s"]["bubble"], 4);
  EXPECT_EQ(rank["overlapped_s"], 0.125);
  EXPECT_EQ(rank["peak_memory"].dump(),
            R"({"bytes":4200,"gpu_memory_bytes":4000,"when":"in turn 3",)"
            R"("parts_bytes":{"weights":3000,"cache":0,"rest":1200}})");
  e.turns.emplace();
  EXPECT_TRUE(iteration_explanation_json(e, {"plan", 4, {}}).contains("turns_s"));
}

}  // namespace
}  // namespace moesim
