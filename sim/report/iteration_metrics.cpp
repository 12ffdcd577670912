// SPDX-License-Identifier: Apache-2.0
#include "sim/report/iteration_metrics.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/base/ragged.h"
#include "sim/plan/waits.h"
#include "sim/report/gpu_work.h"
#include "sim/report/intervals.h"
#include "sim/report/islands.h"

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
    case Stream::to_host:
    case Stream::from_host:
      return IterationPart::offload;
    default:
      return carries_tokens(op.stream) ? IterationPart::tokens : IterationPart::bubble;
  }
}

/// What runs next to the kernels of the compute stream: exchanges, then copies to a stash.
constexpr std::array parts_next_to_kernels = {IterationPart::tokens,    IterationPart::tensor,
                                              IterationPart::context,   IterationPart::weights,
                                              IterationPart::gradients, IterationPart::moe_other};

/// [GPU] What waits for nobody is held until it starts: ops follow each other but for their hosts.
struct Held {
  GpuIntervals all;
  GpuIntervals ended;  // those that end in the window of what is continued
};

Held held_by_hosts(const Plan& plan, const Timeline& timeline, const Continued* continued) {
  Ragged<Seconds> ready;
  for (const Op& op : plan.ops) ready.add_row(op.group.size());
  for_each_wait(plan, [&](OpId earlier, std::size_t its_member, OpId op, std::size_t member) {
    Seconds& at = ready[op.index()][member];
    at = std::max(at, timeline.ops[earlier.index()][its_member].end);
  });
  const auto gpus = static_cast<std::size_t>(plan.gpus);
  Held held{GpuIntervals(gpus), GpuIntervals(gpus)};
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    for (std::size_t m = 0; m < ready[i].size(); ++m) {
      const Interval wait{ready[i][m], timeline.ops[i][m].start};
      if (!(wait.start < wait.end)) continue;
      const std::size_t gpu = plan.ops[i].group[m].index();
      add_interval(held.all[gpu], wait);
      if (continued == nullptr) continue;
      const auto& [start, end] = continued->window;
      if (start < wait.end && wait.end <= end) held.ended[gpu].push_back(wait);
    }
  }
  return held;
}

/// When ops were held within a period, if what ends in it has begun periods before: it does so in
/// every period.
std::vector<Interval> held_in_each(const std::vector<Interval>& ended, const Interval& window) {
  std::vector<Interval> held;
  const Seconds period = window.end - window.start;
  for (const auto& [start, end] : ended) {
    for (Interval later{start, end}; later.start < window.end;
         later = {later.start + period, later.end + period}) {
      const Interval part = within(later, window);
      if (part.start < part.end) held.push_back(part);
    }
  }
  return held;
}

/// Of a stretch of time, which all of the intervals lie in.
IterationTimes times_of(GpuWork gpu, std::vector<Interval> held, const Interval& window) {
  IterationTimes times;
  times.iteration = window.end - window.start;
  times.parts = gpu.kernels;
  std::vector<Interval> told = united(std::move(gpu.busy));
  const std::vector<Interval> busy = told;
  times.slowest_compute = length(busy);
  const auto tell = [&](IterationPart part, const std::vector<Interval>& when) {
    if (when.empty()) return;
    times.parts[part_index(part)] += outside(when, told);
    told = union_of(told, when);
  };
  for (const IterationPart part : parts_next_to_kernels) {
    auto& moving = gpu.moving[part_index(part)];
    if (!moving.empty()) tell(part, united(std::move(moving)));
  }
  // A GPU that has joined an exchange waits for others, whatever its host could launch meanwhile:
  // that comes later on the same streams.
  const auto joined = united(std::move(gpu.joined));
  times.overlapped = inside(joined, busy);
  tell(IterationPart::waiting, joined);
  // What comes back while others are waited for holds up nobody.
  tell(IterationPart::offload, united(std::move(gpu.moving[part_index(IterationPart::offload)])));
  tell(IterationPart::host, united(std::move(held)));
  const Seconds bubble = outside({window}, told);
  times.parts[part_index(IterationPart::bubble)] += bubble;
  times.busiest = times.iteration - bubble;
  return times;
}

}  // namespace

IterationPart part_of(const Op& op) {
  return op.exchange() != nullptr ? part_of_exchange(op) : part_of_kernel(op.key.kind);
}

const char* name_of(IterationPart part) {
  static constexpr std::array<const char*, iteration_part_count> names = {
      "attention", "experts", "moe other", "dense",   "optimizer", "tokens",  "tensor",
      "context",   "weights", "gradients", "offload", "host",      "waiting", "bubble"};
  return names.at(part_index(part));
}

void IterationTimes::add(const IterationTimes& other, int times) {
  iteration += other.iteration * times;
  for (std::size_t p = 0; p < parts.size(); ++p) parts[p] += other.parts[p] * times;
  slowest_compute += other.slowest_compute * times;
  overlapped += other.overlapped * times;
  busiest += other.busiest * times;
}

bool hosts_take_time(const GpuModels& gpus) {
  return std::ranges::any_of(gpus, [](const auto& gpu) { return gpu->host.takes_time(); });
}

std::vector<IterationTimes> iteration_times_by_gpu(const Plan& plan, const Timeline& timeline,
                                                   bool hosts, const Continued* continued) {
  const auto count = static_cast<std::size_t>(plan.gpus);
  std::vector<IterationTimes> times(count);
  Held held{GpuIntervals(count), GpuIntervals(count)};
  if (hosts) held = held_by_hosts(plan, timeline, continued);
  if (continued != nullptr) {
    for (auto& of_gpu : held.ended) of_gpu = held_in_each(of_gpu, continued->window);
  }
  const auto add = [&](const Island& island, const Interval& window, WorkOfGpus& work,
                       GpuIntervals& held_in_window, int more) {
    work.settle();
    for (const GpuId gpu : island.gpus) {
      times[gpu.index()].add(
          times_of(work.take(gpu), std::move(held_in_window[gpu.index()]), window), more);
    }
  };
  const auto counts = [](const Op& op) { return part_of(op) != IterationPart::bubble; };
  const Interval whole{Seconds(0), timeline.makespan};
  WorkOfGpus work(count, whole);
  std::optional<WorkOfGpus> in_window;
  if (continued != nullptr) in_window.emplace(count, continued->window);
  std::vector<Interval> of_op;
  for (const Island& island : islands(plan, counts)) {
    for (const std::uint32_t op : island.ops) {
      read_times(timeline.ops[op], of_op);
      work.add(plan.ops[op], of_op);
      if (!in_window) continue;
      const Interval inside = within(span_of(of_op), continued->window);
      if (inside.start < inside.end) in_window->add(plan.ops[op], of_op);
    }
    add(island, whole, work, held.all, 1);
    if (in_window) add(island, continued->window, *in_window, held.ended, continued->times);
  }
  const bool pipeline =
      std::ranges::any_of(plan.ops, [](const Op& op) { return is_between_stages(op.stream); });
  for (IterationTimes& of_gpu : times) {  // without another stage a GPU waits for slower ones
    if (!pipeline) of_gpu.move(IterationPart::bubble, IterationPart::waiting);
  }
  return times;
}

IterationTimes iteration_times(const Plan& plan, const Timeline& timeline, bool hosts,
                               const std::vector<GpuId>& only, const Continued* continued) {
  IterationTimes sum;
  sum.iteration = timeline.makespan;
  if (continued != nullptr) sum.iteration += continued->left_out();
  const auto all = iteration_times_by_gpu(plan, timeline, hosts, continued);
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

ActivatedExperts activated_experts(const Plan& plan) {
  ActivatedExperts sum;
  for (const Op& op : plan.ops) {
    if (op.key.type() != OpType{OpKind::fc1}) continue;
    std::int64_t all = 0, most = 0;
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      const auto* gemm = std::get_if<GroupedGemm>(&op.kernels()->of(m));
      if (gemm == nullptr) continue;
      const auto with_rows = std::ranges::count_if(gemm->wave ? gemm->wave->rows : gemm->m,
                                                   [](std::int64_t rows) { return rows > 0; });
      all += with_rows;
      most = std::max<std::int64_t>(most, with_rows);
    }
    if (all == 0) continue;
    sum.add({static_cast<double>(all) / static_cast<double>(op.group.size()),
             static_cast<double>(most)});
  }
  return {sum.mean, sum.most};
}

double expert_load_max_over_mean(const Plan& plan, const Continued* continued) {
  double sum = 0;
  int count = 0;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
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
    const int times = continued != nullptr ? continued->count(i) : 1;
    sum += times * static_cast<double>(most) * static_cast<double>(op.group.size()) /
           static_cast<double>(all);
    count += times;
  }
  return count > 0 ? sum / count : 0;
}

}  // namespace moesim
