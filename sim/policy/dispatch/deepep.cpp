// SPDX-License-Identifier: Apache-2.0
// DeepEP's kernels (deepseek-ai/DeepEP at dd758ca, csrc/kernels/legacy). Normal: see
// deepep_normal.h. Low latency: one message per token and choice straight to its GPU, by RDMA
// between nodes and over NVLink inside, as that version does unless it is told not to.
#include <algorithm>

#include "sim/policy/dispatch/deepep_normal.h"
#include "sim/policy/dispatch/flat.h"
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

/// The normal kernels with as many rounds as the tokens of a layer fill.
class NormalByTokens final : public Dispatch {
 public:
  NormalByTokens(const Hierarchy& hierarchy, const DeepEpParameters& parameters)
      : parameters_(parameters) {
    const int most = hierarchy.depth() > 1 ? parameters.rounds : 1;
    for (int rounds = 1; rounds <= most; ++rounds) {
      by_rounds_.push_back(
          std::make_unique<Evaluated<DeepEpNormal>>(DeepEpNormal(hierarchy, parameters, rounds)));
    }
  }

  const Dispatch& choose(const LayerTokens& tokens) const override {
    std::int64_t most = 0;
    for (const auto& runs : tokens.batch.ranks) {
      std::int64_t held = 0;
      for (const TokenRun& run : runs) held += run.count;
      most = std::max(most, held);
    }
    const auto rounds = static_cast<std::size_t>(rounds_for(most, parameters_));
    return *by_rounds_[std::min(rounds, by_rounds_.size()) - 1];
  }

  // What follows is asked of the chosen dispatch; that of one round answers for all of them.
  int phases() const override { return by_rounds_[0]->phases(); }
  std::string phase_name(int phase) const override { return by_rounds_[0]->phase_name(phase); }
  const Communicators& communicators(int phase) const override {
    return by_rounds_[0]->communicators(phase);
  }
  Bytes row_bytes(const MoeModel& model, Stage stage, Pass pass) const override {
    return by_rounds_[0]->row_bytes(model, stage, pass);
  }
  RowCounts count(const LayerTokens& tokens) const override { return choose(tokens).count(tokens); }
  std::vector<std::vector<RowMove>> rows(const LayerTokens& tokens) const override {
    return choose(tokens).rows(tokens);
  }

 private:
  DeepEpParameters parameters_;
  std::vector<std::unique_ptr<Dispatch>> by_rounds_;  // [rounds - 1]
};

class LowLatency : public Flat<false> {
 public:
  LowLatency(Communicators groups, bool fp8) : Flat(std::move(groups), "alltoall"), fp8_(fp8) {}

  /// The kernels cast, send and add up rows where they are.
  LocalWork local_work() const { return {false, false}; }
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

DeepEpNormal::DeepEpNormal(const Hierarchy& hierarchy, const DeepEpParameters& parameters,
                           int rounds)
    : Hierarchical(hierarchy, std::min(2, hierarchy.depth()), true),
      parameters_(parameters),
      hops_(Hierarchical::phases()),
      rounds_(rounds) {}

/// Hidden values and scales, 8 bytes of source data, and 4 bytes for each expert id and weight
/// (the combine brings weights alone), rounded up to 16.
Bytes DeepEpNormal::row_bytes(const MoeModel& model, Stage stage, Pass pass) const {
  const std::int64_t hidden =
      in_fp8(parameters_.fp8, stage, pass) ? fp8_bytes(model) : bf16_bytes(model);
  const std::int64_t per_choice = stage == Stage::dispatch ? 8 : 4;
  return Bytes(round_up_to_16(hidden + 8 + per_choice * model.top_k));
}

Seconds DeepEpNormal::minimum_time(int phase, Stage stage, std::int64_t rows) const {
  if (hops_ == 1 || phase % hops_ != 0) return Seconds(0);
  const bool back = stage == Stage::combine;
  const int chunk = back ? parameters_.chunks.combine : parameters_.chunks.dispatch;
  const std::int64_t per_turn = std::int64_t{parameters_.channels} * chunk;
  return static_cast<double>((rows + per_turn - 1) / per_turn) * parameters_.chunk_time;
}

int rounds_for(std::int64_t tokens, const DeepEpParameters& parameters) {
  const std::int64_t per_turn = std::int64_t{parameters.channels} * parameters.chunks.dispatch;
  const std::int64_t turns = (tokens + per_turn - 1) / per_turn;
  return static_cast<int>(std::clamp<std::int64_t>(turns, 1, parameters.rounds));
}

// type: fp8 (default) or bf16, of the forward dispatch; channels; rdma_chunk: tokens of a put, by
// default what DeepEP takes for the number of ranks; chunk_time; rounds: the most of them.
DispatchMaker read_deepep_normal(const YamlMap& params) {
  DeepEpParameters parameters;
  parameters.fp8 = read_fp8(params);
  parameters.channels = static_cast<int>(params.integer("channels", {1, 256}, published_channels));
  const auto chunk = static_cast<int>(params.integer("rdma_chunk", {1, 4096}, 0));
  parameters.chunk_time = params.seconds("chunk_time", Seconds(0));
  parameters.rounds = static_cast<int>(params.integer("rounds", {1, 64}, 4));
  return [=](const DispatchContext& c) {
    DeepEpParameters known = parameters;
    known.chunks = chunk > 0 ? RdmaChunks{chunk, chunk} : published_chunks(c.ep);
    return std::make_unique<NormalByTokens>(Hierarchy(c.topology, c.ep), known);
  };
}

DispatchMaker read_deepep_low_latency(const YamlMap& params) {
  return [fp8 = read_fp8(params)](const DispatchContext& c) {
    return std::make_unique<Evaluated<LowLatency>>(
        LowLatency(runs_of(c.topology.gpu_count(), c.ep), fp8));
  };
}

}  // namespace moesim
