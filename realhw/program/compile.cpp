// SPDX-License-Identifier: Apache-2.0
#include "realhw/program/compile.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <map>
#include <stdexcept>

#include "realhw/program/exchange_program.h"
#include "realhw/program/iteration_program.h"
#include "realhw/program/op_text.h"
#include "sim/base/ordering.h"
#include "sim/plan/check.h"

namespace moesim {
namespace {

/// The ops of a rank, and what they wait for.
std::vector<RankStep> steps_of(const Plan& plan, GpuId rank) {
  std::vector<RankStep> steps;
  for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
    const Op& op = plan[id];
    if (!op.group.contains(rank)) continue;
    RankStep& step = steps.emplace_back(RankStep{id, op.stream, {}, {}, {}, {}, {}, {}});
    for (const OpId after : op.after) {
      if (plan[after].stream != op.stream && plan[after].group.contains(rank))
        step.waits.push_back(after);
    }
    sort_once(step.waits);
  }
  return steps;
}

/// Whether the rank has tokens or experts of a layer: in an iteration those of its stage have.
bool concerns(const RoutedLayer& layer, GpuId rank) {
  return layer.placement.slots_on(rank) > 0 || std::ranges::count(layer.source, rank) > 0;
}

void add_scratch(const Kernel& kernel, RankStep& step) {
  if (const auto* host = std::get_if<HostWork>(&kernel)) {
    step.before.emplace_back(*host);
  } else if (const auto* attention = std::get_if<FusedAttention>(&kernel)) {
    step.before.emplace_back(Scratch{gemm_of_equal_flops(*attention)});
  } else {
    step.before.emplace_back(Scratch{kernel});
  }
}

}  // namespace

RankProgram compile(const RealStep& step, GpuId rank, const CompileOptions& options) {
  RankProgram program;
  program.rank = rank;
  program.matrices = options.matrices;
  program.steps = steps_of(step.plan, rank);
  const Ancestors ancestors(program);
  Draft draft{step, program, ancestors};
  std::deque<LayerProgram> layers;                         // they do not move
  std::map<std::pair<int, int>, LayerProgram*> by_number;  // microbatch, layer
  for (const RoutedLayer& layer : step.layers) {
    if (step.iteration && !concerns(layer, rank)) continue;
    by_number[{layer.microbatch, layer.number}] = &layers.emplace_back(draft, layer);
  }
  const auto layer_at = [&](int microbatch, int number) {
    const auto found = by_number.find({microbatch, number});
    return found == by_number.end() ? nullptr : found->second;
  };
  const auto layer_of = [&](const Op& op) { return layer_at(op.key.microbatch, op.key.layer); };
  std::optional<IterationProgram> iteration;
  if (step.iteration) iteration.emplace(draft, layer_at);
  ExchangePrograms exchanges(draft, layer_of);
  for (const std::size_t i : ancestors.order()) {
    RankStep& rank_step = program.steps[i];
    const Op& op = draft.op(rank_step);
    try {
      if (iteration && iteration->add(rank_step)) continue;
      if (op.kernels() == nullptr) {
        exchanges.add(rank_step);
      } else if (LayerProgram* layer = layer_of(op);
                 layer == nullptr || !layer->add_kernel(rank_step)) {
        add_scratch(draft.kernel(rank_step), rank_step);
      }
    } catch (const std::runtime_error& e) {
      throw op_error(step.plan, rank, rank_step.op, e.what());
    }
  }
  if (iteration) {
    iteration->check_waits();
    return program;
  }
  for (LayerProgram& layer : layers) program.layers.push_back(layer.results());
  return program;
}

}  // namespace moesim
