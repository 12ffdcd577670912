// SPDX-License-Identifier: Apache-2.0
// --transport: what carries exchanges, what the header says of it, and what has no effect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"
#include "tests/trace/scratch.h"

namespace moesim {
namespace {

using testing::HasSubstr;
using testing::Not;
using Json = nlohmann::ordered_json;

Outcome compare_on(const std::vector<std::string>& more,
                   const std::string& policies = "alltoall,deepep-low-latency") {
  std::vector<std::string> command = {
      "compare",  "--topology", "h100-rail",      "--set",      "topology.nodes=2", "--model",
      "tiny-moe", "--trace",    "tiny-moe-train", "--policy",   policies,           "--steps",
      "0",        "--pass",     "forward",        "--fidelity", "analytic"};
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
  EXPECT_THAT(ideal.err, HasSubstr("# transport ideal: links as the topology states them"));
  EXPECT_THAT(own.err, Not(HasSubstr("ideal")));
}

TEST(TransportFlag, ChangesReachIt) {
  const Outcome before = compare_on({"--json", "-"});
  const Outcome after = compare_on({"--set", "transport:nccl-p2p.start_up=1 ms", "--json", "-"});
  ASSERT_EQ(after.code, 0) << after.err;
  EXPECT_GT(step_of(after, 0), step_of(before, 0) + 1e-3);
  EXPECT_EQ(step_of(after, 1), step_of(before, 1));
}

/// A policy file of one's own: `alltoall` with what is said of its dispatch and transport.
std::string own_policy(const ScratchFolder& folder, const std::string& lines) {
  const std::string path = folder / "own.yaml";
  std::ofstream(path) << "name: own\nsource: ours\nrouting: identity\nplacement: contiguous\n"
                         "schedule: sequential\n"
                      << lines;
  return path;
}

TEST(OwnPolicy, TakesTheTransportOfItsDispatch) {
  const ScratchFolder folder;
  for (const std::string dispatch : {"alltoall", "deepep-low-latency"}) {
    const std::string own = own_policy(folder, "dispatch: " + dispatch + "\n");
    const Outcome both = compare_on({"--json", "-"}, dispatch + "," + own);
    ASSERT_EQ(both.code, 0) << both.err;
    EXPECT_EQ(step_of(both, 0), step_of(both, 1)) << dispatch;
    EXPECT_THAT(both.err, Not(HasSubstr("warning")));
  }
}

TEST(OwnPolicy, AChangedDispatchBringsItsTransport) {
  const auto changed = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--set", "policy.dispatch=deepep-low-latency", "--json", "-"});
    return compare_on(more, "alltoall");
  };
  const Outcome preset = compare_on({"--json", "-"}, "deepep-low-latency");
  EXPECT_EQ(step_of(changed({}), 0), step_of(preset, 0));
  const Outcome kept = changed({"--set", "policy.transport=nccl-p2p"});
  EXPECT_NE(step_of(kept, 0), step_of(preset, 0)) << "what is said wins";
}

TEST(OwnPolicy, IdealLinksNextToMeasuredRatesAreWarnedOf) {
  const ScratchFolder folder;
  const std::string own = own_policy(folder, "dispatch: alltoall\ntransport: ideal\n");
  const Outcome mixed = compare_on({}, "alltoall," + own);
  ASSERT_EQ(mixed.code, 0) << mixed.err;
  EXPECT_THAT(mixed.err, HasSubstr("warning: own on ideal links and alltoall at measured rates: "
                                   "their times do not compare\n"));
  EXPECT_THAT(mixed.out, HasSubstr("# transport ideal (own): links as the topology states them"));
  EXPECT_THAT(compare_on({}, own).err, Not(HasSubstr("warning")));
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
