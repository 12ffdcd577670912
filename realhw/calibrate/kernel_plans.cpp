// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/kernel_plans.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "sim/base/data_files.h"
#include "sim/base/figures.h"
#include "sim/plan/exchange_time.h"
#include "sim/planner/iteration/planner.h"
#include "sim/scenario/proof.h"
#include "sim/trace/batches.h"
#include "sim/trace/memory_step.h"

namespace moesim {
namespace {

/// One step in which token t of a rank goes to the rank's expert t % experts.
RoutingTrace local_trace(int ranks, int experts, std::int64_t rows) {
  TraceInfo info;
  info.experts = ranks * experts;
  info.top_k = 1;
  info.layers = {0};
  const std::int64_t tokens = rows * experts;
  StepArrays arrays;
  arrays.ids = IdArray(info.experts, ranks * tokens);
  for (int rank = 0; rank < ranks; ++rank) {
    arrays.sequence_lengths.push_back(static_cast<std::int32_t>(tokens));
    for (std::int64_t t = 0; t < tokens; ++t) {
      arrays.ids.set(rank * tokens + t, rank * experts + static_cast<int>(t % experts));
    }
  }
  std::vector<std::shared_ptr<const TraceStep>> steps = {make_step(info, std::move(arrays))};
  return RoutingTrace(std::move(info), std::move(steps));
}

MicroPlan step_plan(const Topology& topology, MoeModel model, int experts, std::int64_t rows) {
  const int ranks = topology.gpu_count();
  const RoutingTrace trace = local_trace(ranks, experts, rows);
  model.experts = ranks * experts;
  const Batches batches = make_batches(trace, {.ranks = ranks, .tokens_per_rank = rows * experts});
  PlannerOptions options;
  options.ep = ranks;
  options.layers = {0};
  options.explicit_rows = true;
  options.attention = false;
  Planner planner(read_system(data_file("models/system", "megatron")), topology, model, trace,
                  options);
  const PlannedStep planned = planner.plan(batches.batches[0], 0);
  MicroPlan micro{
      fmt::format("step of {} experts with {}", experts, counted(rows, "row")), planned.plan, {}};
  for (const LayerRouting& layer : routing_of(planned)) {
    micro.layers.emplace_back(layer);
  }
  return micro;
}

/// A kernel on every GPU of the plan.
OpId add_kernel(Plan& plan, Probe probe, Kernel kernel, OpId after) {
  return plan.add({fmt::format("kernel {}", name_of(probe)),
                   key_of(probe),
                   Stream::compute,
                   Group::first(plan.gpus),
                   {after},
                   Kernels(std::move(kernel))});
}

MicroPlan memory_plan(const Topology& topology, Bytes most) {
  MicroPlan micro{"memory-bound kernels", {}, {}};
  micro.plan.name = micro.name;
  micro.plan.gpus = topology.gpu_count();
  std::vector<OpId> before;
  for (std::int64_t bytes = 4096; bytes <= most.value; bytes *= 4) {
    const OpId settled = add_settle(micro.plan, before);
    const MemoryBound kernel{Bytes(bytes / 2), Bytes(bytes / 2)};
    before = {add_kernel(micro.plan, Probe::sized, kernel, settled)};
  }
  return micro;
}

/// Everybody sends as much to everybody as takes so long.
ByteMatrix alltoall_of(const Topology& topology, Seconds longest) {
  const auto matrix = [&](std::int64_t bytes) {
    ByteMatrix traffic{Bytes(bytes)};
    const auto gpus = static_cast<std::size_t>(topology.gpu_count());
    for (std::size_t from = 0; from < gpus; ++from) {
      std::vector<std::uint32_t> row(gpus, 1);
      row[from] = 0;
      traffic.add_dense_row(row);
    }
    return traffic;
  };
  constexpr std::int64_t probe = 1 << 20;
  const Seconds time = price(topology, matrix(probe))->alone.transfer;
  const double bytes = longest / time * static_cast<double>(probe);
  return matrix(static_cast<std::int64_t>(std::clamp(bytes, 1024.0, 64.0 * probe)));
}

}  // namespace

std::vector<MicroPlan> kernel_plans(const Topology& topology, const MoeModel& model,
                                    const KernelSizes& sizes) {
  std::vector<MicroPlan> plans;
  for (const int experts : std::set{1, std::max(1, model.experts / topology.gpu_count())}) {
    for (double rows = 1; rows * experts <= static_cast<double>(sizes.rows);
         rows *= rows < 4 ? 4 : sizes.step) {
      plans.push_back(step_plan(topology, model, experts, static_cast<std::int64_t>(rows)));
    }
  }
  plans.push_back(memory_plan(topology, sizes.most));
  return plans;
}

MicroPlan overlap_plan(const Topology& topology, const MoeModel& model, const KernelSizes& sizes) {
  constexpr int kernels = 32, exchanges = 6;
  MicroPlan micro{"kernels beside exchanges", {}, {}};
  Plan& plan = micro.plan;
  plan.name = micro.name;
  plan.gpus = topology.gpu_count();
  const int experts = std::max(1, model.experts / plan.gpus);
  const std::vector<std::int64_t> m(static_cast<std::size_t>(experts),
                                    std::max<std::int64_t>(1, sizes.rows / 8 / experts));
  const GroupedGemm gemm{m, std::int64_t{model.expert_ffn} * (model.expert_matrices - 1),
                         model.hidden, model.weights};
  const ByteMatrix traffic = alltoall_of(topology, sizes.exchange);
  const auto add_kernels = [&](Probe probe, OpId after) {
    OpId last;
    for (int i = 0; i < kernels; ++i) last = add_kernel(plan, probe, gemm, after);
    return last;
  };
  const auto add_exchanges = [&](Probe probe) {
    for (int i = 0; i < exchanges; ++i) add_exchange(plan, probe, Stream::ep, traffic);
  };
  const OpId alone = add_kernels(Probe::alone, add_settle(plan));
  add_settle(plan, {alone});
  add_exchanges(Probe::alone);
  const OpId both = add_settle(plan);
  add_kernels(Probe::beside, both);
  add_exchanges(Probe::beside);
  return micro;
}

}  // namespace moesim
