// SPDX-License-Identifier: Apache-2.0
// Clusters of all kinds of vertices, links and tables read back as they were.
#include "sim/saved/cluster_json.h"

#include <gtest/gtest.h>

#include <set>

#include "sim/base/error.h"
#include "sim/topology/reader.h"

namespace moesim::test {
namespace {

using Json = nlohmann::ordered_json;

Topology shipped(const std::string& name) {
  return std::move(read_topology(MOESIM_ROOT "/topologies/" + name + ".yaml").topology);
}

TEST(ClusterJson, ReadsBackWhatItWrites) {
  std::set<std::string> kinds, tiers;
  for (const char* const name : {"h100-nccl", "hybridep-l", "fat-tree", "torus", "heterogeneous",
                                 "occult-a6000", "dragonfly"}) {
    const Topology was = shipped(name);
    const Json json = cluster_json(was);
    const Topology is = read_cluster(json);
    EXPECT_EQ(cluster_json(is), json) << name;
    for (const Vertex& vertex : is.vertices()) kinds.insert(name_of(vertex.kind));
    for (const LinkClass& c : is.classes()) tiers.insert(name_of(c.tier));
  }
  EXPECT_TRUE(kinds.contains("spine") && kinds.contains("router") && kinds.contains("gpu"));
  EXPECT_EQ(tiers.size(), 3U);
}

TEST(ClusterJson, KeepsATableOnceForAllOfItsLinks) {
  const Topology was = std::move(
      parse_topology("source: test\nnodes: 2\nnode:\n  gpu: x\n  gpus: 2\n  nvlink:\n"
                     "    kind: switch\n    latency: 1 us\n    bandwidth: [{size: 1 MB, rate: "
                     "2 GB/s}, {size: 4 MB, rate: 8 GB/s}]\n  nics: {count: 2, latency: 0 us, "
                     "bandwidth: [{size: 1 MB, rate: 1 GB/s}]}\nfabric: {kind: switch}\n",
                     "t")
          .topology);
  const Json json = cluster_json(was);
  ASSERT_EQ(json["tables"].size(), 2U);
  EXPECT_EQ(json["tables"][0], Json::parse("[[1000000, 2e9], [4000000, 8e9]]"));
  const Topology is = read_cluster(json);
  EXPECT_EQ(cluster_json(is), json);
  for (std::size_t l = 0; l < was.links().size(); ++l) {
    const Link &before = was.links()[l], &after = is.links()[l];
    ASSERT_EQ(after.table == nullptr, before.table == nullptr);
    if (!after.table) continue;
    EXPECT_EQ(after.table->time(Bytes(2'000'000)), before.table->time(Bytes(2'000'000)));
  }
}

TEST(ClusterJson, UnknownNamesAndTablesAreErrors) {
  const Json json = cluster_json(shipped("h100-nccl"));
  Json kind = json, tier = json, table = json;
  kind["vertices"][0]["kind"] = "tpu";
  tier["classes"][0]["tier"] = "orbit";
  table["links"][0]["table"] = table["tables"].size();
  EXPECT_THROW(read_cluster(kind), std::invalid_argument);
  EXPECT_THROW(read_cluster(tier), std::invalid_argument);
  EXPECT_THROW(read_cluster(table), std::out_of_range);
}

}  // namespace
}  // namespace moesim::test
