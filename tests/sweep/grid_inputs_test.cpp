// SPDX-License-Identifier: Apache-2.0
// What the inputs of a grid say of keys and values that only some of its scenarios have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/sweep/grid.h"
#include "tests/error_of.h"

namespace moesim {
namespace {

using testing::HasSubstr;

std::string mistake_in_grid(const std::string& more, const std::string& topology = "h100-rail") {
  return error_of([&] {
    SweepGrid::parse(
        "topology: " + topology + "\nmodel: gpt-oss-20b\ntrace: tiny-moe-train\nsteps: 0\n" + more,
        "grid.yaml", {})
        .check_inputs();
  });
}

TEST(GridInputs, MayFitTheGpusOfOneTopologyOnly) {
  const std::string policy = "policy: alltoall\n";
  const std::string reserved = "gpu.reserved_memory: [100 GB]}\n";
  EXPECT_THAT(mistake_in_grid(policy + "axes: {" + reserved),
              HasSubstr("reserved_memory leaves nothing for tensors"));
  EXPECT_EQ(mistake_in_grid(policy + "axes: {" + reserved, "b200-hgx"), "");
  EXPECT_EQ(mistake_in_grid(policy + "axes: {topology: [h100-rail, b200-hgx], " + reserved), "");
}

TEST(GridInputs, AreLookedAtInEveryChangeOfTheFile) {
  EXPECT_THAT(
      mistake_in_grid("policy: alltoall\nset: [topology.nodes=2, policy.dispatch.dept=1]\n"),
      HasSubstr("'dept'"));
  EXPECT_EQ(mistake_in_grid("policy: alltoall\nset: [topology.nodes=2]\n"), "");
}

/// Each value of a policy's key and of a model's, as they are read soon; of a cluster's the first.
TEST(GridInputs, OfPoliciesAndModelsAreLookedAtValueByValue) {
  EXPECT_THAT(mistake_in_grid("policy: hiermoe-hd\naxes: {policy.dispatch.depth: [1, x]}\n"),
              HasSubstr("depth"));
  EXPECT_THAT(mistake_in_grid("policy: alltoall\naxes: {model.hidden: [2048, x]}\n"),
              HasSubstr("hidden"));
  EXPECT_THAT(mistake_in_grid("policy: alltoall\naxes: {topology: [h100-rail, h100-rial]}\n"),
              HasSubstr("h100-rial"));
  EXPECT_EQ(mistake_in_grid("policy: alltoall\naxes: {topology.nodes: [1, 2]}\n"), "");
}

}  // namespace
}  // namespace moesim
