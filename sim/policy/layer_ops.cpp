// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/layer_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace moesim {
namespace {

constexpr OpId none(-1);

/// The traffic of one communicator in one phase.
ByteMatrix traffic_of(const RowCounts& counts, int phase, const std::vector<GpuId>& members,
                      Bytes row_bytes) {
  ByteMatrix result(row_bytes);
  const auto& rows = counts.phases[static_cast<std::size_t>(phase)];
  auto member = members.begin();
  for (int from = 0; from < counts.gpu_count; ++from) {
    const bool sends = member != members.end() && *member == GpuId(from);
    const auto* row = rows.data() + static_cast<std::size_t>(from) * counts.gpus();
    result.add_dense_row({row, sends ? counts.gpus() : 0});
    if (sends) ++member;
  }
  return result;
}

/// The explicit rows of every communicator of a phase, turned round for the way back.
std::vector<std::vector<RowMove>> rows_of(const LayerWork& work, int phase, bool mirrored) {
  const Communicators& communicators = work.dispatch->communicators(phase);
  std::vector<std::vector<RowMove>> result(communicators.size());
  if (work.rows.empty()) return result;
  std::vector<std::size_t> communicator_of(work.counts.gpus());
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    for (GpuId gpu : communicators[c]) communicator_of[gpu.index()] = c;
  }
  for (RowMove row : work.rows[static_cast<std::size_t>(phase)]) {
    auto& rows = result[communicator_of[row.from.index()]];
    if (mirrored) std::swap(row.from, row.to);
    rows.push_back(row);
  }
  return result;
}

}  // namespace

struct LayerOps::Step {
  const LayerWork& work;
  const std::vector<RowSums>& sums;  // [phase]
  Pass pass;
  std::string suffix() const { return pass == Pass::backward ? "-grad" : ""; }
};

LayerOps::LayerOps(Plan& plan, const MoeModel& model, const std::vector<LayerWork>& layers)
    : plan_(plan),
      model_(model),
      layers_(layers),
      last_compute_(static_cast<std::size_t>(plan.gpus), none),
      last_exchange_(static_cast<std::size_t>(plan.gpus), none) {
  for (const LayerWork& layer : layers) sums_.push_back(row_sums(layer.counts));
}

std::vector<LayerOps::RowSums> LayerOps::row_sums(const RowCounts& counts) {
  const std::size_t gpus = counts.gpus();
  std::vector<RowSums> sums;
  for (const auto& rows : counts.phases) {
    RowSums& phase = sums.emplace_back();
    phase.sent.resize(gpus);
    phase.arrived.resize(gpus);
    for (std::size_t from = 0; from < gpus; ++from) {
      for (std::size_t to = 0; to < gpus; ++to) {
        phase.sent[from] += rows[from * gpus + to];
        phase.arrived[to] += rows[from * gpus + to];
      }
    }
  }
  return sums;
}

void LayerOps::forward(int layer) {
  const auto index = static_cast<std::size_t>(layer);
  const Step s{layers_[index], sums_[index], Pass::forward};
  before_dispatch(s);
  add_exchanges(s, Stage::dispatch);
  experts_forward(s);
  add_exchanges(s, Stage::combine);
  after_combine(s);
}

void LayerOps::backward(int layer) {
  const auto index = static_cast<std::size_t>(layer);
  const Step s{layers_[index], sums_[index], Pass::backward};
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
    const std::int64_t copies = s.sums.front().sent[gpu.index()];
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
  work.arrived = s.sums.back().arrived[gpu.index()];
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
    const std::int64_t copies = s.sums.front().sent[gpu.index()];
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
  const int phases = s.work.dispatch->phases();
  for (int i = 0; i < phases; ++i) {
    const bool back = stage == Stage::combine;
    const int phase = back ? phases - 1 - i : i;
    if (i > 0) add_relays(s, stage, back ? phase + 1 : phase - 1, phase);
    add_phase(s, stage, phase);
  }
}

/// On the way out a relay copies each row to its next hops; on the way back it adds up the parts of
/// a row.
void LayerOps::add_relays(const Step& s, Stage stage, int arrived_phase, int sent_phase) {
  const bool back = stage == Stage::combine;
  const RowSums& arrived = s.sums[static_cast<std::size_t>(arrived_phase)];
  const RowSums& sent = s.sums[static_cast<std::size_t>(sent_phase)];
  for (int g = 0; g < plan_.gpus; ++g) {
    const GpuId gpu(g);
    const std::int64_t in = (back ? arrived.sent : arrived.arrived)[gpu.index()];
    const std::int64_t out = (back ? sent.arrived : sent.sent)[gpu.index()];
    add_memory(s, gpu, "relay" + s.suffix(), stage, in, out, model_.hidden);
  }
}

void LayerOps::add_phase(const Step& s, Stage stage, int phase) {
  const bool mirrored = stage == Stage::combine;
  const Communicators& communicators = s.work.dispatch->communicators(phase);
  auto rows = rows_of(s.work, phase, mirrored);
  const Op op{
      fmt::format("{}-{}{}", name_of(stage), s.work.dispatch->phase_name(phase), s.suffix()),
      Lane::token,
      s.work.number,
      s.pass,
      stage,
      {},
      {}};
  const Bytes row = s.work.dispatch->row_bytes(model_, stage, s.pass);
  std::int64_t moved = 0;
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    Exchange exchange{communicators[c], traffic_of(s.work.counts, phase, communicators[c], row),
                      std::move(rows[c])};
    if (mirrored) exchange.traffic = exchange.traffic.transposed();
    moved += exchange.traffic.total().value;
    add_exchange(op, std::move(exchange));
  }
  const auto& held = s.work.tokens_per_rank;
  const std::int64_t tokens = std::accumulate(held.begin(), held.end(), std::int64_t{0});
  if (tokens > 0 && moved == 0) {
    throw std::logic_error(
        fmt::format("{} of layer {} moves nothing although its ranks hold {} "
                    "tokens",
                    op.name, s.work.number, tokens));
  }
}

/// Adds the exchange of one communicator, after the compute that prepared its members' rows.
void LayerOps::add_exchange(Op op, Exchange exchange) {
  for (GpuId gpu : exchange.participants) {
    OpId& compute = last_compute_[gpu.index()];
    if (compute != none) op.after.push_back(compute);
    compute = none;
  }
  const std::vector<GpuId> members = exchange.participants;
  op.work = std::move(exchange);
  const OpId id = plan_.add(std::move(op));
  for (GpuId gpu : members) last_exchange_[gpu.index()] = id;
}

}  // namespace moesim
