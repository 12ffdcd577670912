// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/policy_iterations.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/collective/collective.h"
#include "sim/mechanism/unsuitable.h"

namespace moesim {
namespace {

IterationOptions with_token_lists(IterationOptions options) {
  options.explicit_rows = true;
  return options;
}

/// A rule that some executions break.
struct ExecutionRule {
  bool broken;
  std::string what, hint;
};

std::vector<ExecutionRule> rules_of_spec(const IterationSpec& spec) {
  const ParallelSizes& sizes = spec.parallel;
  const auto axis = [](const char* name, int size) {
    return ExecutionRule{size > 1, fmt::format("{} = {}", name, size),
                         fmt::format("{} = 1; replicas, experts and stages are divided", name)};
  };
  return {axis("tp", sizes.tp),
          axis("cp", sizes.cp),
          axis("etp", sizes.etp.value_or(1)),
          {spec.zero > 1, fmt::format("zero = {}", spec.zero), "zero 0 or 1"},
          {spec.pipeline == PipelineKind::dualpipe || spec.pipeline == PipelineKind::dualpipev,
           "the copies of dualpipe", "1f1b, zb1p, or one of the combined schedules"},
          {spec.collective != ReplicaCollective::ring, "collectives of replicas but rings",
           "collective: ring"},
          {!(spec.recompute == Recompute()), "recomputation", "leave recompute out"},
          {spec.optimizer != OptimizerKind::adam, "any optimizer but Adam", "optimizer: adam"},
          {spec.routing != std::vector{RoutingSource::recorded}, "balanced routing",
           "routing: recorded"}};
}

std::vector<ExecutionRule> rules_of_attention(const AttentionShape& shape) {
  return {{shape.kind != AttentionKind::gqa, "multi-head latent attention", ""},
          {shape.window > 0, "attention windows", ""},
          {shape.linear.has_value(), "linear attention", ""},
          {shape.bias || shape.output_bias, "biases of attention", ""},
          {shape.output_gate, "gated attention", ""},
          {shape.sinks, "attention sinks", ""}};
}

std::vector<ExecutionRule> rules_of_model(const MoeModel& model) {
  const char* as_recorded = "dense heads of grouped queries; --set model.PATH=VALUE changes it";
  std::vector<ExecutionRule> rules = {
      {model.activations != DataType::fp32 || model.weights != DataType::fp32,
       fmt::format("{} activations and {} weights", name_of(model.activations),
                   name_of(model.weights)),
       "--set model.activations=fp32 --set model.weights=fp32"},
      {!model.pattern.empty(), "layers of a pattern", as_recorded},
      {model.mtp > 0, "multi-token prediction", "--set model.mtp=0"},
      {model.tied_embeddings, "a head that shares the embedding's weights",
       "--set model.tied_embeddings=false"},
      {model.shared_gate, "a gate of the shared experts", as_recorded},
      {model.router_bias, "a bias of the router", as_recorded},
      {model.expert_bias, "biases of experts", as_recorded}};
  if (!model.pattern.empty()) return rules;  // its layers may have no attention at all
  for (ExecutionRule& rule : rules_of_attention(*model.attention->shape)) {
    rule.hint = as_recorded;
    rules.push_back(std::move(rule));
  }
  return rules;
}

void check_rules(const std::vector<ExecutionRule>& rules) {
  for (const ExecutionRule& rule : rules) {
    if (!rule.broken) continue;
    throw Error(fmt::format("hardware cannot execute {} yet; moesim simulates it", rule.what),
                rule.hint);
  }
}

/// The experts of a stage on the GPUs of the plan; the others have no slots.
Placement on_plan(const Placement& own, const std::vector<GpuId>& stage, int gpus) {
  SlotTable table(static_cast<std::size_t>(gpus));
  const SlotTable of_stage = own.table();
  for (std::size_t g = 0; g < of_stage.size(); ++g) table[stage[g].index()] = of_stage[g];
  return {own.experts(), table};
}

std::vector<GpuId> sources_of(const Batch& batch) {
  std::vector<GpuId> source;  // [token]
  for (std::size_t rank = 0; rank < batch.ranks.size(); ++rank) {
    for (const TokenRun& run : batch.ranks[rank]) {
      source.insert(source.end(), static_cast<std::size_t>(run.count),
                    GpuId(static_cast<std::int64_t>(rank)));
    }
  }
  return source;
}

/// Experts' parameters that travel are patterns, with which no iteration can compute; `row`: bytes
/// of a token's vector. Narrower ones are rounded, and what follows them in later layers, too.
void refuse_exchanges(const Plan& plan, std::int64_t row) {
  for (const Op& op : plan.ops) {
    const Exchange* exchange = op.exchange();
    if (exchange != nullptr && !exchange->rows.empty() && !exchange->padded &&
        exchange->traffic.total().value < std::ssize(exchange->rows) * row) {
      throw Unsuitable(
          fmt::format("hardware cannot execute iterations whose rows are narrower than fp32: '{}' "
                      "of layer {}",
                      op.label.text(), op.key.layer));
    }
    if (op.key.kind != OpKind::parameter_exchange && op.key.kind != OpKind::encode) continue;
    throw Unsuitable(fmt::format(
        "hardware cannot execute iterations whose experts' parameters travel yet: '{}' of layer {}",
        op.label.text(), op.key.layer));
  }
}

void refuse_moving_experts(const std::vector<ServedLayer>& layers) {
  std::map<int, SlotTable> of_first;
  for (const ServedLayer& layer : layers) {
    const SlotTable table = layer.placement.table();
    if (of_first.try_emplace(layer.number, table).first->second == table) continue;
    throw Unsuitable(fmt::format(
        "hardware cannot execute iterations whose experts change places between microbatches: "
        "those of layer {}",
        layer.number));
  }
}

}  // namespace

IterationOptions iteration_options(const Scenario& scenario) {
  IterationOptions options{*scenario.iteration};
  options.state = {scenario.gradient_bytes, scenario.optimizer_bytes};
  return options;
}

AskedIterations asked_iterations(const Scenario& scenario) {
  const StepRange& asked = scenario.steps;
  if (asked.last < 0) return {scenario.warmup, 1};
  return {asked.first, asked.last - asked.first};
}

void check_can_execute(const Scenario& scenario, const MoeModel& model) {
  const std::string missing = model.missing_of_whole();
  check_rules({{!missing.empty(),
                fmt::format("iterations of {}, whose file describes no whole model: it lacks {},",
                            model.name, missing),
                "take a whole model, such as olmoe"}});
  check_rules(rules_of_spec(*scenario.iteration));
  check_rules(rules_of_model(model));
  check_rules(
      {{scenario.gradient_bytes != 4, fmt::format("gradients of {} bytes", scenario.gradient_bytes),
        "gradient_bytes: 4"}});
}

PolicyIterations::PolicyIterations(const Scenario& scenario, const Inputs& inputs,
                                   const ClusterInput& cluster, const SystemSpec& system)
    : cluster_(cluster),
      model_(inputs.model),
      asked_(asked_iterations(scenario)),
      planner_((check_can_execute(scenario, inputs.model), system), cluster.topology, inputs.model,
               inputs.trace, with_token_lists(iteration_options(scenario))) {
  const Grid& grid = planner_.shape().grid;
  if (grid.stage_by(ParallelAxis::ep, 0) != grid.stage(0)) {
    throw Error(fmt::format("hardware cannot execute the order {} yet: an EP group is not "
                            "consecutive GPUs of its stage",
                            scenario.iteration->parallel.order),
                "let ep come before dp");
  }
  for (int i = std::max(0, asked_.first - scenario.warmup); i < asked_.first; ++i) {
    planner_.warm_up(i);
  }
}

HeldIteration PolicyIterations::held() const {
  const IterationShape& shape = planner_.shape();
  const IterationSpec& spec = planner_.options().spec;
  HeldIteration held{model_,
                     {},
                     shape.microbatches,
                     spec.micro_batch,
                     spec.sequence,
                     spec.zero,
                     spec.zero > 0 && spec.overlap.parameters};
  for (int s = 0; s < shape.grid.stages(); ++s) {
    const std::vector<GpuId>& gpus = shape.grid.stage(s);
    HeldStage& stage = held.stages.emplace_back(HeldStage{Group(gpus), {}, {}});
    for (int chunk = 0; chunk < shape.pipeline.chunks(); ++chunk) {
      stage.chunks.push_back({shape.pipeline.position_of({s, chunk}), planner_.parts(s, chunk)});
    }
    std::vector<int> node_of;
    for (const GpuId gpu : gpus) node_of.push_back(cluster_.topology.host_of(gpu));
    stage.rings = rings_through(by_node(node_of));
    for (auto& ring : stage.rings) {
      for (GpuId& member : ring) member = gpus[member.index()];
    }
  }
  return held;
}

void PolicyIterations::add_layers(int iteration, ExecutableStep& step) const {
  const IterationShape& shape = planner_.shape();
  for (int s = 0; s < shape.grid.stages(); ++s) {
    const std::vector<GpuId>& gpus = shape.grid.stage(s);
    StageLayers& layers = planner_.layers_of(s);
    for (int m = 0; m < shape.microbatches; ++m) {
      const Batch& batch =
          planner_.microbatches().of(iteration, m % planner_.microbatches().distinct);
      for (int chunk = 0; chunk < layers.chunks(); ++chunk) {
        const ChunkLayers& made = layers.of(m, chunk);
        for (std::size_t i = 0; i < made.works.size(); ++i) {
          const LayerWork& work = made.works[i];
          ServedLayer layer =
              served({work.number, sources_of(batch), made.chosen[i], &work.assignment()});
          layer.placement = on_plan(layer.placement, gpus, cluster_.topology.gpu_count());
          for (GpuId& source : layer.source) source = gpus[source.index()];
          // Slots keep their numbers only where the GPUs before have none, as here.
          layer.microbatch = m;
          step.layers.push_back(std::move(layer));
        }
      }
    }
  }
}

ExecutableStep PolicyIterations::next() {
  ExecutableStep step;
  step.number = asked_.first + next_++;
  IterationPlan planned = planner_.plan(step.number);
  refuse_exchanges(planned.plan, std::int64_t{4} * model_.hidden);
  step.dropped_choices = planned.change.dropped_choices;
  step.replaced_choices = planned.change.replaced_choices;
  for (const MemoryPeak& peak : planned.memory.peaks) {
    step.peak_memory = std::max(step.peak_memory, peak.use.total());
  }
  add_layers(step.number, step);
  refuse_moving_experts(step.layers);
  step.iteration = held();
  step.plan = std::move(planned.plan);
  return step;
}

}  // namespace moesim
