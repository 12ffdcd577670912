// SPDX-License-Identifier: Apache-2.0
#include "sim/report/iteration_metrics.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/plan/phases.h"
#include "sim/plan/waits.h"
#include "sim/report/intervals.h"
#include "sim/report/islands.h"
#include "sim/report/spans.h"

namespace moesim {
namespace {

constexpr auto part_index = [](IterationPart part) { return static_cast<std::size_t>(part); };

IterationPart part_of_kernel(OpKind kind) {
  switch (kind) {
    case OpKind::attention_projections:
    case OpKind::attention_scores:
    case OpKind::attention_output:
    case OpKind::mamba_projection:
    case OpKind::mamba_conv:
    case OpKind::mamba_scan:
    case OpKind::mamba_norm:
      return IterationPart::attention;
    case OpKind::fc1:
    case OpKind::activation:
    case OpKind::fc2:
      return IterationPart::experts;
    case OpKind::optimizer:
      return IterationPart::optimizer;
    case OpKind::embedding:
    case OpKind::norm:
    case OpKind::dense_fc1:
    case OpKind::dense_activation:
    case OpKind::dense_fc2:
    case OpKind::mtp_projection:
    case OpKind::head:
    case OpKind::loss:
      return IterationPart::dense;
    default:
      return IterationPart::moe_other;
  }
}

/// Transfers between stages are part of the bubble.
IterationPart part_of_exchange(const Op& op) {
  switch (op.stream) {
    case Stream::tp:
      return IterationPart::tensor;
    case Stream::cp:
      return IterationPart::context;
    case Stream::dp:
    case Stream::param:
      return op.key.stage == Stage::reduce ? IterationPart::gradients : IterationPart::weights;
    default:
      return carries_tokens(op.stream) ? IterationPart::tokens : IterationPart::bubble;
  }
}

constexpr std::array exchange_parts = {IterationPart::tokens, IterationPart::tensor,
                                       IterationPart::context, IterationPart::weights,
                                       IterationPart::gradients};

/// One GPU in the whole iteration.
struct GpuTimes {
  std::array<Seconds, iteration_part_count> kernels{};
  std::vector<Interval> busy;    // with kernels of the compute stream
  std::vector<Interval> joined;  // to exchanges within the stage
  std::vector<Interval> held;    // an op that could run was not issued
  std::array<std::vector<Interval>, iteration_part_count> moving;
};

void add_exchange(const Op& op, std::span<const Interval> intervals, std::vector<GpuTimes>& gpus) {
  const IterationPart part = part_of_exchange(op);
  if (part == IterationPart::bubble) return;
  const std::vector<Seconds> begins = moving_from(op, intervals);
  const Collectives* apart = op.apart();
  for (std::size_t m = 0; m < intervals.size(); ++m) {
    GpuTimes& gpu = gpus[op.group[m].index()];
    add_interval(gpu.joined, intervals[m]);
    const auto in = apart != nullptr ? static_cast<std::size_t>(apart->of[m].collective) : 0;
    const Seconds begin = begins[in];
    const Seconds end = intervals[m].end;
    if (begin < end) add_interval(gpu.moving[part_index(part)], {begin, end});
  }
}

void add_op(const Op& op, std::span<const Interval> intervals, std::vector<GpuTimes>& gpus) {
  if (op.exchange() != nullptr) return add_exchange(op, intervals, gpus);
  const bool moves = is_minimum_time(op);
  if (!moves && op.stream != Stream::compute) return;
  const bool of_host = std::holds_alternative<HostWork>(op.kernels()->each().front());
  const auto part = part_index(of_host ? IterationPart::host : part_of_kernel(op.key.kind));
  for (std::size_t m = 0; m < intervals.size(); ++m) {
    GpuTimes& gpu = gpus[op.group[m].index()];
    if (moves) {
      add_interval(gpu.joined, intervals[m]);
      add_interval(gpu.moving[part_index(IterationPart::tokens)], intervals[m]);
    } else {
      gpu.kernels[part] += intervals[m].end - intervals[m].start;
      add_interval(gpu.busy, intervals[m]);
    }
  }
}

/// [GPU] What waits for nobody is held until it starts: ops follow each other but for their hosts.
GpuIntervals held_by_hosts(const Plan& plan, const Timeline& timeline) {
  std::vector<std::vector<Seconds>> ready(plan.ops.size());
  for (std::size_t i = 0; i < plan.ops.size(); ++i) ready[i].resize(plan.ops[i].group.size());
  for_each_wait(plan, [&](OpId earlier, std::size_t its_member, OpId op, std::size_t member) {
    Seconds& at = ready[op.index()][member];
    at = std::max(at, timeline.ops[earlier.index()][its_member].end);
  });
  GpuIntervals held(static_cast<std::size_t>(plan.gpus));
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    for (std::size_t m = 0; m < ready[i].size(); ++m) {
      const Seconds start = timeline.ops[i][m].start;
      if (ready[i][m] < start) {
        add_interval(held[plan.ops[i].group[m].index()], {ready[i][m], start});
      }
    }
  }
  return held;
}

IterationTimes times_of(GpuTimes gpu, Seconds makespan) {
  IterationTimes times;
  times.iteration = makespan;
  times.parts = gpu.kernels;
  std::vector<Interval> told = united(std::move(gpu.busy));
  const std::vector<Interval> busy = told;
  times.slowest_compute = length(busy);
  const auto tell = [&](IterationPart part, const std::vector<Interval>& when) {
    times.parts[part_index(part)] += outside(when, told);
    told.insert(told.end(), when.begin(), when.end());
    told = united(std::move(told));
  };
  for (const IterationPart part : exchange_parts) {
    auto& moving = gpu.moving[part_index(part)];
    if (!moving.empty()) tell(part, united(std::move(moving)));
  }
  tell(IterationPart::host, united(std::move(gpu.held)));
  const auto joined = united(std::move(gpu.joined));
  times.overlapped = inside(joined, busy);
  tell(IterationPart::waiting, joined);
  const Seconds bubble = outside({{Seconds(0), makespan}}, told);
  times.parts[part_index(IterationPart::bubble)] += bubble;
  times.busiest = makespan - bubble;
  return times;
}

}  // namespace

IterationPart part_of(const Op& op) {
  return op.exchange() != nullptr ? part_of_exchange(op) : part_of_kernel(op.key.kind);
}

const char* name_of(IterationPart part) {
  static constexpr std::array<const char*, iteration_part_count> names = {
      "attention", "experts", "moe other", "dense", "optimizer", "tokens", "tensor",
      "context",   "weights", "gradients", "host",  "waiting",   "bubble"};
  return names.at(part_index(part));
}

bool hosts_take_time(const GpuModels& gpus) {
  return std::ranges::any_of(gpus, [](const auto& gpu) { return gpu->host.takes_time(); });
}

std::vector<IterationTimes> iteration_times_by_gpu(const Plan& plan, const Timeline& timeline,
                                                   bool hosts) {
  const auto count = static_cast<std::size_t>(plan.gpus);
  std::vector<IterationTimes> times(count);
  std::vector<GpuTimes> gpus(count);
  GpuIntervals held = hosts ? held_by_hosts(plan, timeline) : GpuIntervals(count);
  const auto counts = [](const Op& op) { return part_of(op) != IterationPart::bubble; };
  for (const Island& island : islands(plan, counts)) {
    for (const std::uint32_t op : island.ops) add_op(plan.ops[op], timeline.ops[op], gpus);
    for (const GpuId gpu : island.gpus) {
      GpuTimes own = std::exchange(gpus[gpu.index()], {});
      own.held = std::move(held[gpu.index()]);
      times[gpu.index()] = times_of(std::move(own), timeline.makespan);
    }
  }
  return times;
}

IterationTimes iteration_times(const Plan& plan, const Timeline& timeline, bool hosts,
                               const std::vector<GpuId>& only) {
  IterationTimes sum;
  sum.iteration = timeline.makespan;
  const auto all = iteration_times_by_gpu(plan, timeline, hosts);
  const std::size_t count = only.empty() ? all.size() : only.size();
  for (std::size_t i = 0; i < count; ++i) {
    const IterationTimes& gpu = all[only.empty() ? i : only[i].index()];
    for (std::size_t p = 0; p < sum.parts.size(); ++p) sum.parts[p] += gpu.parts[p];
    sum.slowest_compute = std::max(sum.slowest_compute, gpu.slowest_compute);
    sum.overlapped += gpu.overlapped;
    sum.busiest = std::max(sum.busiest, gpu.busiest);
  }
  const double mean = 1.0 / static_cast<double>(std::max<std::size_t>(1, count));
  for (Seconds& part : sum.parts) part = part * mean;
  sum.overlapped = sum.overlapped * mean;
  return sum;
}

double expert_load_max_over_mean(const Plan& plan) {
  double sum = 0;
  int count = 0;
  for (const Op& op : plan.ops) {
    if (op.key.type() != OpType{OpKind::fc1}) continue;
    std::int64_t all = 0, most = 0;
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      const auto* gemm = std::get_if<GroupedGemm>(&op.kernels()->of(m));
      if (gemm == nullptr) continue;
      const auto rows = std::accumulate(gemm->m.begin(), gemm->m.end(), std::int64_t{0});
      all += rows;
      most = std::max(most, rows);
    }
    if (all == 0) continue;
    sum +=
        static_cast<double>(most) * static_cast<double>(op.group.size()) / static_cast<double>(all);
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace moesim
