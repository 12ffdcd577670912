// SPDX-License-Identifier: Apache-2.0
#include "sim/planner/layer/layer_planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "sim/base/unsuitable.h"
#include "sim/mechanism/known_choices.h"
#include "sim/mechanism/placement/experts_apart.h"
#include "sim/planner/layer/count_loads.h"
#include "sim/planner/layer/gpu_subset.h"
#include "sim/planner/layer/layer_chunks.h"
#include "sim/planner/layer/layer_waves.h"
#include "sim/planner/layer/mean_attended.h"
#include "sim/transport/transport.h"

namespace moesim {
namespace {

std::vector<std::int64_t> tokens_per_rank(const Batch& batch) {
  std::vector<std::int64_t> tokens;
  for (const auto& runs : batch.ranks) tokens.push_back(tokens_of(runs));
  return tokens;
}

ChosenExperts choices_of(const Batch& batch, IdRows ids) {
  ChosenExperts chosen;
  for (const auto& runs : batch.ranks) {
    for (const TokenRun& run : runs) {
      for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
        auto& of_token = chosen.emplace_back();
        for (int k = 0; k < ids.top_k(); ++k) {
          const int expert = ids.at(t, k);
          const bool dropped = ids.width() == 2 && expert == IdRows::dropped;
          of_token.emplace_back(dropped ? -1 : expert);
        }
      }
    }
  }
  return chosen;
}

/// Rows that were dealt from counts have the recorded loads and no more.
void check_trace(const SystemSpec& system, const RoutingTrace& trace) {
  if (!trace.info().counts_alone) return;
  const auto refuse = [&](const auto& chosen, const std::string& instead) {
    if (!chosen.needs_tokens) return;
    throw Unsuitable(fmt::format("'{}' looks at which experts a token has, but trace '{}' was made "
                                 "of counts, which do not say it",
                                 chosen.name, trace.info().name),
                     "record tokens, or " + instead);
  };
  const std::string others = "compare policies that look only at loads";
  refuse(system.routing, others);
  refuse(system.placement, others);
  refuse(system.dispatch,
         fmt::format("one that looks only at loads: --set policy:{}.dispatch=deepep-low-latency",
                     system.name));
}

}  // namespace

LayerPlanner::LayerPlanner(const SystemSpec& system, const Topology& topology,
                           const MoeModel& model, const RoutingTrace& trace, PlannerOptions options)
    : model_(model),
      trace_(trace),
      options_(std::move(options)),
      placing_{unless_unsuitable([&] { return EpGroups(topology, options_.ep); }),
               model,
               trace.info().experts,
               static_cast<int>(options_.layers.size()),
               options_.backward,
               options_.state,
               options_.first_step,
               options_.microbatches ? options_.steps : static_cast<int>(options_.batches.size()),
               [this](int step, int layer) { return recorded_loads(step, layer); },
               options_.numbers_in(trace.info()),
               system.name,
               options_.told,
               options_.warmed || !options_.warmup.empty()},
      routing_(unless_unsuitable([&] {
        return system.routing.make({topology, model, trace.info().experts, options_.ep});
      })),
      placer_(unless_unsuitable([&]() -> std::shared_ptr<Placer> {
        placing_.groups.carried_by(system.transports.tokens);
        if (options_.told_by != nullptr) return options_.told_by->placer_;
        if (options_.attending == 0) return system.placement.make(placing_);
        return place_apart(placing_, options_.attending, system.transports.tokens,
                           system.placement.make);
      })),
      dispatch_(unless_unsuitable([&] {
        DispatchContext context(topology, model, options_.ep);
        context.stated = rows_as_stated(model, options_.gemm_type);
        context.groups.carried_by(system.transports.tokens);
        context.fused = system.transports.tokens && system.transports.tokens->fused;
        return system.dispatch.make(context);
      })),
      schedule_(unless_unsuitable([&] {
        return system.schedule.make({topology, model});
      })) {
  check_trace(system, trace);
  if (options_.overlap_results) schedule_->set_chunking(with_results(schedule_->chunking()));
  check_passes(schedule_->chunking(), options_.backward);
  if (placer_->routes_shared()) shared_choice_.emplace(trace.info().experts);
  if (schedule_->chunking().count == 0) {
    unless_unsuitable([&] {
      chunk_count_.emplace(placing_.groups, model, options_.gemm_type.value_or(model.weights),
                           options_.backward);
    });
  }
  const Chunking chunks = schedule_->chunking();
  const DataType type = options_.gemm_type.value_or(model.weights);
  if (chunks.by == ChunkBy::tiles) kernel_sms_ = sms_for(chunks.kernel, type, placing_.groups);
  fills_tiles_ = fill_tiles(chunks, type, placing_.groups, options_.backward);
  if (const auto& transport = system.transports.tokens; transport && system.sms == 0) {
    dispatch_->set_sms(transport->sms);
  }
  if (!options_.tensor_sharers.empty()) {
    tensor_groups_ = std::make_shared<const std::vector<Group>>(
        tensor_groups(placing_.groups, options_.tensor_sharers));
    tensor_nodes_ = nodes_of(tensor_groups_->front().list(), placing_.groups.network());
  }
  unless_unsuitable([&] { warm_up(); });
}

Loss LayerPlanner::loss(const RoutingChange& change) const {
  Loss loss{change.choices, change.dropped_choices, change.replaced_choices};
  const RowForm& rows = dispatch_->row_form();
  if (rows.bits < 8 * size_of(rows_as_stated(model_, options_.gemm_type))) loss.rows = rows;
  loss.compression = placer_->compression();
  return loss;
}

LoadMatrix LayerPlanner::loads_of(const Batch& batch, IdRows ids) const {
  return joint_loads(count_loads(batch, ids, placing_.experts + (shared_choice_ ? 1 : 0)),
                     placing_.groups, options_.tensor_sharers);
}

/// Loads of a counted step or one of the warm-up before them.
std::vector<LoadMatrix> LayerPlanner::recorded_loads(int step, int layer) const {
  const auto l = static_cast<std::size_t>(layer);
  const auto batches = [&]() -> std::vector<const Batch*> {
    if (options_.microbatches) return options_.microbatches(step, options_.numbers[l]);
    const auto from_first = static_cast<std::ptrdiff_t>(step) - options_.first_step;
    if (from_first < 0) return {&*(options_.warmup.end() + from_first)};
    return {&*(options_.batches.begin() + from_first)};
  };
  std::vector<LoadMatrix> loads;
  for (const Batch* batch : batches()) loads.push_back(loads_of(*batch, recorded(*batch, l).ids));
  return loads;
}

/// Decides as for steps that are planned, and drops what was decided.
void LayerPlanner::warm_up() {
  if (!placer_->looks()) return;
  int step = options_.first_step - static_cast<int>(options_.warmup.size());
  for (const Batch& batch : options_.warmup) {
    RoutingChange change;
    bool planned = false;
    for (std::size_t layer = 0; layer < options_.layers.size(); ++layer) {
      planned |= decide(batch, step, layer, change, true, Moment::step).decision.planned;
    }
    replans_in_warmup_ += planned ? 1 : 0;
    ++step;
  }
}

void LayerPlanner::show(const Batch& batch, int step) {
  unless_unsuitable([&] {
    for (const Moment moment : {Moment::seen, Moment::rebalance}) {
      for (std::size_t layer = 0; layer < options_.layers.size(); ++layer) {
        RoutingChange change;
        decide(batch, step, layer, change, true, moment);
      }
    }
  });
}

RoutedTokens LayerPlanner::routed(const Batch& batch, std::size_t layer, const Assignment* placed,
                                  RoutingChange& change) {
  return routing_->apply({trace_.step(batch.step), options_.layers[layer], batch, placed}, change);
}

LayerTokens LayerPlanner::tokens_of(const RoutedTokens& routed, const Assignment& placed) const {
  const int shared = shared_choice_ ? 1 : 0;
  const int choices = routing_->choices(routed.ids.top_k() - shared) + shared;
  return {routed.batch, routed.ids, placed, GpuId(0), choices};
}

/// A rule that asks where experts are comes second, or its own result would decide where they are.
LayerPlanner::Decided LayerPlanner::decide(const Batch& batch, int step, std::size_t layer,
                                           RoutingChange& change, bool begins_iteration,
                                           Moment moment) {
  const bool gate_first = !routing_->after_placement();
  const RoutedTokens seen =
      complete(gate_first ? routed(batch, layer, nullptr, change) : recorded(batch, layer));
  const LoadMatrix loads = placer_->looks() ? loads_of(seen.batch, seen.ids) : LoadMatrix();
  LayerDecision decision = placer_->decide(
      {step, static_cast<int>(layer), seen.batch, seen.ids, loads, begins_iteration, moment});
  if (placing_.knows_routing(static_cast<int>(layer))) decision.known_ahead();
  if (options_.settled) decision.settle();
  if (const LayerPlanner* before = options_.moved_from) {
    placer_->move_from(*before->placer_, static_cast<int>(layer), decision);
  }
  check_shared(decision, placing_.groups, options_.tensor_sharers);
  if (gate_first) return {std::move(decision), seen};
  const RoutedTokens tokens = complete(routed(batch, layer, &decision.assignment, change));
  return {std::move(decision), tokens};
}

/// Ids that the routing changed last no longer than the layer, and are counted by themselves.
RowCounts LayerPlanner::count(const Dispatch& dispatch, const LayerTokens& tokens,
                              IdRows recorded) const {
  if (options_.counted == nullptr || tokens.ids.data() != recorded.data()) {
    return dispatch.count(tokens);
  }
  const auto& options = dispatch_->options();
  const auto chosen = std::ranges::find(options, &dispatch, &std::unique_ptr<Dispatch>::get);
  const auto option = static_cast<std::size_t>(chosen - options.begin());
  return dispatch.count(tokens, options_.counted->of(recorded.data(), option));
}

Chunking LayerPlanner::chunking(const LayerWork& work) const {
  Chunking chunking = schedule_->chunking();
  if (chunk_count_) chunking.count = chunk_count_->best(work);
  return chunking;
}

std::vector<LayerWork> LayerPlanner::chunks(const LayerWork& work,
                                            const LayerTokens& tokens) const {
  if (kernel_sms_ == 0) {
    const TraceStep& step = trace_.step(tokens.batch.step);
    const auto has_ids = [&](int layer) { return step.ids(layer).data() == tokens.ids.data(); };
    // Of iterations, which are large, only the counts of whole layers are kept.
    const bool kept = options_.numbers.empty() && std::ranges::any_of(options_.layers, has_ids);
    return chunks_of(work, tokens, placing_.groups, chunking(work), [&](const LayerTokens& part) {
      return kept ? count(*work.dispatch, part, tokens.ids) : work.dispatch->count(part);
    });
  }
  const int columns = model_.expert_ffn * (model_.expert_matrices - 1);
  return waves_of(work, tokens, placing_.groups, {schedule_->chunking(), columns, kernel_sms_});
}

LayerWork LayerPlanner::work(const Batch& batch, int step, std::size_t layer, RoutingChange& change,
                             bool begins_iteration) {
  return unless_unsuitable([&] {
    const KnownChoices known(!routing_->after_placement());
    const std::int64_t dropped_before = change.dropped_choices;
    const Moment moment = options_.told_by != nullptr ? Moment::between : Moment::step;
    Decided decided = decide(batch, step, layer, change, begins_iteration, moment);
    LayerWork work(std::move(decided.decision));
    work.dropped = change.dropped_choices - dropped_before;
    if (sums_gradients(step)) work.gradient_sum = gradient_sum(work.decision);
    work.number = placing_.numbers[layer];
    work.tensor_groups = tensor_groups_;
    work.tensor_nodes = tensor_nodes_;
    work.gate_outputs = routing_->gate_outputs();
    work.tokens_per_rank = tokens_per_rank(batch);
    change.choices += batch.tokens() * decided.tokens.ids.top_k();
    if (options_.attention) work.attended = mean_attended(trace_.step(batch.step));
    const LayerTokens tokens = tokens_of(decided.tokens, work.assignment());
    work.dispatch = &dispatch_->choose(tokens);
    work.counts = count(*work.dispatch, tokens, recorded(batch, layer).ids);
    padded_.add(work.counts);
    if (fills_tiles_) work.tiles = product_tiles(schedule_->chunking(), work, options_.backward);
    work.chunks = chunks(work, tokens);
    return work;
  });
}

ChosenExperts LayerPlanner::add_rows(LayerWork& work, const Batch& batch, std::size_t layer,
                                     RoutingChange& change) {
  return unless_unsuitable([&] {
    const Assignment* placed = routing_->after_placement() ? &work.assignment() : nullptr;
    const RoutedTokens routed_tokens = complete(routed(batch, layer, placed, change));
    const LayerTokens tokens = tokens_of(routed_tokens, work.assignment());
    work.rows = work.dispatch->rows(tokens);
    add_chunk_rows(work, tokens, placing_.groups, schedule_->chunking());
    return choices_of(tokens.batch, tokens.ids);
  });
}

}  // namespace moesim
