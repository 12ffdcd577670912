// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/layer_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace moesim {
namespace {

constexpr OpId none(-1);

/// The traffic of one communicator in one phase; transposed for the way back.
ByteMatrix traffic_of(const LayerWork& work, int phase, int first_gpu, int gpus, Bytes row_bytes) {
  ByteMatrix result(row_bytes);
  const auto n = static_cast<std::size_t>(gpus);
  const auto& rows = work.counts.phases[static_cast<std::size_t>(phase)];
  for (int from = 0; from < gpus; ++from) {
    const bool member = from >= first_gpu && from < first_gpu + work.group;
    const auto* row = rows.data() + static_cast<std::size_t>(from) * n;
    result.add_dense_row({row, member ? n : 0});
  }
  return result;
}

std::vector<RowMove> rows_of(const LayerWork& work, int phase, int first_gpu, bool mirrored) {
  std::vector<RowMove> result;
  if (work.rows.empty()) return result;
  for (RowMove row : work.rows[static_cast<std::size_t>(phase)]) {
    if (row.from.value < first_gpu || row.from.value >= first_gpu + work.group) continue;
    if (mirrored) std::swap(row.from, row.to);
    result.push_back(row);
  }
  return result;
}

/// Rows that leave a GPU in a phase, local copies included.
std::int64_t rows_from(const RowCounts& counts, std::size_t phase, GpuId gpu, int gpus) {
  const auto row = counts.phases[phase].begin() + static_cast<std::int64_t>(gpu.index()) * gpus;
  return std::accumulate(row, row + gpus, std::int64_t{0});
}

/// Rows that reach a GPU in a phase, local copies included.
std::int64_t rows_to(const RowCounts& counts, std::size_t phase, GpuId gpu, int gpus) {
  const auto n = static_cast<std::size_t>(gpus);
  std::int64_t rows = 0;
  for (std::size_t from = 0; from < n; ++from) {
    rows += counts.phases[phase][from * n + gpu.index()];
  }
  return rows;
}

}  // namespace

struct LayerOps::Step {
  const LayerWork& work;
  Pass pass;
  std::string suffix() const { return pass == Pass::backward ? "-grad" : ""; }
};

LayerOps::LayerOps(Plan& plan, const MoeModel& model, const Dispatch& dispatch,
                   const std::vector<LayerWork>& layers)
    : plan_(plan),
      model_(model),
      dispatch_(dispatch),
      layers_(layers),
      last_compute_(static_cast<std::size_t>(plan.gpus), none),
      last_exchange_(static_cast<std::size_t>(plan.gpus), none) {}

void LayerOps::forward(int layer) {
  const Step s{layers_[static_cast<std::size_t>(layer)], Pass::forward};
  before_dispatch(s);
  add_exchanges(s, Stage::dispatch);
  experts_forward(s);
  add_exchanges(s, Stage::combine);
  after_combine(s);
}

void LayerOps::backward(int layer) {
  const Step s{layers_[static_cast<std::size_t>(layer)], Pass::backward};
  before_dispatch(s);
  add_exchanges(s, Stage::dispatch);
  experts_backward(s);
  add_exchanges(s, Stage::combine);
  after_combine(s);
}

void LayerOps::before_dispatch(const Step& s) {
  const std::int64_t shared = std::int64_t{1} * model_.shared_experts * model_.shared_ffn;
  for (int g = 0; g < plan_.gpus; ++g) {
    const GpuId gpu(g);
    const std::int64_t tokens = s.work.tokens_per_rank[gpu.index()];
    if (s.pass == Pass::forward) {
      add_compute(s, gpu, "gate", Stage::other,
                  GroupedGemm{{tokens}, model_.experts, model_.hidden, model_.activations});
      if (shared > 0) {
        const std::int64_t up = shared * (model_.expert_matrices - 1);
        add_compute(s, gpu, "shared-fc1", Stage::other,
                    GroupedGemm{{tokens}, up, model_.hidden, model_.weights});
        add_compute(s, gpu, "shared-fc2", Stage::other,
                    GroupedGemm{{tokens}, model_.hidden, shared, model_.weights});
      }
    }
    const std::int64_t copies = rows_from(s.work.counts, 0, gpu, plan_.gpus);
    add_memory(s, gpu, s.pass == Pass::forward ? "permute" : "unpermute-grad", Stage::dispatch,
               copies, copies, model_.hidden);
  }
}

LayerOps::ExpertWork LayerOps::expert_work(const Step& s, GpuId gpu) const {
  const Placement& placement = s.work.assignment.placement();
  const auto first = s.work.counts.slots.begin() + placement.first_slot(gpu).value;
  ExpertWork work;
  work.m.assign(first, first + placement.slots_on(gpu));
  work.rows = std::accumulate(work.m.begin(), work.m.end(), std::int64_t{0});
  work.arrived = rows_to(s.work.counts, s.work.counts.phases.size() - 1, gpu, plan_.gpus);
  return work;
}

void LayerOps::experts_forward(const Step& s) {
  const std::int64_t ffn = model_.expert_ffn;
  const std::int64_t up = ffn * (model_.expert_matrices - 1);
  for (int g = 0; g < plan_.gpus; ++g) {
    const GpuId gpu(g);
    const auto [m, rows, arrived] = expert_work(s, gpu);
    add_memory(s, gpu, "sort", Stage::dispatch, arrived, rows, model_.hidden);
    add_compute(s, gpu, "fc1", Stage::experts, GroupedGemm{m, up, model_.hidden, model_.weights});
    add_memory(s, gpu, "activation", Stage::experts, rows * (model_.expert_matrices - 1), rows,
               ffn);
    add_compute(s, gpu, "fc2", Stage::experts, GroupedGemm{m, model_.hidden, ffn, model_.weights});
    add_memory(s, gpu, "reduce", Stage::combine, rows, arrived, model_.hidden);
  }
}

void LayerOps::experts_backward(const Step& s) {
  const std::int64_t ffn = model_.expert_ffn;
  const std::int64_t up = ffn * (model_.expert_matrices - 1);
  for (int g = 0; g < plan_.gpus; ++g) {
    const GpuId gpu(g);
    const auto [m, rows, arrived] = expert_work(s, gpu);
    const GroupedGemm fc2{m, ffn, model_.hidden, model_.weights};
    const GroupedGemm fc1{m, model_.hidden, up, model_.weights};
    add_memory(s, gpu, "reduce-grad", Stage::dispatch, arrived, rows, model_.hidden);
    add_compute(s, gpu, "fc2-dgrad", Stage::experts, fc2);
    add_compute(s, gpu, "fc2-wgrad", Stage::experts, fc2);
    add_memory(s, gpu, "activation-grad", Stage::experts, rows * model_.expert_matrices,
               rows * (model_.expert_matrices - 1), ffn);
    add_compute(s, gpu, "fc1-dgrad", Stage::experts, fc1);
    add_compute(s, gpu, "fc1-wgrad", Stage::experts, fc1);
    add_memory(s, gpu, "sort-grad", Stage::combine, rows, arrived, model_.hidden);
  }
}

void LayerOps::after_combine(const Step& s) {
  const std::int64_t shared = std::int64_t{1} * model_.shared_experts * model_.shared_ffn;
  for (int g = 0; g < plan_.gpus; ++g) {
    const GpuId gpu(g);
    const std::int64_t tokens = s.work.tokens_per_rank[gpu.index()];
    const std::int64_t copies = rows_from(s.work.counts, 0, gpu, plan_.gpus);
    add_memory(s, gpu, s.pass == Pass::forward ? "unpermute" : "permute-grad", Stage::combine,
               copies, tokens, model_.hidden);
    if (s.pass == Pass::forward) continue;
    if (shared > 0) {
      const std::int64_t up = shared * (model_.expert_matrices - 1);
      for (const char* kind : {"dgrad", "wgrad"}) {
        add_compute(s, gpu, fmt::format("shared-fc2-{}", kind), Stage::other,
                    GroupedGemm{{tokens}, shared, model_.hidden, model_.weights});
        add_compute(s, gpu, fmt::format("shared-fc1-{}", kind), Stage::other,
                    GroupedGemm{{tokens}, model_.hidden, up, model_.weights});
      }
    }
    for (const char* name : {"gate-dgrad", "gate-wgrad"}) {
      add_compute(s, gpu, name, Stage::other,
                  GroupedGemm{{tokens}, model_.hidden, model_.experts, model_.activations});
    }
  }
}

void LayerOps::add_memory(const Step& s, GpuId gpu, const std::string& name, Stage stage,
                          std::int64_t read_rows, std::int64_t written_rows,
                          std::int64_t row_elements) {
  const std::int64_t row = row_elements * size_of(model_.activations);
  add_compute(s, gpu, name, stage, MemoryBound{Bytes(read_rows * row), Bytes(written_rows * row)});
}

void LayerOps::add_compute(const Step& s, GpuId gpu, const std::string& name, Stage stage,
                           Kernel kernel) {
  if (memory_traffic_of(kernel).value == 0) return;
  Op op{name, Lane::compute, s.work.number, s.pass, stage, {}, Compute{gpu, std::move(kernel)}};
  OpId& exchange = last_exchange_[gpu.index()];
  if (exchange != none) op.after.push_back(exchange);
  exchange = none;
  last_compute_[gpu.index()] = plan_.add(std::move(op));
}

void LayerOps::add_exchanges(const Step& s, Stage stage) {
  const int phases = dispatch_.phases();
  for (int i = 0; i < phases; ++i) {
    const int phase = stage == Stage::combine ? phases - 1 - i : i;
    for (int first = 0; first < plan_.gpus; first += s.work.group) {
      add_exchange(s, stage, phase, first);
    }
  }
}

void LayerOps::add_exchange(const Step& s, Stage stage, int phase, int first_gpu) {
  const bool mirrored = stage == Stage::combine;
  Exchange exchange{{}, traffic_of(s.work, phase, first_gpu, plan_.gpus, model_.row_bytes()), {}};
  if (mirrored) exchange.traffic = exchange.traffic.transposed();
  exchange.rows = rows_of(s.work, phase, first_gpu, mirrored);
  const std::string name =
      fmt::format("{}-{}{}", name_of(stage), dispatch_.phase_name(phase), s.suffix());
  Op op{name, Lane::token, s.work.number, s.pass, stage, {}, {}};
  std::int64_t tokens = 0;
  for (int g = first_gpu; g < first_gpu + s.work.group; ++g) {
    const auto index = static_cast<std::size_t>(g);
    tokens += s.work.tokens_per_rank[index];
    exchange.participants.emplace_back(g);
    if (last_compute_[index] != none) op.after.push_back(last_compute_[index]);
    last_compute_[index] = none;
  }
  if (tokens > 0 && exchange.traffic.entries() == 0) {
    throw std::logic_error(
        fmt::format("{} of layer {} moves nothing although its ranks hold {} "
                    "tokens",
                    name, s.work.number, tokens));
  }
  op.work = std::move(exchange);
  const OpId id = plan_.add(std::move(op));
  for (int g = first_gpu; g < first_gpu + s.work.group; ++g) {
    last_exchange_[static_cast<std::size_t>(g)] = id;
  }
}

}  // namespace moesim
