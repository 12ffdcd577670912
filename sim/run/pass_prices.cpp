// SPDX-License-Identifier: Apache-2.0
#include "sim/run/pass_prices.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "sim/base/units.h"
#include "sim/base/unsuitable.h"
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

GpuModels without_graphs(const GpuModels& gpus) {
  return changed(gpus, [](GpuModel& gpu) { gpu.host.graphs = {}; });
}

}  // namespace

PassPrices::PassPrices(const PolicyRun& run, Fidelity fidelity, const EngineOptions& engine)
    : run_(run),
      pass_(run.scenario),
      gpus_(with_engine_kernels(run, engine)),
      eager_(without_graphs(gpus_)),
      engine_(engine),
      backend_(make_backend(fidelity, run.scenario.p2p_order, run.cluster, gpus_)),
      eager_backend_(make_backend(fidelity, run.scenario.p2p_order, run.cluster, eager_)) {
  pass_.engine_run = nullptr;
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

PolicyPlanner PassPrices::planner(const Scenario& pass, bool settled) const {
  return {
      pass, run_.inputs, run_.cluster, run_.system, {.routing = run_.routing, .settled = settled}};
}

Timeline PassPrices::timeline(bool eager, const Plan& plan) {
  const PricedPlan priced(plan, run_.cluster.topology);
  return (eager ? eager_backend_ : backend_)->run(priced);
}

StepPrice PassPrices::price(const ServingBatch& batch, bool eager) {
  return price_pass(with_batch(batch), eager);
}

bool PassPrices::splits(const ServingBatch& batch) const {
  ServingSpec serving = *pass_.iteration->serving;
  if (serving.parts_of_overlap() == 1) return false;
  serving.batch = batch;
  return serving.turns() > 1;
}

StepPrice PassPrices::price_of(const ServingBatch& batch, bool eager, bool splits) {
  Scenario pass = with_batch(batch);
  ServingSpec& serving = *pass.iteration->serving;
  if (splits) {
    serving.overlap_from = {};
  } else if (serving.parts_of_overlap() > 1) {
    serving.overlap = ServingOverlap::none;
  }
  return price_pass(pass, eager);
}

StepPrice PassPrices::price_pass(const Scenario& pass, bool eager) {
  PolicyPlanner settled = planner(pass, true);
  const PlannedStep planned = settled.plan(0);
  const Timeline timeline = this->timeline(eager, planned.plan);
  const IterationTimes times =
      iteration_times(planned.plan, timeline, hosts_take_time(run_.cluster.gpus));
  StepPrice price{timeline.makespan, {}};
  for (int part = 0; part < iteration_part_count; ++part) {
    const auto of = static_cast<IterationPart>(part);
    price.parts[static_cast<std::size_t>(part_of_pass(of))] += times.of(of);
  }
  return price;
}

/// The pass in a step of that number, after the same steps as before.
Scenario PassPrices::at_step(Scenario pass, int step) const {
  const int seen_from = std::max(0, asked_iterations(pass).first - pass.warmup);
  pass.steps = {step, step + 1};
  pass.warmup = step - seen_from;
  return pass;
}

std::string PassPrices::cannot_run(const ServingBatch& any) const {
  return planner(with_batch(any), true).planner().layer_planner().cannot_run();
}

PassPrices::Balancing PassPrices::balancing(const ServingBatch& batch, bool times_moving) {
  const Scenario pass = with_batch(batch);
  PolicyPlanner asked = planner(pass, false);
  if (!asked.planner().plans_from_loads()) return {};
  asked.plan(0);
  const auto step = asked.planner().last_replan();
  if (!step) return {true, false, Seconds(0)};
  if (!times_moving) return {true, true, Seconds(0)};
  const Scenario moves = at_step(pass, *step);
  const auto time = [&](bool settled) {
    return timeline(runs_eagerly(batch), planner(moves, settled).plan(0).plan).makespan;
  };
  return {true, true, std::max(Seconds(0), time(false) - time(true))};
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
  PolicyPlanner moving = planner(pass, false);
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
