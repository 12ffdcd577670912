// SPDX-License-Identifier: Apache-2.0
// All that is drawn of a small step, as JSON.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/report/pictures.h"
#include "tests/report/two_hosts.h"

namespace moesim {
namespace {

/// A line per key.
std::string lines_of(const nlohmann::ordered_json& json) {
  std::string text;
  for (const auto& [key, value] : json.items()) text += key + " " + value.dump() + "\n";
  return text;
}

TEST(PicturesJson, HasLoadsTrafficLinksAndBars) {
  const test::TwoHostsStep step;
  Pictures pictures;
  for (int i = 0; i < 2; ++i) {
    pictures.add(PricedPlan(step.plan, test::two_hosts()), step.timeline);
  }
  pictures.memory.push_back({GpuId(1),
                             2,
                             Bytes(80),
                             {"weights", "rest"},
                             {"forward", "backward"},
                             {{1'500'000, 0}, {2'000'000, 3'999'999}}});
  EXPECT_EQ(
      lines_of(pictures_json(pictures, test::two_hosts())),
      R"(loads {"layers":[3],"gpus":2,"gpus_per_cell":1,"percent_of_mean":[[140,60]],"steps":2,"microbatches":2,"steps_per_cell":1,"max_over_mean_percent":[[140,-1,140,-1]]}
traffic {"gpus_per_cell":1,"kilobytes_per_step":{"tokens":[[0,4000000],[0,0]]}}
links {"classes":[{"class":"pcie","links":8,"used":4,"bytes":16000000000,"mean":0.001,"most":0.002,"busiest":"node0.gpu0 to node0.socket0"},{"class":"nic","links":4,"used":2,"bytes":8000000000,"mean":0.002,"most":0.004,"busiest":"node0.nic0 to switch"}],"drawn_permille":[2,0,2,0,0,2,0,2,4,0,0,4]}
gantts [{"folded":false,"from_s":0.0,"to_s":1000.0,"kinds":[["fc1","experts"],["dispatch","tokens"],["host","moe other"]],"lanes":[{"gpu":0,"stream":"compute","bars":[[0,0,50000000000,0,3,0,0]]},{"gpu":0,"stream":"ep","bars":[[50000000000,50000000000,250000000000,1,3,1,1]]},{"gpu":1,"stream":"compute","bars":[[0,0,100000000000,0,3,0,0]]},{"gpu":1,"stream":"ep","bars":[[100000000000,0,200000000000,1,3,1,1]]},{"gpu":1,"stream":"copy","bars":[[300000000000,0,100000000000,2,-1,0,0]]}]}]
memory {"gpu":1,"stage":2,"gpu_memory_bytes":80,"parts":["weights","rest"],"turns":["forward","backward"],"megabytes":[[1,0],[2,3]]}
)");
}

TEST(Pictures, OfManyGpusHaveTrafficBetweenBlocksOfThem) {
  const TopologyFile cluster = parse_topology(
      "nodes: 16\nnode:\n  gpu: h100-sxm\n  gpus: 8\n  nvlink: {kind: switch, bandwidth: 1 GB/s, "
      "latency: 0 us}\n  nics: {count: 8, bandwidth: 1 GB/s, latency: 0 us}\n"
      "fabric: {kind: switch}\n",
      "many");
  Plan plan{"plan", 128, {}};
  const std::int64_t dense[] = {3, 10, 7, 0};
  Timeline timeline;
  for (int time = 0; time < 2; ++time) {
    plan.add({"x",
              OpKey{.kind = OpKind::other, .stage = Stage::dispatch, .layer = time},
              Stream::ep,
              {GpuId(5), GpuId(120)},
              {},
              Exchange{ByteMatrix::from_dense(2, dense), {}, false}});
    timeline.ops.add_row({{Seconds(0), Seconds(1)}, {Seconds(0), Seconds(1)}});
  }
  Pictures pictures;
  pictures.add(PricedPlan(plan, cluster.topology), timeline);
  EXPECT_EQ(pictures.gpus_of_block, 2);
  using Between = std::map<std::pair<int, int>, std::int64_t>;
  EXPECT_EQ(pictures.traffic[static_cast<std::size_t>(TrafficKind::tokens)],
            (Between{{{2, 60}, 20}, {{60, 2}, 14}}));
}

TEST(PicturesJson, GpusStandForOthers) {
  const test::TwoHostsStep step;
  Pictures pictures;
  pictures.add(PricedPlan(step.plan, test::two_hosts()), step.timeline, {GpuId(1), GpuId(0)});
  EXPECT_EQ(pictures.rows.at(3).at(0), (RowsOfGpus{{GpuId(0), 3}, {GpuId(1), 7}}));
}

/// A cable each way of 1 GB/s, and a class of which there are none.
TEST(PicturesJson, ClassesWithoutLinksAreIdle) {
  Topology::Parts parts;
  parts.name = "pair";
  parts.classes = {{"spare", Tier::host}, {"wire", Tier::host}};
  for (const int gpu : {0, 1}) {
    parts.vertices.push_back({"gpu" + std::to_string(gpu), VertexKind::gpu, 0});
    parts.gpus.push_back(VertexId(gpu));
    parts.gpu_model.push_back("test");
    parts.links.push_back({.from = VertexId(gpu),
                           .to = VertexId(1 - gpu),
                           .bandwidth = BytesPerSecond(1e9),
                           .latency = Seconds(0),
                           .link_class = 1});
  }
  parts.levels = {{"cluster", {0, 0}, 1}};
  const Topology pair{std::move(parts)};
  Pictures pictures;
  pictures.steps = pictures.gpus = pictures.gpus_of_block = pictures.microbatches = 1;
  pictures.time = Seconds(0.5);
  pictures.link_bytes = {250'000'000, 0};
  EXPECT_EQ(pictures_json(pictures, pair)["links"]["classes"].dump(),
            R"([{"class":"spare","links":0,"used":0,"bytes":0,"mean":0.0,"most":0.0,"busiest":""},)"
            R"({"class":"wire","links":2,"used":1,"bytes":250000000,"mean":0.25,"most":0.5,)"
            R"("busiest":"gpu0 to gpu1"}])");
}

TEST(PicturesJson, DrawingsHaveVerticesAndLinks) {
  EXPECT_EQ(lines_of(drawing_json(test::two_hosts())), R"(topology "two"
gpus 2
hosts 2
drawn_hosts 2
classes ["pcie","nic"]
vertices [["node0.gpu0","gpu",0],["node0.socket0","socket",0],["node0.nic0","nic",0],["node1.gpu0","gpu",1],["node1.socket0","socket",1],["node1.nic0","nic",1],["switch","leaf",-1]]
links [[0,1,0,2000000000.0],[1,0,0,2000000000.0],[1,2,0,2000000000.0],[2,1,0,2000000000.0],[3,4,0,2000000000.0],[4,3,0,2000000000.0],[4,5,0,2000000000.0],[5,4,0,2000000000.0],[2,6,1,1000000000.0],[6,2,1,1000000000.0],[5,6,1,1000000000.0],[6,5,1,1000000000.0]]
)");
}

TEST(PicturesJson, DrawingsOfLargeClustersHaveFourHosts) {
  const Topology large =
      std::move(parse_topology("nodes: 100\nnode:\n  gpu: h100-sxm\n  gpus: 1\n"
                               "  pcie: {bandwidth: 2 GB/s, latency: 0 us}\n"
                               "  nics: {count: 1, bandwidth: 1 GB/s, latency: 0 us}\n"
                               "fabric: {kind: leaf-spine, nodes_per_leaf: 1, spines: 2, "
                               "latency: 0 us}\n",
                               "large")
                    .topology);
  const nlohmann::ordered_json drawing = drawing_json(large);
  EXPECT_EQ(drawing["drawn_hosts"], 4);
  EXPECT_EQ(drawing["gpus"], 100);
  // Of 4 hosts 12 vertices, and no more than 48 switches.
  EXPECT_EQ(drawing["vertices"].size(), 4 * 3 + 48);
}

}  // namespace
}  // namespace moesim
