// SPDX-License-Identifier: Apache-2.0
// DeepEP's kernels (deepseek-ai/DeepEP at dd758ca, csrc/kernels/legacy). Normal: see
// deepep_normal.h. Low latency: one message per token and choice straight to its GPU, by RDMA
// between nodes and over NVLink inside, as that version does unless it is set not to.
#include <fmt/format.h>

#include <algorithm>

#include "sim/mechanism/dispatch/deepep_normal.h"
#include "sim/mechanism/dispatch/flat.h"
#include "sim/mechanism/mechanisms.h"

namespace moesim {
namespace {

constexpr int expert_count_bytes = 4;  // of an expert's rows: int32

/// Limits of V1's kernels: NUM_MAX_NVL_PEERS and NUM_MAX_RDMA_PEERS of csrc/kernels/configs.cuh.
constexpr int most_nvlink_peers = 8, most_nodes = 20;

/// FP8 carries one 4-byte scale per 128 elements.
std::int64_t fp8_bytes(const MoeModel& model) {
  return model.routed_width() + 4 * (model.routed_width() / 128);
}
std::int64_t bf16_bytes(const MoeModel& model) { return 2 * model.routed_width(); }
std::int64_t round_up_to_16(std::int64_t bytes) { return (bytes + 15) / 16 * 16; }

/// What leaves for the experts may be sent in FP8, forward by one choice and backward by another;
/// the way back adds up, which needs the precision.
bool in_fp8(bool forward, bool gradients, Stage stage, Pass pass) {
  return stage == Stage::dispatch && (pass == Pass::forward ? forward : gradients);
}

/// The form of rows if some of them are FP8.
RowForm form(bool fp8) { return fp8 ? RowForm{8, "fp8"} : RowForm{16, "bf16"}; }

class LowLatency : public Flat<false> {
 public:
  LowLatency(const RankSpace& ranks, bool fp8) : Flat(ranks), fp8_(fp8) {}

  /// The kernels cast, send and add up rows where they are. A message is the row and a 16-byte
  /// header; the combine returns the bare row.
  DispatchShape shape(const MoeModel& model) const {
    DispatchShape shape = Flat::shape(model);
    shape.local_work = {false, false};
    shape.rows = form(fp8_);
    for (const Stage stage : {Stage::dispatch, Stage::combine}) {
      for (const Pass pass : {Pass::forward, Pass::backward}) {
        const std::int64_t hidden =
            in_fp8(fp8_, false, stage, pass) ? fp8_bytes(model) : bf16_bytes(model);
        shape.wire(stage, pass).row = Bytes(hidden + (stage == Stage::dispatch ? 16 : 0));
      }
    }
    return shape;
  }

 private:
  bool fp8_;
};

/// What is sent forward: `stated`, the default, is FP8 if rows are stated to be.
enum class RowType { stated, fp8, bf16 };

RowType read_type(const YamlMap& params) {
  return static_cast<RowType>(params.choice("type", {"stated", "fp8", "bf16"}, 0));
}

bool is_fp8(RowType type, const DispatchContext& context) {
  return type == RowType::stated ? context.stated == DataType::fp8 : type == RowType::fp8;
}

std::int64_t most_tokens(const Batch& batch) {
  std::int64_t most = 0;
  for (const auto& runs : batch.ranks) most = std::max(most, tokens_of(runs));
  return most;
}

/// The normal kernels with as many rounds as the tokens of a layer fill.
std::unique_ptr<Dispatch> normal_by_tokens(const DispatchContext& context,
                                           const DeepEpParameters& parameters) {
  const int most = context.groups.ranks(0).by_hosts().depth() > 1 ? parameters.rounds : 1;
  std::vector<std::unique_ptr<Dispatch>> by_rounds;
  for (int rounds = 1; rounds <= most; ++rounds) {
    by_rounds.push_back(in_every_group(
        context, [&](const RankSpace& ranks) { return DeepEpNormal(ranks, parameters, rounds); }));
  }
  return std::make_unique<Dispatch>(std::move(by_rounds), [=](const LayerTokens& tokens) {
    const int rounds = std::min(rounds_for(most_tokens(tokens.batch), parameters), most);
    return static_cast<std::size_t>(rounds - 1);
  });
}

/// Says if V1's kernels do not compile for so many ranks.
void add_limits(Dispatch& dispatch, const EpGroups& groups) {
  std::size_t peers = 0;
  int nodes = 0;
  for (const RankSpace& ranks : groups.spaces()) {
    nodes = std::max(nodes, ranks.hosts().size());
    for (const auto& host : ranks.hosts().groups()) peers = std::max(peers, host.size());
  }
  const auto add = [&](const char* what, auto has, int most) {
    if (static_cast<int>(has) <= most) return;
    dispatch.forbid(
        fmt::format("DeepEP V1's normal kernels take {} {} of an EP group at most, here are {}",
                    most, what, has));
  };
  add("GPUs in a host (NVLink peers)", peers, most_nvlink_peers);
  add("hosts", nodes, most_nodes);
}

/// Normal kernels, or others that work alike and are measured as they are: no turns in rings.
DispatchMaker read_normal(const YamlMap& params, bool v1) {
  DeepEpParameters parameters;
  const RowType type = read_type(params);
  parameters.fp8_gradients = params.choice("gradients", {"bf16", "fp8"}, 0) == 1;
  parameters.channels = static_cast<int>(params.integer("channels", {1, 256}, published_channels));
  const auto chunk = static_cast<int>(v1 ? params.integer("rdma_chunk", {1, 4096}, 0) : 0);
  parameters.chunk_time = v1 ? params.seconds("chunk_time", Seconds(0)) : Seconds(0);
  const auto rounds = static_cast<int>(params.integer("rounds", {1, 64}, 0));
  parameters.host_wait = params.seconds("host_wait", Seconds(0));
  return [=](const DispatchContext& c) {
    DeepEpParameters known = parameters;
    known.fp8 = is_fp8(type, c);
    known.rounds = rounds > 0 ? rounds : c.fused ? 8 : 4;
    known.chunks = chunk > 0 ? RdmaChunks{chunk, chunk} : published_chunks(c.groups.size());
    if (c.fused && chunk == 0) known.chunk_time = Seconds(0);
    if (c.groups.size() == 1) known.host_wait = Seconds(0);  // nobody else's rows come
    auto made = normal_by_tokens(c, known);
    if (v1) add_limits(*made, c.groups);
    return made;
  };
}

}  // namespace

DeepEpNormal::DeepEpNormal(const RankSpace& ranks, const DeepEpParameters& parameters, int rounds)
    : Hierarchical(ranks.by_hosts(), ranks.by_hosts().depth(), true),
      parameters_(parameters),
      hops_(ranks.by_hosts().depth()),
      rounds_(rounds) {}

DispatchShape DeepEpNormal::shape(const MoeModel& model) const {
  const DispatchShape round = Hierarchical::shape(model);
  const auto ring = [&](int chunk) {
    return MinimumTime{std::int64_t{parameters_.channels} * chunk, parameters_.chunk_time};
  };
  DispatchShape shape(model);
  for (int phase = 0; phase < rounds_ * hops_; ++phase) {
    const PhaseShape& hop = round.phase(phase % hops_);
    PhaseShape& added = shape.add(hop.name, hop.communicators);
    const bool first = phase % hops_ == 0;
    if (first) added.previous = -1;
    added.stream = first ? Stream::ep : Stream::ep_2;
    if (hops_ == 1 || !first) continue;
    added.dispatch_minimum = ring(parameters_.chunks.dispatch);
    added.combine_minimum = ring(parameters_.chunks.combine);
  }
  shape.local_work = {false, false};
  shape.rows = form(parameters_.fp8 || parameters_.fp8_gradients);
  for (const Stage stage : {Stage::dispatch, Stage::combine}) {
    for (const Pass pass : {Pass::forward, Pass::backward}) {
      shape.wire(stage, pass).row = message_bytes(model, stage, pass);
    }
  }
  if (parameters_.host_wait.value > 0) {
    shape.wire(Stage::dispatch, Pass::forward).sides = {{"counts", Bytes(0),
                                                         Bytes(expert_count_bytes * model.experts),
                                                         true, parameters_.host_wait}};
  }
  return shape;
}

/// Hidden values and scales, 8 bytes of source data, and 4 bytes for each expert id and weight
/// (the combine brings only weights), rounded up to 16.
Bytes DeepEpNormal::message_bytes(const MoeModel& model, Stage stage, Pass pass) const {
  const std::int64_t hidden = in_fp8(parameters_.fp8, parameters_.fp8_gradients, stage, pass)
                                  ? fp8_bytes(model)
                                  : bf16_bytes(model);
  const std::int64_t per_choice = stage == Stage::dispatch ? 8 : 4;
  return Bytes(round_up_to_16(hidden + 8 + per_choice * model.top_k));
}

int rounds_for(std::int64_t tokens, const DeepEpParameters& parameters) {
  const std::int64_t per_turn = std::int64_t{parameters.channels} * parameters.chunks.dispatch;
  const std::int64_t turns = (tokens + per_turn - 1) / per_turn;
  return static_cast<int>(std::clamp<std::int64_t>(turns, 1, parameters.rounds));
}

// type: stated (default: fp8 if rows are stated to be, else bf16), fp8 or bf16, of the forward
// dispatch; gradients: bf16 (default) or fp8, of the ones that leave for the experts, as
// DeepSeek-V3 was trained (arXiv 2412.19437, 3.3.3); channels; rdma_chunk: tokens of a put, by
// default what DeepEP takes for the number of ranks; chunk_time; rounds: the most of them;
// host_wait: until the host, which makes room for the rows, has read how many come
// (csrc/deep_ep.cpp), default 0 us: it knows a bound. By a fused transport there are twice as many
// rounds, as further ones start nothing; its rates were measured with DeepEP's chunks, and hold
// their turns.
DispatchMaker read_deepep_normal(const YamlMap& params) { return read_normal(params, true); }

// Parameters as above without those of the ring: rdma_chunk and chunk_time.
DispatchMaker read_deepep_v2(const YamlMap& params) { return read_normal(params, false); }
DispatchMaker read_hybrid_ep(const YamlMap& params) { return read_normal(params, false); }

DispatchMaker read_deepep_low_latency(const YamlMap& params) {
  return [type = read_type(params)](const DispatchContext& c) {
    const bool fp8 = is_fp8(type, c);
    return in_every_group(c, [&](const RankSpace& ranks) { return LowLatency(ranks, fp8); });
  };
}

RdmaChunks published_chunks(int ep) {
  struct Row {
    int ep;
    RdmaChunks chunks;
  };
  static constexpr Row table[] = {{2, {6, 6}}, {16, {20, 12}}, {24, {8, 8}}, {96, {12, 8}}};
  RdmaChunks result;
  for (const Row& row : table) {
    if (row.ep <= ep) result = row.chunks;
  }
  return result;
}

}  // namespace moesim
