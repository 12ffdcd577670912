// SPDX-License-Identifier: Apache-2.0
// What `auto` chooses, against the simulated steps of all domains.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include "sim/base/data_files.h"
#include "sim/engine/port_backend.h"
#include "sim/mechanism/placement/hybrid/hybridep.h"
#include "tests/mechanism/placement/hybrid/hybrid_case.h"

namespace moesim {
namespace {

/// A cluster of `nodes` x `gpus` with a slow or fast network, tokens of a rank, width of an expert.
struct Grid {
  int nodes, gpus;
  double nic_gigabytes;
  std::int64_t tokens;
  int ffn;
  std::string options;  // of the placement
  friend void PrintTo(const Grid& g, std::ostream* out) {
    *out << fmt::format("{}x{} nic {} tokens {} ffn {} {}", g.nodes, g.gpus, g.nic_gigabytes,
                        g.tokens, g.ffn, g.options);
  }
};

std::vector<Grid> grid() {
  std::vector<Grid> all;
  for (const auto& [nodes, gpus] : {std::pair{1, 8}, std::pair{2, 4}, std::pair{4, 2}}) {
    for (const double nic : {0.125, 12.5}) {
      for (const std::int64_t tokens : {64, 2048}) {
        for (const int ffn : {64, 1024, 8192}) {
          for (const char* const options :
               {"compression: 1", "compression: 50", "compression: 50, gradients: whole",
                "compression: 50, backward: regather, fused: true"}) {
            all.push_back({nodes, gpus, nic, tokens, ffn, options});
          }
        }
      }
    }
  }
  return all;
}

/// Nodes whose NICs, one for all GPUs, have some rate and latency.
Topology nodes_behind(int nodes, int gpus, double nic_gigabytes) {
  return std::move(
      parse_topology(
          fmt::format("source: test\nexchange_overhead: 5 us\nnodes: {}\nnode:\n  gpu: h100-sxm\n"
                      "  gpus: {}\n  nvlink: {{kind: switch, bandwidth: 100 GB/s, latency: 1 us}}\n"
                      "  nics: {{count: 1, bandwidth: {} GB/s, latency: 20 us}}\n{}",
                      nodes, gpus, nic_gigabytes,
                      nodes > 1 ? "fabric: {kind: switch}\n" : "fabric: {kind: none}\n"),
          "test.yaml")
          .topology);
}

/// All domains of a level, and of both.
std::vector<std::string> domains_of(int nodes, int gpus) {
  const auto divisors = [](int n) {
    std::vector<int> result;
    for (int s = 1; s <= n; ++s) {
      if (n % s == 0) result.push_back(s);
    }
    return result;
  };
  std::vector<std::string> all;
  for (const int outer : divisors(nodes)) {
    for (const int inner : divisors(gpus)) {
      all.push_back(nodes == 1 ? fmt::format("[{}]", inner)
                               : fmt::format("[{}, {}]", outer, inner));
    }
  }
  return all;
}

double step_of(const HybridCase& c, const Grid& g, const std::string& domains) {
  const auto gpu =
      std::make_shared<const GpuModel>(read_gpu_model(data_file("models/gpu", "h100-sxm")));
  const auto backend =
      make_port_backend(c.topology, GpuModels(static_cast<std::size_t>(g.nodes * g.gpus), gpu));
  const PlannedStep planned = c.hybrid("domains: " + domains + ", " + g.options);
  return backend->run(planned.plan).makespan.value;
}

/// How much longer than the best of all domains, and than plain expert parallelism, `auto` takes.
struct OverOthers {
  double best, plain;
};

OverOthers chosen_over(const Grid& g) {
  const int ranks = g.nodes * g.gpus;
  std::vector<int> ids;
  for (std::int64_t t = 0; t < ranks * g.tokens; ++t) ids.push_back(static_cast<int>(t % ranks));
  HybridCase c(nodes_behind(g.nodes, g.gpus, g.nic_gigabytes), g.nodes, g.gpus, ranks, 1, g.tokens,
               ids, ranks);
  c.model.hidden = 1024;
  c.model.expert_ffn = g.ffn;
  c.model.attention = Attention{4 * 1024 * 1024, 1};
  double best = std::numeric_limits<double>::infinity();
  for (const std::string& domains : domains_of(g.nodes, g.gpus)) {
    best = std::min(best, step_of(c, g, domains));
  }
  const double chosen = step_of(c, g, "auto");
  return {chosen / best, chosen / step_of(c, g, g.nodes == 1 ? "[1]" : "[1, 1]")};
}

TEST(HybridEpAuto, IsNearTheBestOfAllDomainsAndNeverWorseThanNone) {
  int near = 0, all = 0;
  for (const Grid& g : grid()) {
    const OverOthers over = chosen_over(g);
    EXPECT_LE(over.best, 1.25) << testing::PrintToString(g);
    EXPECT_LE(over.plain, 1.01) << testing::PrintToString(g);
    near += over.best <= 1.05 ? 1 : 0;
    ++all;
  }
  EXPECT_GE(near, 134) << "of " << all;
}

TEST(HybridEpDomains, SayIfTheyGatherNothing) {
  std::vector<int> ids;
  for (int t = 0; t < 32; ++t) ids.push_back(t % 8);
  const HybridCase c(2, 4, 8, 1, 4, ids);
  EXPECT_EQ(c.forced("domains: [1, 1]"),
            "gathers no experts, because each of its domains is one rank");
  EXPECT_EQ(c.forced("domains: [2, 4]"), "");
}

}  // namespace
}  // namespace moesim
