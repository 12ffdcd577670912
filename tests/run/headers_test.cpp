// SPDX-License-Identifier: Apache-2.0
// What the lines above a table say of iterations and of passes of serving.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/run/result_file.h"
#include "tests/run/scenarios.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::Not;

/// Of two stages of four GPUs.
std::string iteration_lines(const std::vector<Override>& more) {
  std::vector<Override> flags = {{"topology", "h100-rail", "t"},
                                 {"model", "gpt-oss-20b", "m"},
                                 {"trace", "tiny-moe-train", "r"},
                                 {"policy", "alltoall", "p"},
                                 {"batch", "{global: 16, micro: 1, sequence: 512}", "b"},
                                 {"set", "topology.nodes=1", "n"}};
  flags.insert(flags.end(), more.begin(), more.end());
  const Scenario scenario = read_scenario("", flags);
  return result_header(scenario, open_inputs(scenario), "1");
}

TEST(Headers, OfAnIterationSayHowItIsCutAndUpdated) {
  const std::string plain = iteration_lines({{"parallel", "{pp: 2, ep: 4}", "g"}});
  EXPECT_THAT(plain, HasSubstr("tp 1 cp 1 pp 2 dp 4, experts: etp 1 ep 4 edp 1; "));
  EXPECT_THAT(plain, HasSubstr("16 sequences of 512 tokens in 4 microbatches per replica"));
  EXPECT_THAT(plain, Not(HasSubstr("distinct")));
  EXPECT_THAT(plain, Not(HasSubstr("Muon")));
  EXPECT_THAT(plain, Not(HasSubstr("dense gradients are summed")));
  const std::string more = iteration_lines({{"parallel", "{pp: 2, ep: 4, vpp: 2}", "g"},
                                            {"pipeline", "interleaved", "i"},
                                            {"microbatches", "{distinct: 2}", "d"},
                                            {"zero", "0", "z"},
                                            {"collective", "tree", "c"},
                                            {"optimizer", "muon", "o"}});
  EXPECT_THAT(more, HasSubstr("pp 2 (x2 chunks) dp 4"));
  EXPECT_THAT(more, HasSubstr("in 4 microbatches per replica, 2 of them distinct"));
  EXPECT_THAT(more, HasSubstr("# Muon updates matrices"));
  EXPECT_THAT(more, HasSubstr("up and down two trees of nodes"));
}

std::string serving_lines(const std::string& batch) {
  const Scenario scenario = parse_scenario(
      "topology: h100-rail\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\n"
      "policy: deepep-low-latency\nparallel: {tp: 1, ep: 8}\nset: [topology.nodes=1]\n"
      "steps: 3:4\nserving:\n  batch: " +
          batch + "\n",
      "serving.yaml", {});
  return result_header(scenario, open_inputs(scenario), "1");
}

TEST(Headers, OfAPassSayWhatItsBatchHoldsAndWhichTokensItTakes) {
  const std::string decode = serving_lines("{context: 300, sequences: 2}");
  EXPECT_THAT(decode, HasSubstr("#   2 sequences of 1 new tokens after 300 on each of 8 ranks\n"));
  EXPECT_THAT(decode, HasSubstr("# the trace has no decode"));
  const std::string prompts = serving_lines("{prompt: 300, sequences: 1}");
  EXPECT_THAT(prompts, HasSubstr("#   1 sequence of 300 new tokens on each of 8 ranks\n"));
  EXPECT_THAT(prompts, Not(HasSubstr("# the trace has no decode")));
}

}  // namespace
}  // namespace moesim
