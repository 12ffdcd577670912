// SPDX-License-Identifier: Apache-2.0
// Nodes of Kubernetes by the labels of clouds, one by one or as a stream.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/topology/import/import.h"

namespace moesim {
namespace {

using ::testing::HasSubstr;

std::string cloud_topology(const std::string& text) {
  try {
    return topology_text({parse_facts(text, "f")}, "");
  } catch (const Error& e) {
    return e.what();
  }
}

std::string cloud_node(const std::string& name, const std::string& labels, int gpus = 8) {
  return fmt::format(
      "kind: Node\nmetadata: {{name: {}, labels: {{{}}}}}\n{}", name, labels,
      gpus > 0 ? fmt::format("status: {{capacity: {{nvidia.com/gpu: {}}}}}\n", gpus) : "");
}

TEST(CloudNodes, TypesOfMachinesNameTheirGpus) {
  const std::vector<std::pair<std::string, std::string>> gpus = {
      {"p3dn.24xlarge", "v100  # read: f: V100 of p3dn.24xlarge\n  gpus: 8 "},
      {"p4d.24xlarge",
       "a100-measured  # assumed: f says A100-SXM4-40GB of p4d.24xlarge, with 40 GB; a100-measured "
       "has 80 GB\n  gpus: 8 "},
      {"p5.48xlarge", "h100-measured  # read: f: H100 of p5.48xlarge\n  gpus: 8 "},
      {"p5.4xlarge", "h100-measured  # read: f: H100 of p5.4xlarge\n  gpus: 1 "},
      {"p5en.48xlarge", "h200-measured  # read: f: H200 of p5en.48xlarge\n  gpus: 8 "},
      {"p6-b200.48xlarge", "b200-training  # read: f: B200 of p6-b200.48xlarge\n  gpus: 8 "},
      {"p6e-gb200.36xlarge", "gb200-training  # read: f: GB200 of p6e-gb200.36xlarge\n  gpus: 4 "},
      {"a2-ultragpu-8g", "a100-measured  # read: f: A100-SXM4-80GB of a2-ultragpu-8g\n  gpus: 8 "},
      {"a2-megagpu-16g",
       "a100-measured  # assumed: f says A100-SXM4-40GB of a2-megagpu-16g, with 40 GB; "
       "a100-measured "
       "has 80 GB\n  gpus: 16 "},
      {"a3-highgpu-1g", "h100-measured  # read: f: H100 of a3-highgpu-1g\n  gpus: 1 "},
      {"a3-ultragpu-8g", "h200-measured  # read: f: H200 of a3-ultragpu-8g\n  gpus: 8 "},
      {"a4-highgpu-8g", "b200-training  # read: f: B200 of a4-highgpu-8g\n  gpus: 8 "},
      {"a4x-highgpu-4g", "gb200-training  # read: f: GB200 of a4x-highgpu-4g\n  gpus: 4 "},
      {"Standard_ND96isr_H100_v5",
       "h100-measured  # read: f: Standard_ND96isr_H100_v5\n  gpus: 8 "},
      {"Standard_ND128isr_NDR_GB200_v6",
       "gb200-training  # read: f: Standard_ND128isr_NDR_GB200_v6\n  gpus: 4 "}};
  for (const auto& [type, gpu] : gpus) {
    EXPECT_THAT(cloud_topology(cloud_node("a", "node.kubernetes.io/instance-type: " + type, 0)),
                HasSubstr("  gpu: " + gpu));
  }
  EXPECT_THAT(cloud_topology(cloud_node("a", "node.kubernetes.io/instance-type: p5.48xlarge", 2)),
              HasSubstr("\n  gpus: 2 "));
  EXPECT_THAT(cloud_topology(cloud_node("a", "node.kubernetes.io/instance-type: BM.GPU.H200.8", 8)),
              HasSubstr("  gpu: h200-measured  # read: f: BM.GPU.H200.8\n"));
  for (const char* type : {"m5.large", "n2-standard-4", "BM.GPU.H200.8"}) {
    EXPECT_THAT(cloud_topology(
                    cloud_node("a", fmt::format("node.kubernetes.io/instance-type: {}", type), 0)),
                HasSubstr("f: error: no node with GPUs"));
  }
}

TEST(CloudNodes, ThatShareOrSliceGpus) {
  const auto gpus = [](const std::string& labels, int resources) {
    return cloud_topology(cloud_node("a", labels, resources));
  };
  EXPECT_THAT(gpus("nvidia.com/gpu.product: NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 56),
              HasSubstr("node 'a' has slices of GPUs, 'NVIDIA-A100-SXM4-40GB-MIG-1g.5gb'"));
  EXPECT_THAT(gpus("nvidia.com/gpu.count: '8'", 0) + "", HasSubstr("gpus: 8"));
  const std::string shared = "nvidia.com/gpu.product: NVIDIA-H100-80GB-HBM3-SHARED";
  EXPECT_THAT(gpus(shared, 80), HasSubstr("node 'a' shares its GPUs, and nothing says how many"));
  EXPECT_THAT(gpus(shared + ", nvidia.com/gpu.replicas: '10'", 80), HasSubstr("\n  gpus: 8 "));
  EXPECT_THAT(gpus(shared + ", nvidia.com/gpu.replicas: '10', nvidia.com/gpu.count: '8'", 80),
              HasSubstr("\n  gpus: 8 "));
  EXPECT_THAT(gpus("nvidia.com/gpu.product: H100, nvidia.com/gpu.replicas: '10', "
                   "nvidia.com/gpu.count: '8'",
                   8),
              HasSubstr("\n  gpus: 8 "));
}

TEST(CloudNodes, GoogleNamesTheGpuAndTwoLevelsOfSwitches) {
  std::string stream;
  for (const char* place : {"a 1", "b 1", "c 2", "d 2"}) {
    stream += "---\n" + cloud_node(std::string(1, place[0]),
                                   fmt::format("cloud.google.com/gke-accelerator: "
                                               "nvidia-h100-mega-80gb, "
                                               "cloud.google.com/gce-topology-block: b, "
                                               "cloud.google.com/gce-topology-subblock: s{}",
                                               place[2]));
  }
  const std::string topology = cloud_topology(stream);
  EXPECT_THAT(topology, HasSubstr("  gpu: h100-measured  # read: f: nvidia-h100-mega-80gb\n"));
  EXPECT_THAT(topology, HasSubstr("  kind: leaf-spine  # read: f\n  nodes_per_leaf: 2"));
}

TEST(CloudNodes, ThatHaveEfaSaySo) {
  const std::string node =
      "apiVersion: v1\nkind: Node\nmetadata: {name: a, labels: {nvidia.com/gpu.product: "
      "NVIDIA-H200}}\nstatus: {capacity: {nvidia.com/gpu: '8'";
  const auto topology = [](const std::string& text) {
    return topology_text({parse_facts(text, "f")}, "");
  };
  EXPECT_THAT(topology(node + ", vpc.amazonaws.com/efa: '16'}}\n"),
              HasSubstr("\nnetwork: efa-v3  # read: f\n"));
  EXPECT_THAT(topology(node + "}}\n"), Not(HasSubstr("network:")));
}

TEST(CloudNodes, LayersOfAwsAreNumberedFromTheTop) {
  std::string list = "kind: List\nitems:\n";
  for (const auto& [name, leaf, spine] :
       {std::array{"a", "x1", "y1"}, std::array{"b", "x1", "y1"}, std::array{"c", "x2", "y1"},
        std::array{"d", "x3", "y2"}}) {
    list += fmt::format(
        "- {{kind: Node, metadata: {{name: {}, labels: {{node.kubernetes.io/instance-type: "
        "p5.48xlarge, topology.k8s.aws/network-node-layer-1: top, "
        "topology.k8s.aws/network-node-layer-2: {}, topology.k8s.aws/network-node-layer-3: "
        "{}}}}}}}\n",
        name, spine, leaf);
  }
  const std::string topology = cloud_topology(list);
  EXPECT_THAT(topology, HasSubstr("nodes: 4  # read: f\n"));
  EXPECT_THAT(topology, HasSubstr("  kind: fat-tree  # read: f\n  nodes_per_leaf: 2"));
  EXPECT_THAT(topology, HasSubstr("  leaves_per_pod: 2  # read: f\n"));
}

TEST(CloudNodes, StreamsAreLists) {
  const std::string a = cloud_node("a", "nvidia.com/gpu.product: H200"),
                    b = cloud_node("b", "nvidia.com/gpu.product: H200");
  EXPECT_THAT(cloud_topology(a + "---\n" + b + "---\n# end\n"), HasSubstr("nodes: 2  # read: f\n"));
  EXPECT_THAT(cloud_topology("---\n" + a), HasSubstr("nodes: 1  # read: f\n"));
  const std::string json =
      R"({"kind": "Node", "metadata": {"name": "%"}, "status": {"capacity": {"nvidia.com/gpu": "8"}}})";
  EXPECT_THAT(cloud_topology(json + "\n" + json + "\n"), HasSubstr("nodes: 2  # read: f\n"));
  EXPECT_THAT(cloud_topology("{\n" + json.substr(1, json.size() - 2) + "\n}\n{\n" +
                             json.substr(1, json.size() - 2) + "\n}\n"),
              HasSubstr("nodes: 2  # read: f\n"));
  EXPECT_THAT(cloud_topology("kind: List\nitems:\n- {kind: Node, status: {capacity: "
                             "{nvidia.com/gpu: 8}}}\n---\n" +
                             a),
              HasSubstr("f: error: nodes differ"));
}

TEST(CloudNodes, MistakesInStreamsHaveTheirLines) {
  const std::string a = cloud_node("a", "nvidia.com/gpu.product: H200");
  EXPECT_THAT(cloud_topology(a + "---\n" + a + "x: : y\n"), HasSubstr("f:8:"));
  EXPECT_THAT(cloud_topology(a + "---\nkind: Pod\n"),
              HasSubstr("f:4:1: error: a second YAML document begins here"));
}

}  // namespace
}  // namespace moesim
