// SPDX-License-Identifier: Apache-2.0
// Iterations whose memory can be worked out by hand: every GPU has as many tokens and rows.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "sim/model/blocks.h"
#include "tests/planner/iteration/fixtures.h"

namespace moesim {

inline constexpr int tokens_of_gpu = 512;  // and of a sequence

/// Only MoE layers, in which every token chooses all 8 experts: equal rows on all GPUs.
inline MoeModel all_chosen(int layers) {
  return parse_moe_model(
      "name: all-chosen\nsource: test\nhidden: 1024\nlayers: " + std::to_string(layers) +
          "\nmoe_layers: {first: 0, count: " + std::to_string(layers) +
          "}\nexperts: 8\ntop_k: 8\nexpert_ffn: 512\nexpert_matrices: 3\nactivations: bf16\n"
          "weights: bf16\ngate: {score: softmax}\nvocabulary: 512\n"
          "attention: {kind: gqa, heads: 16, kv_heads: 4, head_dim: 64}\n",
      "all-chosen");
}

/// Iterations of all_chosen on 8 GPUs.
class IterationMemoryTest : public testing::Test {
 protected:
  Spec options(PipelineKind kind, int pp, int vpp, int microbatches) const {
    Spec o;
    o.spec.parallel = {.tp = 1, .pp = pp, .vpp = vpp, .ep = 8 / pp, .etp = 1};
    o.spec.pipeline = kind;
    o.spec.global_batch = microbatches * 8 / pp;
    o.spec.sequence = tokens_of_gpu;
    o.spec.distinct_microbatches = 1;
    o.state = {4, 12};
    return o;
  }
  StepMemory memory(const MoeModel& model, const Spec& o) const {
    return memory(model, o, test::tokens_for(model, 8 * tokens_of_gpu, tokens_of_gpu));
  }
  StepMemory memory(const MoeModel& model, const Spec& o, const RoutingTrace& trace) const {
    Planner planner(test::policy("alltoall"), topology_, model, trace, o);
    return planner.plan(0).memory;
  }
  /// Bytes that a layer of all_chosen keeps of a microbatch.
  static Bytes kept_by_layer(const MoeModel& model, const Recompute& recompute) {
    const BlockShard shard{tokens_of_gpu, (tokens_of_gpu + 1) / 2};
    return kept_activations(model, 0, BlockKind::attention, shard, recompute) +
           kept_activations(model, 0, BlockKind::moe, shard, recompute) +
           kept_expert_activations(model, tokens_of_gpu * 8, 1, DataType::bf16, recompute);
  }
  static Bytes activations(const StepMemory& memory, int gpu) {
    return memory.peaks[static_cast<std::size_t>(gpu)].use.of(MemoryPart::activations);
  }

  Topology topology_ = test::h100_nodes(1);
};

}  // namespace moesim
