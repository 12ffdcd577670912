// SPDX-License-Identifier: Apache-2.0
// An advice about deployments for few short requests on one node of two GPUs.
#include "sim/sweep/serving_advice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "sim/base/error.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

Override changed_input(const std::string& text) { return {"set", text, "--set " + text}; }

const std::vector<Override> two_gpus = {
    changed_input("topology.nodes=1"),
    changed_input("topology.node.gpus=2"),
    changed_input("topology.node.nics.count=2"),
    {"parallel.ep", "2", "parallel.ep"},
    {"policy", R"(["deepep-normal", "megatron-allgather"])", "policy"},
    {"routing", "balanced", "routing"},
    {"serving.requests",
     "{count: 8, concurrency: 4, seed: 1, input: {mean: 128, spread: 0}, output: {mean: 8, spread: "
     "0}}",
     "serving.requests"}};

struct ServingAdvice {
  std::string text;
  std::vector<std::vector<Cell>> rows;
};

ServingAdvice advice_for(const std::string& sla, int shown = 100, int finals = 4,
                         const std::vector<Override>& more = {}) {
  std::vector<Override> flags = two_gpus;
  flags.insert(flags.end(), more.begin(), more.end());
  const Printout printout = advise_serving(MOESIM_ROOT "/scenarios/serving-engine.yaml", flags,
                                           {"v", sla, 1, shown, finals});
  ServingAdvice advice;
  for (const auto& part : printout.parts()) {
    if (const auto* text = std::get_if<std::string>(&part)) advice.text += *text;
    if (const auto* table = std::get_if<Table>(&part)) advice.rows = table->rows;
  }
  return advice;
}

std::string serving_mistake(const std::string& sla, const std::vector<Override>& more) {
  return error_of([&] { advice_for(sla, 1, 1, more); });
}

// Kinds of 2 GPUs: tp1 by both policies, tp2 with whole and with cut experts; of 1 GPU: one. Each
// fills the cluster alone, and two of one GPU each are pools apart.
TEST(ServingAdvice, RunsTheBestOfOnePoolAndOfPoolsApart) {
  const ServingAdvice all = advice_for("tpot p95 < 10 s");
  EXPECT_THAT(all.text, HasSubstr("# SLA: tpot p95 < 10 s\n# 6 plans of 5 kinds of instances, "
                                  "roughly priced; 3 run\n"));
  EXPECT_THAT(all.text, testing::StartsWith("# moesim v\n"));
  EXPECT_THAT(all.text, HasSubstr("# 8 requests drawn (seed 1): 128 "));
  ASSERT_EQ(all.rows.size(), 3U);
  int apart = 0;
  for (std::size_t i = 0; i < all.rows.size(); ++i) {
    const auto& row = all.rows[i];
    EXPECT_EQ(row[1].value, 2) << "GPUs";
    EXPECT_EQ(row[8].text, "met");
    EXPECT_LE(*row[4].value, *all.rows[i > 0 ? i - 1 : 0][4].value) << "the best first";
    if (row[0].text.find(" | ") == std::string::npos) continue;
    ++apart;
    EXPECT_THAT(row[0].text, ContainsRegex("^1 x 1 GPU tp1 ep1 .* [|] 1 x 1 GPU tp1 ep1 "));
  }
  EXPECT_EQ(apart, 1);
  EXPECT_GT(*all.rows[0][7].value, 1000) << "KV tokens of a rank";
  EXPECT_EQ(advice_for("tpot p95 < 10 s", 1).rows.size(), 1U);
  EXPECT_EQ(advice_for("tpot p95 < 10 s", 9, 2).rows.size(), 2U) << "one of each sort";
}

/// The pool of the only plan of one pool that is run for one request at a time: two instances of a
/// GPU answer most requests, one of both GPUs answers each the soonest.
std::string pool_for_one_at_a_time(const std::string& sla, int input, int output) {
  const ServingAdvice advice =
      advice_for(sla, 9, 1,
                 {{"serving.requests",
                   "{count: 2, concurrency: 1, seed: 1, input: {mean: " + std::to_string(input) +
                       ", spread: 0}, output: {mean: " + std::to_string(output) + ", spread: 0}}",
                   "serving.requests"}});
  for (const auto& row : advice.rows) {
    if (row[0].text.find(" | ") == std::string::npos) return row[0].text.substr(0, 5);
  }
  return "none";
}

TEST(ServingAdvice, RunsWhatIsWithinTheTimePerTokenThatTheSlaAsksFor) {
  EXPECT_EQ(pool_for_one_at_a_time("tpot p95 < 10 s", 128, 8), "2 x 1");
  EXPECT_EQ(pool_for_one_at_a_time("tpot p95 < 1 us", 128, 8), "1 x 2");
  EXPECT_EQ(pool_for_one_at_a_time("ttft p95 < 1 us", 128, 8), "1 x 2")
      << "if none meets it, the least time per token is run as well";
  EXPECT_EQ(pool_for_one_at_a_time("ttft p95 < 1000 s", 200'000, 1), "2 x 1")
      << "no time per token is too long";
}

TEST(ServingAdvice, StartsTheBestOne) {
  const ServingAdvice all = advice_for("tpot p95 < 10 s");
  const bool apart = all.rows.at(0).at(0).text.find(" | ") != std::string::npos;
  EXPECT_THAT(all.text, ContainsRegex("\n# [12] x vllm serve gpt-oss-20b --tensor-parallel-size "));
  EXPECT_EQ(all.text.find("kv_transfer") != std::string::npos ||
                all.text.find("--kv-transfer-config") != std::string::npos,
            apart);
  EXPECT_THAT(all.text, Not(HasSubstr("none of them meets")));
}

TEST(ServingAdvice, ShowsWhatARunGives) {
  const std::vector<Override> many = {
      {"serving.requests",
       "{count: 24, concurrency: 8, seed: 1, input: {mean: 300, spread: 200}, output: {mean: 24, "
       "spread: 12}}",
       "serving.requests"}};
  const ServingAdvice advice = advice_for("tpot p95 < 10 s", 1, 4, many);
  ASSERT_EQ(advice.rows.size(), 1U);
  ServingAdvice again =
      advice_for("tpot p95 < 10 s", 1, 4, {many[0], {"serving.prices", "exact", "serving.prices"}});
  ASSERT_EQ(again.rows.at(0)[0].text, advice.rows[0][0].text);
  for (const std::size_t figure : {2U, 3U, 4U}) {  // fewer passes than are exact at first
    EXPECT_EQ(advice.rows[0][figure].value, again.rows[0][figure].value) << figure;
  }
}

TEST(ServingAdvice, LaunchLinesHaveWhatWasSet) {
  const ServingAdvice advice = advice_for(
      "tpot p95 < 10 s", 1, 1,
      {{"serving.engine", "{preset: vllm, max_sequences: 8, kv: {block: 32, prefix_cache: false}}",
        "serving.engine"},
       {"serving.kv", "fp8", "serving.kv"}});
  EXPECT_THAT(advice.text, HasSubstr(" --max-num-seqs 8 --block-size 32 "
                                     "--no-enable-prefix-caching --kv-cache-dtype fp8"));
  EXPECT_THAT(advice.text, Not(HasSubstr("leaves out")));
}

TEST(ServingAdvice, SaysWhatBreaksTheSla) {
  const ServingAdvice none = advice_for("ttft p95 < 1 us, tpot p95 < 1 us");
  EXPECT_THAT(none.text,
              AllOf(HasSubstr("# none of them meets the SLA\n"), Not(HasSubstr("vllm serve"))));
  for (const auto& row : none.rows) {
    EXPECT_THAT(row[8].text,
                ContainsRegex("^TTFT p95 is .*, not below 1 us; TPOT p95 is .*, not below 1 us$"));
  }
}

TEST(ServingAdvice, IsAboutRequestsOnOneCluster) {
  EXPECT_THAT(serving_mistake("tpot p95 < 1 s",
                              {{"topology", R"(["h100-rail", "h200-rail"])", "--topology"}}),
              HasSubstr("--ask serving with several topologies"));
  EXPECT_THAT(serving_mistake("tpot p95", {}), Not(IsEmpty()));
  try {
    advise_serving(MOESIM_ROOT "/scenarios/serving-decode.yaml", {}, {"v", "tpot p95 < 1 s"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("--ask serving is about engines that answer requests"));
  }
}

TEST(ServingAdvice, ChoosesDegreesWhateverTheScenarioHas) {
  const ServingAdvice usual = advice_for("tpot p95 < 10 s", 1, 1);
  for (const std::vector<Override>& degrees :
       {std::vector<Override>{{"parallel.ep", "32", "parallel.ep"}},
        {{"parallel.tp", "7", "parallel.tp"}, {"parallel.dp", "5", "parallel.dp"}}}) {
    const ServingAdvice other = advice_for("tpot p95 < 10 s", 1, 1, degrees);
    EXPECT_THAT(other.text, HasSubstr("2 GPUs on 1 host, attention: tp 1 cp 1 dp 2, experts: etp "
                                      "1 ep 2\n"));
    EXPECT_EQ(other.rows.at(0).at(0).text, usual.rows.at(0).at(0).text);
  }
}

TEST(ServingAdvice, TakesScenariosWithPoolsButChoosesThem) {
  const Override pools{"serving.instances", "{prefill: 1, decode: 1}", "serving.instances"};
  const Override link{"serving.transfer", "{bandwidth: 25 GB/s}", "serving.transfer"};
  EXPECT_FALSE(advice_for("tpot p95 < 10 s", 1, 1, {pools, link}).rows.empty());
  EXPECT_THAT(serving_mistake("tpot p95 < 1 s",
                              {pools, {"serving.decode", "{parallel: {ep: 1}}", "serving.decode"}}),
              HasSubstr("--ask serving with serving.decode: it chooses the pools itself"));
}

/// After the five kinds, of which each asks at least twice, in a process of its own.
TEST(ServingAdvice, EndsWithItsTime) {
  ServingAdviceOptions options{"v", "tpot p95 < 10 s", 1, 100, 4};
  options.stop = [] { return true; };
  const std::string file = MOESIM_ROOT "/scenarios/serving-engine.yaml";
  EXPECT_THAT(error_of([&] { advise_serving(file, two_gpus, options); }),
              AllOf(HasSubstr("no kind of instance can run:\n"),
                    ContainsRegex("# left out: 1 GPU tp1 ep1 .*: --budget was too short\n")));
  const pid_t parent = ::getpid();
  bool priced = false;
  options.stop = [&] {
    priced = priced || ::getpid() == parent;  // the first question of this process is after them
    return priced;
  };
  const Printout cut = advise_serving(file, two_gpus, options);
  EXPECT_THAT(cut.text(), AllOf(HasSubstr("# the time was over: a longer --budget tries more\n"),
                                ContainsRegex("\n1 x .* --budget was too short\n"),
                                HasSubstr("# none of them ran, so that nothing is known of the "
                                          "SLA\n")));
}

TEST(ServingAdvice, LeavesOutWhatDoesNotFit) {
  const std::string none = serving_mistake("tpot p95 < 1 s", {changed_input("gpu.memory=12 GB")});
  EXPECT_THAT(none, AllOf(HasSubstr("no kind of instance can run:\n"),
                          HasSubstr("# left out: 2 GPUs tp1 ep2 deepep-normal: "),
                          HasSubstr("# left out: 1 GPU tp1 ep1 ")));
}

}  // namespace
}  // namespace moesim
