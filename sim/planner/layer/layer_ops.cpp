// SPDX-License-Identifier: Apache-2.0
// Passes and token exchanges of a layer.
#include "sim/planner/layer/layer_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <stdexcept>

#include "sim/plan/label.h"
#include "sim/planner/layer/layer_step.h"
#include "sim/planner/layer/phase_exchange.h"

namespace moesim {
namespace {

/// The part of a key that tells the side exchanges of a pass apart.
int side_part(Stage stage, int phase, std::size_t side) {
  constexpr int most_sides = 8;
  const int way = stage == Stage::combine ? 1 : 0;
  return (phase * most_sides + static_cast<int>(side)) * 2 + way;
}

/// The traffic of all phases together must not be nothing.
void check_moves(const RowCounts& counts, const LayerWork& work) {
  const bool moves =
      std::ranges::any_of(counts.on_wire(), [](const RowTable& rows) { return rows.total() > 0; });
  const auto& held = work.tokens_per_rank;
  const std::int64_t tokens = std::accumulate(held.begin(), held.end(), std::int64_t{0});
  if (tokens > 0 && !moves) {
    throw std::logic_error(
        fmt::format("dispatch-{} of layer {} moves nothing although its ranks hold {} tokens",
                    work.dispatch->shape().phase(0).name, work.number, tokens));
  }
}

}  // namespace

LayerOps::LayerOps(OpChain& chain, const MoeModel& model, std::vector<ReplayedLayer>& layers,
                   Cell cell)
    : model_(model),
      layers_(layers),
      chain_(chain),
      cell_(cell),
      everybody_(Group::first(chain.gpus())) {
  for (auto& of_pass : gathered_) of_pass.resize(layers.size());
  for (auto& of_pass : gathers_) of_pass.resize(layers.size());
  experts_again_.resize(layers.size());
  computed_.resize(layers.size());
  loaded_.resize(layers.size());
}

LayerOps::Step LayerOps::step(int layer, Pass pass) const {
  return {layer, at(layer), at(layer).work(), cell_, pass, chain_};
}

void LayerOps::begin_chunks(int layer) {
  const std::size_t chunks = at(layer).chunks().size();
  chunk_chains_.clear();
  chunk_chains_.reserve(chunks);
  for (std::size_t c = 0; c < chunks; ++c) chunk_chains_.emplace_back(chain_);
}

void LayerOps::join_chunks() {
  if (!chunk_chains_.empty()) chain_.join(chunk_chains_);
}

std::vector<LayerOps::Step> LayerOps::chunk_steps(const Step& whole) {
  if (chunk_chains_.empty()) return {whole};
  std::vector<Step> steps;
  for (std::size_t c = 0; c < chunk_chains_.size(); ++c) {
    ReplayedLayer& part = whole.parts.chunks()[c];
    steps.push_back({whole.layer, part, part.work(), cell_, whole.pass, chunk_chains_[c],
                     static_cast<int>(c), whole.again});
  }
  return steps;
}

void LayerOps::dispatch(int layer, Pass pass) {
  chunk_chains_.clear();
  if (!chunks_results(layer)) begin_chunks(layer);
  for (const Step& s : chunk_steps(step(layer, pass))) add_exchanges(s, Stage::dispatch);
  join_chunks();
  add_shared_behind_dispatch(step(layer, pass));
}

void LayerOps::combine(int layer, Pass pass) {
  for (const Step& s : chunk_steps(step(layer, pass))) add_exchanges(s, Stage::combine);
  join_chunks();
}

void LayerOps::recompute(int layer) {
  const Step whole = step(layer, Pass::forward).run_again();
  add_before_dispatch(whole);
  begin_chunks(layer);
  const std::vector<Step> chunks = chunk_steps(whole);
  for (const Step& s : chunks) add_exchanges(s, Stage::dispatch);
  join_chunks();
  gather(layer, Pass::backward, mark());
  wait_for_gather(layer, Pass::backward);
  for (const Step& s : chunks) experts_forward(s, false);
  experts_again_[static_cast<std::size_t>(layer)] = true;
  for (const Step& s : chunks) add_exchanges(s, Stage::combine);
  join_chunks();
  add_after_combine(whole);
}

/// Between the dispatch and the experts, and between them and the combine; returns per GPU what
/// follows them.
Mark LayerOps::add_tensor_exchanges(const Step& s, Stage stage) {
  const bool back = stage == Stage::combine;
  const bool replicated = cell_.replicas_of_tokens > 1;
  if (replicated && !back) return Mark(static_cast<std::size_t>(s.chain.gpus()));
  // A sum is of results that have left the latent; experts exchange rows in it.
  const std::int64_t width = replicated ? model_.hidden : model_.routed_width();
  const Bytes row(width * size_of(model_.activations));
  const OpKey key = s.key(OpKind::tensor_exchange, stage);
  const Mark now = s.chain.mark();
  std::vector<OpId> added;
  std::vector<Exchange> exchanges =
      replicated ? s.parts.tensor_sums(row) : s.parts.tensor_exchanges(row, back);
  for (std::size_t g = 0; g < exchanges.size(); ++g) {
    const Group& group = (*s.work.tensor_groups)[g];
    added.push_back(
        s.chain.exchange({fmt::format("{}-rows{}",
                                      replicated ? "sum"
                                      : back     ? "scatter"
                                                 : "gather",
                                      s.suffix()),
                          key, Stream::tp, group, waits_of(group, now), std::move(exchanges[g])}));
  }
  return s.chain.per_gpu(added);
}

/// Phases in their order, or mirrored: a phase follows the phases that continue it on the way out.
void LayerOps::add_exchanges(const Step& s, Stage stage) {
  const DispatchShape& shape = s.work.dispatch->shape();
  const int phases = shape.size();
  const bool back = stage == Stage::combine;
  std::vector<std::vector<int>> sources(static_cast<std::size_t>(phases));  // whose rows it takes
  for (int phase = 0; phase < phases; ++phase) {
    const int before = shape.phase(phase).previous;
    if (before < 0) continue;
    if (back) {
      sources[static_cast<std::size_t>(before)].push_back(phase);
    } else {
      sources[static_cast<std::size_t>(phase)].push_back(before);
    }
  }
  std::vector<std::vector<OpId>> done(static_cast<std::size_t>(phases));
  Mark scattered;
  if (back) {
    scattered = add_tensor_exchanges(s, stage);
  } else {
    check_moves(s.work.counts, s.work);
    add_codec(s, OpKind::encode, stage, s.parts.packed());
    add_sides(s, stage, 0, true);
  }
  const Mark start = s.chain.mark();
  for (int i = 0; i < phases; ++i) {
    const int phase = back ? phases - 1 - i : i;
    const auto& from = sources[static_cast<std::size_t>(phase)];
    const auto after = back && from.empty() ? scattered : add_relays(s, stage, from, phase, done);
    const auto minimums = add_minimum_times(s, stage, phase, start, after);
    auto& ended = done[static_cast<std::size_t>(phase)] = add_phase(s, stage, phase, after);
    s.chain.require(minimums);
    ended.insert(ended.end(), minimums.begin(), minimums.end());
    add_sides(s, stage, phase, false);
  }
  if (!back) add_tensor_exchanges(s, stage);
  if (back) add_codec(s, OpKind::decode, stage, s.parts.packed());
}

/// On the way out a relay copies each row to its next hops; on the way back it adds up the parts of
/// a row. Those of chunks run next to the experts, as on the stream of the exchanges (Tutel's
/// all_to_all_2d_async). Returns per GPU what its next exchange waits for.
Mark LayerOps::add_relays(const Step& s, Stage stage, const std::vector<int>& from, int to,
                          const std::vector<std::vector<OpId>>& done) {
  Mark after(static_cast<std::size_t>(s.chain.gpus()));
  if (from.empty()) return after;
  for (const int phase : from) {
    for (const OpId id : done[static_cast<std::size_t>(phase)]) {
      s.chain.add_to(after, id);
    }
  }
  const Stream stream = s.work.dispatch->shape().phase(to).stream;
  const auto without_kernel = [&](OpList& waits) {  // its stream waits by itself
    const auto waited_for = [&](OpId id) { return s.chain.stream_of(id) == stream; };
    waits.erase(std::remove_if(waits.begin(), waits.end(), waited_for), waits.end());
  };
  if (!s.work.dispatch->shape().local_work.relay) {
    after.change_all(without_kernel);
    return after;
  }
  const bool back = stage == Stage::combine;
  const RowSums& sent = s.parts.phase(to);
  const std::int64_t row = model_.row_bytes().value;
  const OpKey key = s.key(OpKind::relay, stage, to);
  const Stream kernels = chunk_chains_.empty() ? Stream::compute : Stream::copy;
  Op relay{type_label(key.type()), key, kernels, {}, {}, {}};
  const bool any = set_kernels(s, relay, [&](GpuId gpu) {
    std::int64_t in = 0;
    for (const int phase : from) {
      const RowSums& arrived = s.parts.phase(phase);
      in += (back ? arrived.sent : arrived.arrived)[gpu.index()];
    }
    const std::int64_t out = (back ? sent.arrived : sent.sent)[gpu.index()];
    return MemoryBound{Bytes(in * row), Bytes(out * row)};
  });
  const Group relaying = relay.group;
  if (any) {
    relay.after = waits_of(relaying, after);
    const OpId id = s.chain.kernel(std::move(relay));
    after.change(relaying, [id](OpList& waits) { waits = {id}; });
  }
  if (relaying.size() == everybody_.size()) return after;
  for (const GpuId gpu : everybody_) {
    if (!relaying.contains(gpu)) without_kernel(after[gpu.index()]);
  }
  return after;
}

std::vector<OpId> LayerOps::add_phase(const Step& s, Stage stage, int phase, const Mark& after) {
  const DispatchShape& shape = s.work.dispatch->shape();
  const Bytes row = shape.wire(stage, s.pass).row;
  std::vector<OpId> added;
  const Label label = fmt::format("{}-{}{}", name_of(stage), shape.phase(phase).name, s.suffix());
  const OpKey key = s.key(OpKind::token_exchange, stage, phase);
  const bool back = stage == Stage::combine;
  const auto& moved = s.parts.traffic(phase);
  const Stream stream = stream_of(shape.phase(phase), back);
  for (auto& [group, exchange] : phase_exchanges(s.work, phase, moved, row, back)) {
    if (cell_.serves && group.size() == 1) continue;
    std::vector<OpId> waits = waits_of(group, after);
    added.push_back(
        s.chain.exchange({label, key, stream, group, std::move(waits), std::move(exchange)}));
  }
  return added;
}

/// If a phase has a least time besides its bytes, every receiver spends it during the exchange, on
/// the copy stream: one phase after the other, as their exchanges.
std::vector<OpId> LayerOps::add_minimum_times(const Step& s, Stage stage, int phase,
                                              const Mark& start, const Mark& after) {
  const PhaseShape& shape = s.work.dispatch->shape().phase(phase);
  const MinimumTime& minimum = shape.minimum(stage);
  std::vector<OpId> added;
  if (minimum.per_turn.value == 0) return added;
  std::vector<std::int64_t> fullest;  // once any kernel is asked for
  Op op{fmt::format("{}-{}-minimum-time{}", name_of(stage), shape.name, s.suffix()),
        s.key(OpKind::minimum_time, stage, phase),
        Stream::copy,
        {},
        {},
        {}};
  const bool any = set_kernels(s, op, [&](GpuId gpu) {
    if (fullest.empty()) fullest = s.parts.fullest_senders(phase, stage == Stage::combine);
    const std::int64_t most = fullest[gpu.index()];
    const double time = most > 0 ? minimum.of(most).value : 0;
    return HostWork{static_cast<std::int64_t>(std::llround(time * 1e9))};
  });
  if (!any) return added;
  op.after = waits_of(op.group, start);
  const auto relayed = waits_of(op.group, after);
  op.after.insert(op.after.end(), relayed.begin(), relayed.end());
  added.push_back(s.chain.kernel(std::move(op)));
  return added;
}

void LayerOps::add_sides(const Step& s, Stage stage, int phase, bool before) {
  const DispatchShape& shape = s.work.dispatch->shape();
  const std::vector<SideExchange>& sides = shape.wire(stage, s.pass).sides;
  for (std::size_t i = 0; i < sides.size(); ++i) {
    const SideExchange& side = sides[i];
    if (side.before != before) continue;
    // Out and back differ in nothing else.
    const int part = side_part(stage, phase, i);
    const bool back = stage == Stage::combine;
    for (auto& [group, exchange] : side_exchanges(s.parts.traffic(phase, side), back)) {
      if (cell_.serves && group.size() == 1) continue;
      s.chain.exchange({fmt::format("{}-{}{}", name_of(stage), side.name, s.suffix()),
                        s.key(OpKind::side_exchange, Stage::other, part),
                        shape.phase(phase).stream,
                        group,
                        {},
                        std::move(exchange)});
    }
    if (!before) continue;
    const HostWork read{static_cast<std::int64_t>(std::llround(side.host.value * 1e9))};
    const OpKey key = s.key(OpKind::host_read, Stage::other, part);
    add_compute(
        s, key, [&](GpuId) { return read; }, fmt::format("read-{}", side.name));
  }
}

}  // namespace moesim
