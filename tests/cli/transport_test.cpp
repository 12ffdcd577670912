// SPDX-License-Identifier: Apache-2.0
// --transport: what carries exchanges, what the header says of it, and what has no effect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

Outcome compare_on(const std::vector<std::string>& more) {
  std::vector<std::string> command = {"compare",
                                      "--topology",
                                      "h100-rail",
                                      "--set",
                                      "topology.nodes=2",
                                      "--model",
                                      "tiny-moe",
                                      "--trace",
                                      "tiny-moe-train",
                                      "--policy",
                                      "alltoall,deepep-low-latency",
                                      "--steps",
                                      "0",
                                      "--pass",
                                      "forward",
                                      "--fidelity",
                                      "analytic"};
  command.insert(command.end(), more.begin(), more.end());
  return run_moesim(command, {.folder = MOESIM_ROOT, .data = {}});
}

double step_of(const Outcome& outcome, std::size_t c) {
  return Json::parse(outcome.out)["cases"][c]["step_s"];
}

TEST(TransportFlag, EveryPolicyHasItsOwnOrAllHaveOne) {
  const Outcome ideal = compare_on({"--transport", "ideal", "--json", "-"});
  const Outcome own = compare_on({"--json", "-"});
  const Outcome nccl = compare_on({"--transport", "nccl-p2p", "--json", "-"});
  ASSERT_EQ(own.code, 0) << own.err;
  EXPECT_EQ(step_of(own, 0), step_of(nccl, 0));
  EXPECT_NE(step_of(own, 0), step_of(ideal, 0));
  EXPECT_NE(step_of(own, 1), step_of(nccl, 1));
  EXPECT_EQ(compare_on({"--transport", "own", "--json", "-"}).out, own.out);
  EXPECT_FALSE(Json::parse(ideal.out).contains("transports"));
  EXPECT_EQ(Json::parse(own.out)["transports"].size(), 3U);
  EXPECT_THAT(own.err,
              HasSubstr("# transport nccl-p2p, deepep-ll on h100-rail: nvlink, nic calibrated\n"));
  EXPECT_THAT(ideal.err, Not(HasSubstr("# transport")));
}

TEST(TransportFlag, ChangesReachIt) {
  const Outcome before = compare_on({"--json", "-"});
  const Outcome after = compare_on({"--set", "transport:nccl-p2p.start_up=1 ms", "--json", "-"});
  ASSERT_EQ(after.code, 0) << after.err;
  EXPECT_GT(step_of(after, 0), step_of(before, 0) + 1e-3);
  EXPECT_EQ(step_of(after, 1), step_of(before, 1));
}

TEST(TransportFlag, WhatHasNoEffectIsTold) {
  EXPECT_THAT(compare_on({"--transport", "ideal", "--set", "transport.start_up=1 ms"}).err,
              HasSubstr("it has no effect: all exchanges are ideal"));
  EXPECT_THAT(compare_on({"--transport", "mpi", "--set", "transport:nccl-p2.sms=3"}).err,
              HasSubstr("no transport of the scenario is called 'nccl-p2'"));
  const Outcome unknown = compare_on({"--transport", "nccl-p2"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_THAT(unknown.err, HasSubstr("'transport': "));
  EXPECT_THAT(unknown.err, HasSubstr("did you mean 'nccl-p2p'?"));
}

}  // namespace
}  // namespace moesim
