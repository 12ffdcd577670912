// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/can_execute.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/unsuitable.h"
#include "sim/saved/held_iteration.h"

namespace moesim {
namespace {

/// A rule that some executions break.
struct ExecutionRule {
  bool broken;
  std::string what, hint;
};

std::vector<ExecutionRule> rules_of_spec(const IterationSpec& spec) {
  const ParallelSizes& sizes = spec.parallel;
  const int etp = sizes.etp.value_or(sizes.tp);
  return {{sizes.cp > 1,
           fmt::format("cp = {}, whose attention adds up over parts of a sequence,", sizes.cp),
           "cp: 1; tensor groups (tp) divide sequences between blocks"},
          {etp > 1, fmt::format("etp = {}, parts of experts,", etp),
           "etp: 1; ep divides experts, and the default of etp is tp"},
          {spec.zero > 1, fmt::format("zero = {}", spec.zero), "zero 0 or 1"},
          {is_v(spec.pipeline) || spec.pipeline == PipelineKind::dualpipe,
           fmt::format("pipeline: {}", name_of(spec.pipeline)),
           "1f1b, zb1p, or one of the combined schedules"},
          {spec.collective != ReplicaCollective::ring, "collectives of replicas but rings",
           "collective: ring"},
          {!(spec.recompute == Recompute()), "recomputation", "leave recompute out"},
          {!spec.offload.empty(), "copies to the memory of hosts", "leave offload out"},
          {spec.stash.has_value(), "a paged stash of activations", "leave paged_stash out"},
          {spec.optimizer != OptimizerKind::adam, "any optimizer but Adam", "optimizer: adam"},
          {spec.routing != std::vector{RoutingSource::recorded}, "balanced routing",
           "routing: recorded"}};
}

std::vector<ExecutionRule> rules_of_tensor_group(const IterationSpec& spec, const MoeModel& model) {
  const int tp = spec.parallel.tp;
  std::vector<ExecutionRule> rules;
  for (const auto& [what, size] :
       divided_sizes(model, std::int64_t{spec.micro_batch} * spec.sequence)) {
    rules.push_back({size % tp != 0, fmt::format("{} {} over tp = {}", size, what, tp),
                     "a multiple of tp, or another tp"});
  }
  return rules;
}

std::vector<ExecutionRule> rules_of_attention(const AttentionShape& shape) {
  return {{shape.kind != AttentionKind::gqa, "attention but of grouped queries", ""},
          {shape.window > 0, "attention windows", ""},
          {shape.linear.has_value(), "linear attention", ""},
          {shape.bias || shape.output_bias, "biases of attention", ""},
          {shape.output_gate, "gated attention", ""},
          {shape.sinks, "attention sinks", ""},
          {shape.yarn, "YaRN's scale of queries and keys", ""}};
}

std::vector<ExecutionRule> rules_of_model(const MoeModel& model) {
  const char* as_recorded = "dense heads of grouped queries; --set model.PATH=VALUE changes it";
  std::vector<ExecutionRule> rules = {
      {model.activations != DataType::fp32 || model.weights != DataType::fp32,
       fmt::format("{} activations and {} weights", name_of(model.activations),
                   name_of(model.weights)),
       "--set model.activations=fp32 --set model.weights=fp32"},
      {!model.pattern.empty(), "layers of a pattern", as_recorded},
      {model.residual_streams > 1, "several residual streams", "--set model.residual_streams=1"},
      {model.latent > 0, "routed experts in a latent", "--set model.latent=..."},
      {model.mtp > 0, "multi-token prediction", "--set model.mtp=0"},
      {model.tied_embeddings, "a head that shares the embedding's weights",
       "--set model.tied_embeddings=false"},
      {model.shared_gate, "a gate of the shared experts", as_recorded},
      {model.hash_layers > 0, "layers routed by token ids", "--set model.hash_layers=0"},
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

/// Whether replicas gather updated weights: behind the update, or before anything else. Policies
/// that gather copies of experts also sum their gradients.
bool gathers_shards(const Plan& plan, const Op& op) {
  return op.key.kind == OpKind::parameter_exchange && op.key.stage == Stage::gather &&
         std::ranges::all_of(op.after,
                             [&](OpId id) { return plan[id].key.kind == OpKind::optimizer; });
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
    if (gathers_shards(plan, op)) continue;
    throw Unsuitable(fmt::format(
        "hardware cannot execute iterations whose experts' parameters travel yet: '{}' of layer {}",
        op.label.text(), op.key.layer));
  }
}

}  // namespace

void check_can_execute(const Scenario& scenario, const MoeModel& model) {
  check_rules({{scenario.serves(), "passes of a serving engine",
                "'batch' in place of 'serving' makes it an iteration"},
               {model.experts == 0, "dense models", "take a model with experts, such as olmoe"}});
  const std::string missing = model.missing_of_whole();
  check_rules({{!missing.empty(),
                fmt::format("iterations of {}, whose file describes no whole model: it lacks {},",
                            model.name, missing),
                "take a whole model, such as olmoe"}});
  check_rules(rules_of_spec(*scenario.iteration));
  check_rules(rules_of_model(model));
  check_rules(rules_of_tensor_group(*scenario.iteration, model));
  check_rules(
      {{scenario.gradient_bytes != 4, fmt::format("gradients of {} bytes", scenario.gradient_bytes),
        "gradient_bytes: 4"}});
}

void check_can_execute(const PlannedStep& step, const MoeModel& model) {
  // Narrower rows are rounded, and what follows them in later layers, too.
  refuse_exchanges(step.plan, std::int64_t{4} * model.hidden);
}

void check_can_execute(const Plan& plan) {
  for (const Op& op : plan.ops) {
    const Kernels* kernels = op.kernels();
    if (kernels == nullptr) continue;
    const auto* gemm = std::get_if<GroupedGemm>(&kernels->each().front());
    if (gemm == nullptr || !gemm->wave) continue;
    throw Unsuitable(
        fmt::format("hardware cannot execute fused kernels and whole tiles yet; moesim simulates "
                    "them: '{}' of layer {}",
                    op.label.text(), op.key.layer),
        "a policy without schedule.tile and chunks of tiles");
  }
}

void check_can_execute(const LayerDecision& decision) {
  if (!decision.shared_routed) return;
  throw Unsuitable(
      "hardware cannot execute shared experts on ranks that are chosen yet; moesim simulates them",
      "a placement other than waterfill");
}

void check_can_execute(const std::vector<ServedLayer>& layers) {
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

}  // namespace moesim
