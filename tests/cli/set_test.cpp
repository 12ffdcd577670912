// SPDX-License-Identifier: Apache-2.0
// --set and `set`: changes of one input among several reach it and no other; lists with commas.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using Json = nlohmann::ordered_json;

std::vector<std::string> compare_set(const std::vector<std::string>& more,
                                     const std::string& topology = "two-by-two",
                                     const std::string& policy = "megatron,dedup") {
  std::vector<std::string> command =
      on_hand_trace("compare", topology, {policy}, {"--fidelity", "analytic", "--json", "-"});
  command.insert(command.end(), more.begin(), more.end());
  return command;
}

std::vector<double> steps_of(const Outcome& outcome) {
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::vector<double> steps;
  const Json result = Json::parse(outcome.out);
  for (const Json& c : result["cases"]) steps.push_back(c["step_s"]);
  return steps;
}

/// What each case came to, on two hosts of one GPU, where copies of tokens make a difference.
std::vector<Json> totals(const std::vector<std::string>& more) {
  const Outcome outcome = run_moesim(compare_set(more, "pair"));
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  std::vector<Json> totals;
  const Json result = Json::parse(outcome.out);
  for (const Json& c : result["cases"]) totals.push_back(c["total"]);
  return totals;
}

TEST(Set, ReachesOnePolicyOfSeveral) {
  const std::vector<Json> plain = totals({});
  ASSERT_EQ(plain.size(), 2u);
  EXPECT_NE(plain[0], plain[1]);
  const auto ideal = [](const std::string& change) {
    return totals({"--transport", "ideal", "--set", change});
  };
  EXPECT_EQ(ideal("policy:megatron.dispatch=dedup"), (std::vector<Json>{plain[1], plain[1]}));
  EXPECT_EQ(ideal("policy:dedup.dispatch=alltoall"), (std::vector<Json>{plain[0], plain[0]}));
}

TEST(Set, ReachesOneTopologyOfSeveral) {
  const auto both = steps_of(run_moesim(
      compare_set({"--set", "topology:pair.exchange_overhead=1 ms"}, "pair,two-by-two")));
  const auto alone = steps_of(run_moesim(compare_set({})));
  ASSERT_EQ(both.size(), 4u);
  EXPECT_GT(both[0], 1e-3);
  EXPECT_EQ(both[2], alone[0]);
  EXPECT_EQ(both[3], alone[1]);
}

TEST(Set, ThatReachesNothingIsAnError) {
  EXPECT_EQ(run_moesim(compare_set({"--set", "policy:dedpu.dispatch=alltoall"})).err,
            "--set policy:dedpu.dispatch=alltoall: error: no policy of the scenario is called "
            "'dedpu'\nhint: did you mean 'dedup'?\n");
  EXPECT_EQ(run_moesim(compare_set({"--set", "topology:pair.nodes=1"})).err,
            "--set topology:pair.nodes=1: error: no topology of the scenario is called 'pair'\n"
            "hint: known: two-by-two\n");
  EXPECT_EQ(run_moesim(compare_set({"--set", "policy:dedup=alltoall"})).err,
            "--set policy:dedup=alltoall: error: 'set' cannot change 'policy:dedup'\n"
            "hint: name a field of it: policy:dedup.field=value\n");
  EXPECT_EQ(run_moesim(compare_set({"--set", "tokens_per_rank=8"})).err,
            "--set tokens_per_rank=8: error: 'set' cannot change 'tokens_per_rank'\n"
            "hint: it is a key of the scenario: 'tokens_per_rank: 8', or --tokens-per-rank 8\n");
  EXPECT_EQ(run_moesim(compare_set({"--set", "scenario.batch.micro=8"})).err,
            "--set scenario.batch.micro=8: error: 'set' cannot change 'scenario.batch.micro'\n"
            "hint: keys of the scenario have no name before them: batch.micro=8\n");
  EXPECT_THAT(run_moesim(compare_set({"--set", "gpu=h100"})).err,
              EndsWith("hint: name a field of it: gpu.field=value\n"));
  const Outcome gpu = run_moesim(compare_set({"--set", "gpu:h100.memory=1 GB"}));
  EXPECT_EQ(gpu.code, 0);
  EXPECT_THAT(gpu.err, HasSubstr("--set gpu:h100.memory=1 GB: warning: no gpu of the scenario is "
                                 "called 'h100'\nhint: known: round\n"));
}

TEST(Set, ThatFailsAtAnotherOfSeveralPointsToOneAlone) {
  EXPECT_THAT(run_moesim(compare_set({"--set", "policy.dispatch.counts=true"})).err,
              HasSubstr("there is no 'counts' below the plain value 'alltoall'\n"
                        "hint: policy:NAME.path=value changes only one of several\n"));
  EXPECT_THAT(
      run_moesim(compare_set({"--set", "policy.dispatch.counts=true"}, "pair", "dedup")).err,
      testing::Not(HasSubstr("hint")));
}

// A depth that is given leaves the reading of counts without effect: one key changes, one goes.
TEST(Set, NullRemovesAKeyOfAPolicy) {
  const auto hiermoe = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--transport", "ideal"});
    return run_moesim(compare_set(more, "two-by-two", MOESIM_ROOT "/models/system/hiermoe.yaml"));
  };
  const Outcome kept = hiermoe({"--set", "policy.dispatch.depth=2"});
  EXPECT_EQ(kept.code, 2);
  EXPECT_THAT(kept.err, HasSubstr("'dispatch.counts' has no effect"));
  const Outcome removed =
      hiermoe({"--set", "policy.dispatch.depth=2", "--set", "policy.dispatch.counts=null"});
  EXPECT_EQ(removed.code, 0) << removed.err;
  const Outcome absent = hiermoe({"--set", "policy.dispatch.count=null"});
  EXPECT_EQ(absent.code, 2);
  EXPECT_THAT(absent.err, HasSubstr("there is no 'dispatch.count' to remove\n"
                                    "hint: did you mean 'counts'?"));
}

TEST(Set, NullRemovesAKeyOfTheScenario) {
  const Scratch scratch;
  const std::string file = scratch.file("s.yaml");
  std::ofstream(file) << "topology: two-by-two\nmodel: hand\npolicy: dedup\nfidelity: analytic\n"
                         "trace: " MOESIM_ROOT "/tests/fixtures/traces/hand\ntokens_per_rank: 1\n";
  const auto compare = [&](const std::vector<std::string>& more) {
    std::vector<std::string> command = {"compare", file, "--json", "-"};
    command.insert(command.end(), more.begin(), more.end());
    return run_moesim(command);
  };
  const auto tokens = [&](const std::vector<std::string>& more) {
    return Json::parse(compare(more).out)["cases"][0]["tokens"].get<int>();
  };
  EXPECT_GT(tokens({"--set", "tokens_per_rank=null"}), tokens({}));
  EXPECT_EQ(tokens({"--tokens-per-rank", "null"}), tokens({"--set", "tokens_per_rank=null"}));
  const Outcome absent = compare({"--set", "ep=null"});
  EXPECT_EQ(absent.code, 2);
  EXPECT_THAT(absent.err, HasSubstr("there is no 'ep' to remove"));
}

// The file's changes are made for the file's clusters; flags may choose others.
TEST(Set, InAFileOutlivesItsTopology) {
  const Scratch scratch;
  std::ofstream(scratch.file("s.yaml"))
      << "topology: [pair, two-by-two]\nmodel: hand\npolicy: dedup\nfidelity: analytic\n"
         "set: [topology:pair.exchange_overhead=1 ms]\n"
         "trace: " MOESIM_ROOT "/tests/fixtures/traces/hand\n";
  const std::string file = scratch.file("s.yaml");
  EXPECT_EQ(run_moesim({"compare", file}).code, 0);
  EXPECT_EQ(run_moesim({"compare", file, "--topology", "two-by-two"}).code, 0);
  std::ofstream(scratch.file("s.yaml"), std::ios::app) << "steps: 0\n";
  const Outcome lost = run_moesim({"compare", file, "--topology", "two-by-two", "--set",
                                   "topology:pair.exchange_overhead=1 s"});
  EXPECT_EQ(lost.code, 2);
}

TEST(Lists, TakeCommasAndKeepFilesThatHaveThem) {
  const Scratch scratch;
  std::filesystem::copy_file(MOESIM_ROOT "/tests/cli/data/topologies/pair.yaml",
                             scratch.path() / "a,b.yaml");
  EXPECT_EQ(steps_of(run_moesim(compare_set({}, scratch.file("a,b.yaml")))).size(), 2u);
  EXPECT_EQ(steps_of(run_moesim(compare_set({"--fidelity", "port,flow"}))).size(), 6u);
  EXPECT_THAT(run_moesim(compare_set({}, "pair", "dedup,dedup")).err,
              HasSubstr("'policy' has 'dedup' twice"));
  EXPECT_THAT(run_moesim(compare_set({}, "pair", "dedup,")).err, HasSubstr("'policy.1' is empty"));
}

}  // namespace
}  // namespace moesim
