// SPDX-License-Identifier: Apache-2.0
// Published times of fused layers on a node of eight, without gate and shared experts: MegaMoE on
// B200 and H20 (deepseek-ai/DeepGEMM PR 316 and 323), and FlashInfer's kernels with its tiles
// (vllm-project/vllm PR 49636). Assumed: B200 in PR 316, EP 8 in PR 49636, random experts. Nothing
// is fitted to them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/plan/slice.h"
#include "sim/transport/reader.h"
#include "tests/planner/iteration/fixtures.h"
#include "tests/trace/synthesize.h"

namespace moesim {
namespace {

std::vector<Override> changes_of(const std::vector<std::string>& changes) {
  std::vector<Override> list;
  for (const std::string& change : changes) list.push_back(parse_override(change));
  return list;
}

struct FusedMachine {
  const char* topology;
  const char* gpu;
  std::vector<std::string> changes;
};
const FusedMachine b200_node{"b200-hgx", "b200-measured", {"nodes=1", "node.gpu=b200-measured"}};
const FusedMachine h20_node{"h800-rail",
                            "h20-measured",
                            {"nodes=1", "node.gpu=h20-measured", "node.nvlink.bandwidth=450 GB/s"}};

struct FusedShape {
  int hidden, top_k;
};
constexpr FusedShape v4_flash_shape{4096, 6}, v3_shape{7168, 8};

/// Microseconds of a layer, and of only its kernels or exchanges.
struct LayerTimes {
  double all = 0, kernels = 0, exchanges = 0;
};

LayerTimes layer_times(const FusedMachine& machine, FusedShape shape, std::int64_t tokens,
                       const std::string& policy, const std::vector<std::string>& changes = {}) {
  const Topology topology =
      read_topology(data_file("topologies", machine.topology), changes_of(machine.changes))
          .topology;
  MoeModel model = read_moe_model(data_file("models/moe", "deepseek-v3"));
  model.hidden = shape.hidden;
  model.top_k = shape.top_k;
  model.weights = DataType::fp8;
  model.shared_experts = 0;
  SynthOptions drawn;
  drawn.experts = model.experts;
  drawn.top_k = shape.top_k;
  drawn.layers = {3};
  drawn.tokens = 8 * tokens;
  drawn.sequences = 8;
  drawn.steps = 1;
  drawn.seed = 12;
  const RoutingTrace trace = synthesize(drawn);
  SystemSpec system = read_system(data_file("models/system", policy), changes_of(changes));
  system.transports = find_transports(system.transport);
  PlannerOptions options;
  options.ep = 8;
  options.layers = {0};
  options.backward = options.attention = false;
  const Batches batches = make_batches(trace, {8, tokens, 1});
  Planner planner(system, topology, model, trace, options);
  Plan plan = planner.plan(batches.batches[0], 0).plan;
  plan.transports = system.transports;
  const GpuModels gpus(
      8, std::make_shared<const GpuModel>(read_gpu_model(data_file("models/gpu", machine.gpu))));
  const auto backend = make_port_backend(topology, gpus);
  const auto time = [&](bool kernels, bool exchanges) {
    std::vector<OpId> kept;
    for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
      const bool is_kernel = plan[id].kernels() != nullptr;
      if (plan[id].key.kind != OpKind::gate && (is_kernel ? kernels : exchanges)) {
        kept.push_back(id);
      }
    }
    return backend->run(slice(plan, kept)).makespan.value * 1e6;
  };
  return {time(true, true), time(true, false), time(false, true)};
}

const std::vector<std::string> fp4_weight_keys = {"schedule.weights=fp4"};
const std::vector<std::string> nvfp4_keys = {"schedule.weights=fp4", "schedule.products=fp4",
                                             "dispatch.type=fp4"};
const std::vector<std::string> nvfp4_result_keys = {"schedule.weights=fp4", "schedule.products=fp4",
                                                    "dispatch.type=fp4", "dispatch.results=fp4"};

TEST(FusedLayers, TakeAboutThePublishedTimes) {
  struct Row {
    const FusedMachine& machine;
    FusedShape shape;
    std::int64_t tokens;
    const char* policy;
    std::vector<std::string> changes;
    double published;
  };
  std::vector<Row> rows = {{b200_node, v4_flash_shape, 1, "megamoe", fp4_weight_keys, 56.5},
                           {b200_node, v4_flash_shape, 512, "megamoe", fp4_weight_keys, 146.5},
                           {b200_node, v4_flash_shape, 8192, "megamoe", fp4_weight_keys, 1283.1},
                           {h20_node, v4_flash_shape, 1, "megamoe-hopper", {}, 188.0},
                           {h20_node, v4_flash_shape, 2, "megamoe-hopper", {}, 239.0},
                           {h20_node, v4_flash_shape, 4, "megamoe-hopper", {}, 361.1},
                           {h20_node, v4_flash_shape, 8, "megamoe-hopper", {}, 432.2}};
  const std::vector<std::tuple<int, double, double, double>> flashinfer = {
      {8, 170.8, 171.0, 183.2},
      {64, 184.4, 183.3, 203.7},
      {512, 282.6, 267.3, 242.8},
      {1024, 465.0, 375.8, 314.4},
      {2048, 809.4, 576.5, 490.5}};
  for (const auto& [tokens, mega, fp4, results] : flashinfer) {
    rows.push_back({b200_node, v3_shape, tokens, "megamoe", fp4_weight_keys, mega});
    rows.push_back({b200_node, v3_shape, tokens, "megamoe", nvfp4_keys, fp4});
    rows.push_back({b200_node, v3_shape, tokens, "megamoe", nvfp4_result_keys, results});
  }
  std::vector<double> errors;
  std::string table;
  for (const Row& row : rows) {
    const LayerTimes t = layer_times(row.machine, row.shape, row.tokens, row.policy, row.changes);
    errors.push_back(std::abs(t.all / row.published - 1));
    table += fmt::format("{} tokens: {:.1f} us, published {}\n", row.tokens, t.all, row.published);
    EXPECT_GE(t.all, std::max(t.kernels, t.exchanges) * (1 - 1e-9)) << table;
    EXPECT_LE(t.all, (t.kernels + t.exchanges) * (1 + 1e-9)) << table;
  }
  std::ranges::sort(errors);
  EXPECT_LE(errors[errors.size() / 2], 0.15) << table;
  EXPECT_LE(errors.back(), 0.25) << table;
}

/// On H20 fused is before DeepEP's low-latency kernels with products, and these before the normal
/// ones, at every number of tokens.
TEST(FusedLayers, HaveThePublishedOrder) {
  for (const std::int64_t tokens : {1, 2, 4, 8}) {
    const double fused = layer_times(h20_node, v4_flash_shape, tokens, "megamoe-hopper").all;
    const double low = layer_times(h20_node, v4_flash_shape, tokens, "deepep-low-latency").all;
    const double normal = layer_times(h20_node, v4_flash_shape, tokens, "deepep-normal").all;
    EXPECT_LT(fused, low) << tokens;
    EXPECT_LT(low, normal) << tokens;
  }
}

}  // namespace
}  // namespace moesim
