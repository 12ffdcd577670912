// SPDX-License-Identifier: Apache-2.0
#include "sim/report/pictures.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "sim/report/sums.h"

namespace moesim {
namespace {

constexpr int most_blocks = 64;  // rows of a traffic matrix

TrafficKind kind_of_traffic(const Op& op) {
  switch (op.stream) {
    case Stream::tp:
    case Stream::cp:
      return TrafficKind::activations;
    case Stream::dp:
    case Stream::param:
      return TrafficKind::parameters;
    default:
      return carries_tokens(op.stream) ? TrafficKind::tokens : TrafficKind::stages;
  }
}

void add_rows(const Op& op, RowsOfGpus& rows) {
  for (std::size_t m = 0; m < op.group.size(); ++m) {
    const auto* gemm = std::get_if<GroupedGemm>(&op.kernels()->of(m));
    if (gemm == nullptr) continue;
    rows[op.group[m]] += std::accumulate(gemm->m.begin(), gemm->m.end(), std::int64_t{0});
  }
}

/// Those of all GPUs, from those of some that stand for others.
RowsOfGpus with_others(RowsOfGpus rows, const std::vector<GpuId>& by) {
  RowsOfGpus all;
  for (std::size_t g = 0; g < by.size(); ++g) {
    const auto own = rows.find(by[g]);
    if (own != rows.end()) all[GpuId(static_cast<std::int64_t>(g))] = own->second;
  }
  return by.empty() ? rows : all;
}

/// Exchanges that move the same bytes between the same GPUs, counted: microbatches repeat them.
using Repeated = std::tuple<TrafficKind, std::pair<const void*, Bytes>, bool, Group>;

}  // namespace

void Pictures::add(const PricedPlan& priced, const Timeline& timeline,
                   const std::vector<GpuId>& by) {
  const Plan& plan = priced.plan();
  gpus = plan.gpus;
  gpus_of_block = (gpus + most_blocks - 1) / most_blocks;
  link_bytes.resize(priced.topology().links().size());
  for (const Op& op : plan.ops) microbatches = std::max(microbatches, op.key.microbatch + 1);
  std::map<Repeated, std::pair<const Op*, std::int64_t>> repeated;
  for (std::size_t i = 0; i < plan.ops.size(); ++i) {
    const Op& op = plan.ops[i];
    if (op.key.type() == OpType{OpKind::fc1} && op.kernels() != nullptr) {
      RowsOfGpus own;
      add_rows(op, own);
      RowsOfGpus& all = rows[op.key.layer][steps * microbatches + op.key.microbatch];
      for (const auto& [gpu, count] : with_others(std::move(own), by)) all[gpu] += count;
    }
    const Exchange* exchange = op.exchange();
    if (exchange == nullptr) continue;
    auto& [first, times] = repeated[{kind_of_traffic(op), exchange->traffic.identity(),
                                     exchange->transposed, op.members()}];
    first = &op;
    ++times;
    for (const ExchangePrice& price : priced.prices_of(OpId(static_cast<std::int64_t>(i)))) {
      for (const LinkUse& use : price->loads.uses) {
        link_bytes[use.link.index()] += use.bytes.value;
      }
    }
  }
  for (const auto& [key, counted] : repeated) {
    auto& matrix = traffic[static_cast<std::size_t>(std::get<TrafficKind>(key))];
    const std::int64_t number = counted.second;
    counted.first->traffic().for_each([&](GpuId from, GpuId to, Bytes bytes) {
      if (from == to) return;
      const auto block = [&](GpuId gpu) { return static_cast<int>(gpu.value) / gpus_of_block; };
      matrix[{block(from), block(to)}] += bytes.value * number;
    });
  }
  time += timeline.makespan;
  if (steps++ == 0) gantts = gantts_of(plan, timeline);
}

}  // namespace moesim
