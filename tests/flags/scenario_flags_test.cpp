// SPDX-License-Identifier: Apache-2.0
// What every flag of a scenario changes in it, and how messages name it.
#include "sim/flags/scenario_flags.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/flags/said_by.h"

namespace moesim {
namespace {

using testing::HasSubstr;

using Changes = std::vector<std::vector<std::string>>;  // key, value, flag

Changes changed_by(const std::vector<std::string>& words) {
  ScenarioFlags flags;
  CommandLine program("prog", "Simulates");
  flags.add_to(program);
  EXPECT_EQ(said_by(program, words), "");
  Changes changes;
  for (const Override& change : flags.overrides()) {
    changes.push_back({change.path, change.value, change.flag});
  }
  return changes;
}

TEST(FlagsOfAScenario, WithOneValueChangeOneKey) {
  const std::vector<std::pair<std::string, std::string>> quoted = {
      {"--model", "model"},   {"--trace", "trace"},         {"--transport", "transport"},
      {"--steps", "steps"},   {"--p2p-order", "p2p_order"}, {"--pass", "pass"},
      {"--memory", "memory"}, {"--pipeline", "pipeline"},   {"--software", "software"}};
  for (const auto& [flag, key] : quoted) {
    EXPECT_EQ(changed_by({flag, "7"}), (Changes{{key, "\"7\"", flag + " 7"}}));
  }
  const std::vector<std::pair<std::string, std::string>> plain = {
      {"--ep", "ep"},
      {"--tokens-per-rank", "tokens_per_rank"},
      {"--repeat", "repeat"},
      {"--warmup", "warmup"},
      {"--attention", "attention"},
      {"--accumulate", "accumulate"},
      {"--gradient-bytes", "gradient_bytes"},
      {"--optimizer-bytes", "optimizer_bytes"},
      {"--tp", "parallel.tp"},
      {"--cp", "parallel.cp"},
      {"--pp", "parallel.pp"},
      {"--vpp", "parallel.vpp"},
      {"--etp", "parallel.etp"},
      {"--global-batch", "batch.global"},
      {"--micro-batch", "batch.micro"},
      {"--sequence", "batch.sequence"},
      {"--zero", "zero"}};
  for (const auto& [flag, key] : plain) {
    EXPECT_EQ(changed_by({flag, "7"}), (Changes{{key, "7", flag + " 7"}}));
    EXPECT_EQ(changed_by({flag, ""}), (Changes{{key, "\"\"", flag + " "}})) << "nothing is a text";
  }
}

TEST(FlagsOfAScenario, WithSeveralValuesMakeAList) {
  for (const std::string key : {"topology", "policy", "fidelity", "recompute", "routing"}) {
    const std::string flag = "--" + key;
    EXPECT_EQ(changed_by({flag, "a,b", flag, "c"}),
              (Changes{{key, R"(["a","b","c"])", flag + " a,b " + flag + " c"}}));
  }
  EXPECT_EQ(changed_by({"--layers", "1,2", "--layers", "7"}),
            (Changes{{"layers", "[1, 2, 7]", "--layers 1,2,7"}}));
  EXPECT_EQ(changed_by({"--layers", "5"}), (Changes{{"layers", "[5]", "--layers 5"}}));
  EXPECT_EQ(changed_by({"--layers", "all"}), (Changes{{"layers", "\"all\"", "--layers all"}}));
  EXPECT_EQ(changed_by({"--set", "a.b=1", "--set", "c.d=x,y"}),
            (Changes{{"set", "a.b=1", "--set a.b=1"}, {"set", "c.d=x,y", "--set c.d=x,y"}}));
}

TEST(FlagsOfAScenario, DrawTheRouting) {
  EXPECT_EQ(
      changed_by({"--synth", "skew=0.5,seed=7"}),
      (Changes{{"synth.skew", "0.5", "--synth skew=0.5"}, {"synth.seed", "7", "--synth seed=7"}}));
  for (const char* wrong : {"skew", "=5", "skew=1,seed"}) {
    ScenarioFlags flags;
    CommandLine program("prog", "Simulates");
    flags.add_to(program);
    EXPECT_THAT(said_by(program, {"--synth", wrong}), HasSubstr("expected KEY=VALUE")) << wrong;
  }
}

TEST(FlagsOfAScenario, TakeOneValueEach) {
  for (const char* flag :
       {"--topology", "--policy", "--fidelity", "--recompute", "--routing", "--layers", "--set"}) {
    ScenarioFlags flags;
    CommandLine program("prog", "Simulates");
    flags.add_to(program);
    EXPECT_EQ(said_by(program, {flag, "a", "file"}), "") << flag;
    EXPECT_EQ(flags.file(), "file") << flag;
  }
}

}  // namespace
}  // namespace moesim
