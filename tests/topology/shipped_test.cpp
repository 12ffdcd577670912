// SPDX-License-Identifier: Apache-2.0
// The topologies in topologies/: they read without a warning, and are what they say.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>

#include "sim/topology/reader.h"

namespace moesim {
namespace {

const std::string folder = std::string(MOESIM_ROOT) + "/topologies/";

std::vector<std::string> shipped() {
  std::set<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    const bool yaml = file.path().extension() == ".yaml";
    if (yaml && file.path().stem().extension().empty()) names.insert(file.path().stem().string());
  }
  return {names.begin(), names.end()};
}

Topology open(const std::string& name, const std::string& change = "") {
  std::vector<Override> overrides;
  if (!change.empty()) overrides.push_back(parse_override(change));
  return std::move(read_topology(folder + name + ".yaml", overrides).topology);
}

std::vector<int> groups(const Topology& t) {
  std::vector<int> out;
  for (const Level& level : t.levels()) out.push_back(level.groups);
  return out;
}

TEST(Shipped, AllReadWithoutWarnings) {
  ASSERT_GE(shipped().size(), 14U);
  for (const std::string& name : shipped()) {
    const TopologyFile file = read_topology(folder + name + ".yaml");
    EXPECT_TRUE(file.warnings.empty()) << name << "\n" << file.warnings.front().str();
    EXPECT_EQ(file.topology.name(), name);
    EXPECT_GT(file.topology.gpu_count(), 1) << name;
  }
}

TEST(Shipped, MeasuredLinksComeWithMeasuredKernels) {
  EXPECT_EQ(open("h100-measured").gpu_model(GpuId(0)), "h100-measured");
}

TEST(Shipped, EveryNumberNamesItsOrigin) {
  for (const std::string& name : shipped()) {
    std::ifstream in(folder + name + ".yaml");
    int number = 0;
    for (std::string line; std::getline(in, line);) {
      ++number;
      const bool value = line.find("B/s") != std::string::npos ||
                         line.find("bit/s") != std::string::npos ||
                         line.find(" us") != std::string::npos;
      const auto hash = line.find("# ");
      if (!value || hash == 0 || line.starts_with("description")) continue;
      ASSERT_NE(hash, std::string::npos) << name << ":" << number;
      const std::string origin = line.substr(hash + 2, 4);
      EXPECT_TRUE(std::set<std::string>({"publ", "data", "deri", "assu"}).count(origin) == 1)
          << name << ":" << number << ": " << line;
    }
  }
}

TEST(Shipped, GpuModelsAreShippedToo) {
  for (const std::string& name : shipped()) {
    const Topology t = open(name);
    for (int gpu = 0; gpu < t.gpu_count(); ++gpu) {
      const std::string file =
          std::string(MOESIM_ROOT) + "/models/gpu/" + t.gpu_model(GpuId(gpu)) + ".yaml";
      ASSERT_TRUE(std::filesystem::exists(file)) << name << ": " << file;
    }
  }
}

TEST(Shipped, LevelsOfTheHierMoeTestbedAreItsU) {
  const Topology t = open("hiermoe-a6000");
  EXPECT_EQ(t.gpu_count(), 32);
  EXPECT_EQ(groups(t), (std::vector<int>{1, 4, 8, 16}));  // HierMoE, U
  EXPECT_EQ(t.levels()[3].name, "pair");
  const Topology one = open("hiermoe-a6000", "nodes=1");
  EXPECT_EQ(groups(one), (std::vector<int>{1, 2, 4}));
}

TEST(Shipped, HybridEpClustersHaveEightGpusPerDataCenter) {
  EXPECT_EQ(groups(open("hybridep-s")), (std::vector<int>{1}));
  EXPECT_EQ(groups(open("hybridep-m")), (std::vector<int>{1, 2}));
  EXPECT_EQ(groups(open("hybridep-l")), (std::vector<int>{1, 4}));
  EXPECT_EQ(open("hybridep-l").gpu_count(), 32);
}

TEST(Shipped, RailsGrowToAnySize) {
  const Topology t = open("h100-rail", "nodes=512");
  EXPECT_EQ(t.gpu_count(), 4096);
  EXPECT_EQ(t.paths(GpuId(0), GpuId(4088)).size(), 1U);
  EXPECT_EQ(open("h800-rail", "nodes=9").gpu_count(), 72);
}

TEST(Shipped, AThousandDataCentersMeetAtTheHub) {
  const auto start = std::chrono::steady_clock::now();
  const Topology t = open("wan-1000dc");
  const std::chrono::duration<double> built = std::chrono::steady_clock::now() - start;
  EXPECT_LT(built.count(), 5) << "seconds; a tenth of one is usual";
  EXPECT_EQ(t.gpu_count(), 1000);
  EXPECT_EQ(groups(t), (std::vector<int>{1, 1000}));
  const std::vector<Path> paths = t.paths(GpuId(3), GpuId(997));
  ASSERT_EQ(paths.size(), 1U);
  int wan = 0;
  for (const LinkId link : paths[0].links) {
    const auto c = static_cast<std::size_t>(t.links()[link.index()].link_class);
    wan += t.classes()[c].tier == Tier::wan;
  }
  EXPECT_EQ(wan, 2);
}

}  // namespace
}  // namespace moesim
