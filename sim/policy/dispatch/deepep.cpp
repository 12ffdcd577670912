// SPDX-License-Identifier: Apache-2.0
// DeepEP's kernels (deepseek-ai/DeepEP at dd758ca, csrc/kernels/legacy). Normal: one copy per token
// and node to the GPU with the same index there, which forwards one copy per GPU. Low latency: one
// message per token and choice straight to its GPU.
#include "sim/policy/dispatch/flat.h"
#include "sim/policy/dispatch/hierarchical.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

/// FP8 carries one 4-byte scale per 128 elements.
std::int64_t fp8_bytes(const MoeModel& model) { return model.hidden + 4 * (model.hidden / 128); }
std::int64_t bf16_bytes(const MoeModel& model) { return 2 * std::int64_t{model.hidden}; }
std::int64_t round_up_to_16(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

/// Only the forward dispatch is sent in FP8: combine and gradients need the precision.
bool in_fp8(bool fp8, Stage stage, Pass pass) {
  return fp8 && stage == Stage::dispatch && pass == Pass::forward;
}

class Normal : public Hierarchical {
 public:
  Normal(const Hierarchy& hierarchy, bool fp8)
      : Hierarchical(hierarchy, std::min(2, hierarchy.depth()), true), fp8_(fp8) {}

  /// Hidden values and scales, 8 bytes of source data, and 4 bytes for each expert id and weight
  /// (the combine brings weights alone), rounded up to 16.
  Bytes row_bytes(const MoeModel& model, Stage stage, Pass pass) const {
    const std::int64_t hidden = in_fp8(fp8_, stage, pass) ? fp8_bytes(model) : bf16_bytes(model);
    const std::int64_t per_choice = stage == Stage::dispatch ? 8 : 4;
    return Bytes(round_up_to_16(hidden + 8 + per_choice * model.top_k));
  }

 private:
  bool fp8_;
};

class LowLatency : public Flat<false> {
 public:
  LowLatency(Communicators groups, bool fp8) : Flat(std::move(groups), "rdma"), fp8_(fp8) {}

  /// A message is the row and a 16-byte header; the combine returns the bare row.
  Bytes row_bytes(const MoeModel& model, Stage stage, Pass pass) const {
    const std::int64_t hidden = in_fp8(fp8_, stage, pass) ? fp8_bytes(model) : bf16_bytes(model);
    return Bytes(hidden + (stage == Stage::dispatch ? 16 : 0));
  }

 private:
  bool fp8_;
};

bool read_fp8(const YamlMap& params) { return params.choice("type", {"fp8", "bf16"}, 0) == 0; }

}  // namespace

// type: fp8 (default) or bf16, of the forward dispatch.
DispatchMaker read_deepep_normal(const YamlMap& params) {
  return [fp8 = read_fp8(params)](const DispatchContext& c) {
    return std::make_unique<Evaluated<Normal>>(Normal(Hierarchy(c.topology, c.ep), fp8));
  };
}

DispatchMaker read_deepep_low_latency(const YamlMap& params) {
  return [fp8 = read_fp8(params)](const DispatchContext& c) {
    return std::make_unique<Evaluated<LowLatency>>(
        LowLatency(runs_of(c.topology.gpu_count(), c.ep), fp8));
  };
}

}  // namespace moesim
