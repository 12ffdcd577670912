// SPDX-License-Identifier: Apache-2.0
#include "sim/run/pass_prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/base/units.h"
#include "sim/base/unsuitable.h"
#include "sim/planner/iteration/serving_batches.h"
#include "sim/run/backends.h"
#include "sim/run/memory_views.h"

namespace moesim {
namespace {

PassPart part_of_pass(IterationPart part) {
  switch (part) {
    case IterationPart::attention:
      return PassPart::attention;
    case IterationPart::experts:
      return PassPart::experts;
    case IterationPart::tokens:
    case IterationPart::tensor:
    case IterationPart::context:
    case IterationPart::weights:
    case IterationPart::gradients:
    case IterationPart::offload:
      return PassPart::exchange;
    case IterationPart::waiting:
      return PassPart::wait;
    case IterationPart::moe_other:
    case IterationPart::dense:
    case IterationPart::optimizer:
    case IterationPart::host:
    case IterationPart::bubble:
      break;
  }
  return PassPart::other;
}

template <class Change>
GpuModels changed(GpuModels gpus, const Change& change) {
  std::map<const GpuModel*, std::shared_ptr<const GpuModel>> known;
  for (auto& gpu : gpus) {
    auto& other = known[gpu.get()];
    if (!other) {
      GpuModel model = *gpu;
      change(model);
      other = std::make_shared<const GpuModel>(std::move(model));
    }
    gpu = other;
  }
  return gpus;
}

GpuModels with_engine_kernels(const PolicyRun& run, const EngineOptions& engine) {
  if (run.system.dispatch.name.starts_with("deepep")) return run.cluster.gpus;
  return changed(run.cluster.gpus,
                 [&](GpuModel& gpu) { gpu.fitted = gpu.fitted.of_engine(engine.name); });
}

/// Whether some experts move, and the whole pass waits for them.
bool waits_for_moves(const PlannedStep& pass) {
  return std::ranges::any_of(pass.layers, [](const PlannedLayer& layer) {
    return layer.decision.migration == Migration::blocks && !layer.decision.migrate.empty();
  });
}

}  // namespace

PassPrices::PassPrices(const PolicyRun& run, Fidelity fidelity, const EngineOptions& engine)
    : run_(run), pass_(run.scenario), engine_(engine) {
  const GpuModels gpus_of_engine = with_engine_kernels(run, engine);
  for (const Hosts hosts : {Hosts::graphs, Hosts::eager, Hosts::none}) {
    Machine& machine = machines_[static_cast<std::size_t>(hosts)];
    machine.gpus = changed(gpus_of_engine, [&](GpuModel& gpu) {
      if (hosts == Hosts::eager) gpu.host.graphs = {};
      if (hosts == Hosts::none) gpu.host = {};
    });
    machine.backend = make_backend(fidelity, run.scenario.p2p_order, run.cluster, machine.gpus);
  }
  pass_.engine_run = nullptr;
  const int gpus = run.cluster.topology.gpu_count();
  const int ranks = shape_of(*pass_.iteration, gpus, run.inputs.model).grid.size(ParallelAxis::dp);
  smallest_.ranks.assign(static_cast<std::size_t>(pass_.iteration->serving->attending(ranks)),
                         {SequenceStep{0, 1, 1, -1}});
  if (!plays_steps()) return;
  const RoutingTrace& trace = run.inputs.trace;
  std::int64_t sequences = 0;
  for (int i = 0; i < asked().count; ++i) {
    const TraceStep& step = trace.step((asked().first + i) % trace.step_count());
    last_of_.push_back(sequences += std::ssize(step.sequence_lengths()));
  }
}

PassPrices::~PassPrices() = default;

Scenario PassPrices::with_batch(const ServingBatch& batch) const {
  Scenario pass = pass_;
  pass.iteration->serving->batch = batch;
  pass.iteration->serving->pad.clear();  // the engine has padded
  return pass;
}

bool PassPrices::runs_eagerly(const ServingBatch& batch) const {
  return engine_.runs_eagerly(batch, !all_decode(batch));
}

Timeline PassPrices::timeline(Hosts hosts, const Plan& plan) {
  const PricedPlan priced(plan, run_.cluster.topology);
  return machines_[static_cast<std::size_t>(hosts)].backend->run(priced);
}

StepPrice PassPrices::price(const ServingBatch& batch, const PassKind& kind) {
  return price_pass(with_batch(batch), kind);
}

bool PassPrices::splits(const ServingBatch& batch) const {
  ServingSpec serving = *pass_.iteration->serving;
  if (serving.parts_of_overlap() == 1) return false;
  serving.batch = batch;
  return serving.turns() > 1;
}

StepPrice PassPrices::price_of(const ServingBatch& batch, const PassKind& kind, bool splits) {
  Scenario pass = with_batch(batch);
  ServingSpec& serving = *pass.iteration->serving;
  if (splits) {
    serving.overlap_from = {};
  } else if (serving.parts_of_overlap() > 1) {
    serving.overlap = ServingOverlap::none;
  }
  return price_pass(pass, kind);
}

StepPrice PassPrices::price_pass(const Scenario& pass, const PassKind& kind) {
  Planner* told_by = told(kind.balanced);
  PolicyPlanner of_pass = planner_of(pass, {.settled = true, .told_by = told_by});
  const auto step = static_cast<int>(kind.step);
  for (int i = 0; told_by == nullptr && i < step; ++i) {
    of_pass.planner().warm_up(of_pass.number(i));
  }
  const PlannedStep planned = of_pass.plan(step);
  const Timeline timeline = this->timeline(kind.eager ? Hosts::eager : Hosts::graphs, planned.plan);
  const IterationTimes times =
      iteration_times(planned.plan, timeline, hosts_take_time(run_.cluster.gpus));
  StepPrice price{timeline.makespan, {}};
  for (int part = 0; part < iteration_part_count; ++part) {
    const auto of = static_cast<IterationPart>(part);
    price.parts[static_cast<std::size_t>(part_of_pass(of))] += times.of(of);
  }
  return price;
}

bool PassPrices::plays_steps() const {
  return run_.routing == RoutingSource::recorded && pass_.plays_choices();
}

RecordedStep PassPrices::step_of(std::int64_t request) const {
  if (last_of_.empty()) return {};
  const std::int64_t round = request / last_of_.back(), place = request % last_of_.back();
  const auto number = std::ranges::upper_bound(last_of_, place) - last_of_.begin();
  return {number, (round > 0 ? std::ssize(last_of_) : 0) + number + 1};
}

bool PassPrices::may_be_told() {
  if (!may_be_told_) {
    PolicyPlanner any = planner_of(with_batch(smallest_), {.told = true});
    may_be_told_ = any.planner().layer_planner().may_be_told();
  }
  return *may_be_told_;
}

Planner* PassPrices::told(std::int64_t balanced) {
  if (!plays_steps() || !may_be_told()) return nullptr;
  auto& planner = told_[balanced];
  if (planner) return &planner->planner();
  const Scenario pass = with_batch(smallest_);
  planner = std::make_unique<PolicyPlanner>(planner_of(pass, {.told = true}));
  Planner& shown = planner->planner();
  const RoutingTrace& trace = run_.inputs.trace;
  const auto show = [&](int step) {
    shown.show(
        whole_step(trace, step % trace.step_count(), shown.shape().grid, *pass.iteration->serving),
        step);
  };
  const auto [first, count] = asked();
  for (int step = std::max(0, first - pass.warmup); step < first; ++step) show(step);
  for (std::int64_t i = 0; i < balanced; ++i) show(first + static_cast<int>(i % count));
  return &shown;
}

PolicyPlanner PassPrices::planner_of(const Scenario& pass, PolicyPlanner::Options options) const {
  options.routing = run_.routing;
  return {pass, run_.inputs, run_.cluster, run_.system, options};
}

/// A host that has begun a rearrangement which the pass waits for issues nothing before its end:
/// none of it hides behind launches.
Rebalancing PassPrices::moving(std::int64_t before, std::int64_t after) {
  const auto [at, is_new] = moving_.try_emplace({before, after});
  Planner* there = is_new ? told(after) : nullptr;
  if (there == nullptr) return at->second;
  Rebalancing& found = at->second;
  const Scenario pass = with_batch(smallest_);
  PolicyPlanner still = planner_of(pass, {.settled = true, .told_by = there});
  PolicyPlanner moves =
      planner_of(pass, {.settled = true, .told_by = there, .moved_from = told(before)});
  const PlannedStep without = still.plan(0), with = moves.plan(0);
  const auto longer = [&](Hosts hosts) {
    return timeline(hosts, with.plan).makespan - timeline(hosts, without.plan).makespan;
  };
  found.moved = std::ranges::any_of(
      with.layers, [](const PlannedLayer& layer) { return !layer.decision.migrate.empty(); });
  found.stall =
      std::max(Seconds(0), longer(runs_eagerly(smallest_) ? Hosts::eager : Hosts::graphs));
  if (waits_for_moves(with)) found.stall = std::max(found.stall, longer(Hosts::none));
  return found;
}

std::string PassPrices::cannot_run() const {
  return planner_of(with_batch(smallest_), {}).planner().layer_planner().cannot_run();
}

PassPrices::Balancing PassPrices::balancing() {
  if (may_be_told()) return {true, true, std::min(asked().first, pass_.warmup) > 0};
  PolicyPlanner pass = planner_of(with_batch(smallest_), {});
  if (!pass.planner().plans_from_loads() || pass.planner().layer_planner().reacts()) return {};
  pass.plan(0);
  return {true, false, pass.planner().replanned()};
}

CacheShard PassPrices::shard() const {
  return cache_shard(*run_.scenario.iteration, run_.inputs.model);
}

SequenceCache PassPrices::sequence_cache(const CacheShard& shard) const {
  if (!run_.inputs.model.missing_of_whole().empty()) return {};
  return moesim::sequence_cache(run_.inputs.model, shard);
}

ServedExperts PassPrices::served_experts(const EngineMemory& memory) const {
  const MoeModel& model = run_.inputs.model;
  const int gpus = run_.cluster.topology.gpu_count();
  const auto shape = shape_of(*run_.scenario.iteration, gpus, model);
  ServedExperts experts;
  experts.experts = bytes_of(
      model.experts * model.expert_parameters() * std::ssize(model.moe_layers), model.weights);
  experts.gpus = gpus;
  experts.holders = shape.grid.size(ParallelAxis::ep) * shape.grid.size(ParallelAxis::etp);
  experts.per_token = sequence_cache().per_token;
  experts.share = memory.of_free ? memory.share : 1;
  return experts;
}

std::int64_t PassPrices::cache_tokens(const ServingBatch& batch, const EngineMemory& memory) {
  const Bytes per_token = sequence_cache().per_token;
  if (per_token.value == 0) return no_limit;
  const Scenario pass = with_batch(batch);
  PolicyPlanner moving = planner_of(pass, {});
  const PlannedStep planned = moving.plan(0);
  std::int64_t least = no_limit;
  for (std::size_t gpu = 0; gpu < planned.memory.peaks.size(); ++gpu) {
    if (!moving.planner().attends(GpuId(static_cast<std::int64_t>(gpu)))) continue;
    const MemoryUse& use = planned.memory.peaks[gpu].use;
    const Bytes held = use.total() - use.of(MemoryPart::cache);
    const Bytes all = run_.cluster.gpus[gpu]->memory;
    const Bytes whole = memory.of_free ? all - held : all;
    const Bytes share(std::llround(memory.share * static_cast<double>(whole.value)));
    const Bytes granted = memory.of_free ? share : share - held;
    if (granted < per_token) {
      const std::string of_engine =
          memory.of_free || memory.share == 1
              ? ""
              : fmt::format(" (the engine may take {})", to_string(share));
      throw Unsuitable(
          fmt::format("{}: weights and work of a pass take {} of GPU {}, which has "
                      "{}{}: nothing is left for the KV cache",
                      run_.system.name, to_string(held), gpu, to_string(all), of_engine),
          "more GPUs per instance, fewer redundant experts, smaller passes "
          "(max_tokens), or a larger memory_fraction");
    }
    least = std::min(least, granted.value / per_token.value);
  }
  return least;
}

}  // namespace moesim
