// SPDX-License-Identifier: Apache-2.0
// Rows that the kernel of the experts' products fetches from their sources, and results that it
// stores there, over NVLink: one per token and choice. With chunks of tiles (docs/pipelines.md) it
// is MegaMoE: deepseek-ai/DeepGEMM, deep_gemm/include/deep_gemm/impls, sm100_fp8_fp4_mega_moe.cuh.
#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/figures.h"
#include "sim/mechanism/dispatch/flat.h"
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

/// Types of rows: those going out forward and backward, and those of results.
struct FusedRows {
  DataType dispatched, gradients, results;
};

/// Values, a scale of one byte for every 32 (fp8) or 16 (fp4) of them, and the gate's weight.
Bytes fused_row(const MoeModel& model, DataType type) {
  constexpr std::int64_t weight = 4;
  const std::int64_t hidden = model.routed_width();
  switch (type) {
    case DataType::fp8:
      return Bytes(hidden + hidden / 32 + weight);
    case DataType::fp4:
      return Bytes(hidden / 2 + hidden / 16 + weight);
    default:
      return Bytes(hidden * size_of(type) + weight);
  }
}

class Fused : public Flat<false> {
 public:
  Fused(const RankSpace& ranks, FusedRows rows) : Flat(ranks), rows_(rows) {}

  DispatchShape shape(const MoeModel& model) const {
    DispatchShape shape = Flat::shape(model);
    shape.local_work.pack = shape.local_work.relay = shape.local_work.arrange = false;
    shape.local_work.sums = true;
    const DataType narrowest = std::min(
        {rows_.dispatched, rows_.gradients, rows_.results},
        [](DataType a, DataType b) { return bytes_per_element(a) < bytes_per_element(b); });
    const int bits = narrowest == DataType::fp4 ? 4 : 8 * size_of(narrowest);
    shape.rows = {bits, name_of(narrowest)};
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      const DataType out = pass == Pass::forward ? rows_.dispatched : rows_.gradients;
      shape.wire(Stage::dispatch, pass).row = fused_row(model, out);
      // Gradients of inputs are added up: as precise as activations.
      const DataType back = pass == Pass::forward ? rows_.results : model.activations;
      shape.wire(Stage::combine, pass).row = fused_row(model, back);
    }
    return shape;
  }

 private:
  FusedRows rows_;
};

}  // namespace

// type: stated (default: fp8 if rows are stated to be that or less, else the activations'), bf16,
// fp8 or fp4, of the forward dispatch; gradients: bf16 or fp8, of rows that leave for the experts,
// and results: bf16, fp8 or fp4, of the forward combine (default: as activations).
DispatchMaker read_fused(const YamlMap& params) {
  const std::vector<std::string> names = {"stated", "bf16", "fp8", "fp4"};
  const int type = params.choice("type", names, 0);
  const int gradients = params.choice("gradients", {"stated", "bf16", "fp8"}, 0);
  const int results = params.choice("results", names, 0);
  return [=](const DispatchContext& c) {
    const auto type_of = [](int chosen, DataType stated) {
      static const DataType types[] = {DataType::bf16, DataType::fp8, DataType::fp4};
      return chosen == 0 ? stated : types[chosen - 1];
    };
    const DataType plain = c.model.activations;
    const FusedRows rows{type_of(type, is_quantized(c.stated) ? DataType::fp8 : plain),
                         type_of(gradients, plain), type_of(results, plain)};
    auto made = in_every_group(c, [&](const RankSpace& ranks) { return Fused(ranks, rows); });
    if (const int hosts = c.groups.most_hosts(); hosts > 1) {
      made->forbid(
          fmt::format("its kernel reaches the GPUs of one NVLink domain, an EP group has {}",
                      counted(hosts, "host")));
    }
    return made;
  };
}

}  // namespace moesim
