// SPDX-License-Identifier: Apache-2.0
// The structural rules of a plan.
#include "sim/plan/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "sim/plan/mistakes.h"
#include "sim/plan/op_sizes.h"

namespace moesim {
namespace {

std::string gpus_text(const Op& op) {
  return (op.group.size() == 1 ? "GPU " : "GPUs ") + list_text(op.group.list());
}

class Checker {
 public:
  explicit Checker(const Plan& plan) : plan_(plan) {}

  std::vector<PlanMistake> run() {
    if (plan_.gpus < 1) {
      return {{OpId(-1), fmt::format("a plan needs a GPU or more, this one has {}", plan_.gpus)}};
    }
    for (id_ = OpId(0); id_.index() < plan_.ops.size(); ++id_.value) check_op();
    for (id_ = OpId(0); id_.index() < plan_.ops.size(); ++id_.value) check_waits();
    std::stable_sort(mistakes_.begin(), mistakes_.end(),
                     [](const PlanMistake& a, const PlanMistake& b) { return a.op < b.op; });
    if (may_order_) {
      if (auto cycle = find_cycle(plan_)) mistakes_.push_back(std::move(*cycle));
    }
    return std::move(mistakes_);
  }

 private:
  void mistake(const std::string& what) { mistakes_.push_back({id_, describe(plan_, id_) + what}); }
  bool is_gpu(GpuId gpu) const { return gpu.value >= 0 && gpu.value < plan_.gpus; }

  void check_op() {
    const Op& op = plan_[id_];
    if (op.key.layer < -1) mistake(fmt::format(": there is no layer {}", op.key.layer));
    if (op.key.microbatch < 0 || op.key.chunk < 0 || op.key.part < 0) {
      mistake(": a microbatch, chunk or part below 0");
    }
    const bool sound = check_group(op);
    if (const Kernels* kernels = op.kernels()) {
      if (!runs_kernels(op.stream)) {
        mistake(
            fmt::format(": a kernel runs on stream compute or copy, not {}", name_of(op.stream)));
      }
      check_kernels(*kernels, op.group.size());
    } else {
      if (runs_kernels(op.stream)) {
        mistake(fmt::format(": an exchange runs on no stream of kernels, as {} is",
                            name_of(op.stream)));
      }
      if (sound) {
        check_traffic(*op.exchange());
        check_rows(*op.exchange());
      }
    }
  }

  void check_kernels(const Kernels& kernels, std::size_t members) {
    const auto& each = kernels.each();
    if (each.size() != 1 && each.size() != members) {
      return mistake(fmt::format(": {} kernels for {} GPUs", each.size(), members));
    }
    if (sound_kernels_.contains(&each)) return;
    for (const Kernel& kernel : each) {
      if (!differ_in_sizes_alone(kernel, each.front())) {
        return mistake(": its kernels differ in more than their sizes");
      }
    }
    for (const Kernel& kernel : each) {
      const std::size_t before = mistakes_.size();
      check_kernel(kernel);
      if (mistakes_.size() > before) return;
    }
    sound_kernels_.insert(&each);
  }

  void check_kernel(const Kernel& kernel) {
    if (const std::string large = size_mistake(kernel); !large.empty()) return mistake(large);
    if (const auto* memory = std::get_if<MemoryBound>(&kernel)) {
      if (memory->read.value < 0 || memory->written.value < 0) mistake(": bytes below 0");
      return;
    }
    if (const auto* host = std::get_if<HostWork>(&kernel)) {
      if (host->nanoseconds < 0) mistake(": a wait of less than 0 ns");
      return;
    }
    if (const auto* attention = std::get_if<FusedAttention>(&kernel)) {
      return check_attention(*attention);
    }
    const auto& gemm = std::get<GroupedGemm>(kernel);
    if (gemm.n < 1 || gemm.k < 1) {
      mistake(fmt::format(": a GEMM needs n and k above 0, not {} and {}", gemm.n, gemm.k));
    }
    if (std::any_of(gemm.m.begin(), gemm.m.end(), [](std::int64_t m) { return m < 0; })) {
      mistake(": a group of the GEMM has fewer than 0 rows");
    }
    if (gemm.wave) check_wave(gemm, *gemm.wave);
  }

  void check_wave(const GroupedGemm& gemm, const Wave& wave) {
    if (wave.fill < 1 || wave.fill > wave.tile) {
      mistake(fmt::format(": tiles of {} rows that are filled to {}", wave.tile, wave.fill));
    }
    if (wave.tile < 1 || wave.tiles < 0 || wave.of < 1 || wave.tiles > wave.of) {
      mistake(fmt::format(": a wave of {} of {} tiles with {} rows each", wave.tiles, wave.of,
                          wave.tile));
    }
    if (wave.rows.size() != gemm.m.size()) {
      return mistake(
          fmt::format(": a wave of {} groups in a kernel of {}", gemm.m.size(), wave.rows.size()));
    }
    for (std::size_t group = 0; group < gemm.m.size(); ++group) {
      if (gemm.m[group] <= wave.rows[group]) continue;
      return mistake(fmt::format(": a wave of {} rows of a group whose kernel has {}",
                                 gemm.m[group], wave.rows[group]));
    }
  }

  void check_attention(const FusedAttention& attention) {
    const AttentionHeads& shape = attention.shape;
    if (attention.queries < 0 || attention.attended < 0 || attention.keys < 0) {
      mistake(": attention of fewer than 0 queries or keys");
    }
    if (attention.keys > 0 && shape.pass == Pass::backward) {
      mistake(": the backward pass of attention has no keys in a cache");
    }
    if (shape.latent && (shape.kv_heads != 1 || shape.v_width > shape.qk_width)) {
      mistake(": latent keys have one head and values that are a part of them");
    }
    if (shape.qk_width < 1 || shape.v_width < 0) {
      mistake(fmt::format(": attention needs keys wider than 0 and values not below, not {} and {}",
                          shape.qk_width, shape.v_width));
    }
    if (shape.kv_heads < 1 || shape.heads < shape.kv_heads) {
      mistake(fmt::format(": {} heads of queries cannot share {} of keys", shape.heads,
                          shape.kv_heads));
    }
  }

  /// False when the lists of an exchange make no sense without it.
  bool check_group(const Op& op) {
    const Group& gpus = op.group;
    if (sound_groups_.contains(&gpus.list())) return true;
    const auto foreign = std::ranges::find_if(gpus, [&](GpuId gpu) { return !is_gpu(gpu); });
    if (foreign != gpus.end()) {
      mistake(
          fmt::format(": GPU {} is not one of the plan's 0-{}", foreign->value, plan_.gpus - 1));
      may_order_ = false;
    }
    if (gpus.empty()) {
      mistake(": an op needs a GPU or more");
      return false;
    }
    if (std::adjacent_find(gpus.begin(), gpus.end(), std::greater_equal<>()) != gpus.end()) {
      mistake(": its GPUs do not ascend");
      return may_order_ = false;
    }
    if (foreign != gpus.end()) return false;
    sound_groups_.insert(&gpus.list());
    return true;
  }

  bool joins(GpuId gpu) const { return plan_[id_].group.contains(gpu); }

  void check_traffic(const Exchange& exchange) {
    const ByteMatrix& traffic = exchange.traffic;
    if (exchange.sms < 0) mistake(": it takes fewer than 0 multiprocessors");
    if (traffic.unit().value < 1) {
      mistake(fmt::format(": a traffic unit of {} bytes", traffic.unit().value));
    }
    if (exchange.rounds < 0) mistake(fmt::format(": {} rounds", exchange.rounds));
    const int members = static_cast<int>(plan_[id_].group.size());
    if (traffic.ranks() != members) {
      return mistake(
          fmt::format(": a traffic matrix of {} rows for {} GPUs", traffic.ranks(), members));
    }
    const auto [known, fresh] = units_.try_emplace(traffic.identity().first, 0.0);
    for (int row = 0; fresh && row < members; ++row) {
      const ByteMatrix::Row sent = traffic.row(GpuId(row));
      for (const ByteMatrix::Entry& entry : sent.entries()) {
        if (entry.to.value >= 0 && entry.to.value < members) continue;
        units_.erase(known);
        return mistake(
            fmt::format(": an entry of its traffic in column {} of {}", entry.to.value, members));
      }
      known->second += static_cast<double>(sent.total());
    }
    const std::string large = size_mistake(known->second, traffic.unit());
    if (!large.empty()) mistake(large);
    if (exchange.with_hosts && traffic.off_diagonal() > Bytes(0)) {
      mistake(": bytes between GPUs in a copy to the memory of hosts");
    }
  }

  void check_rows(const Exchange& exchange) {
    for (const RowMove& row : exchange.rows) {
      if (row.token.value < 0) {
        return mistake(fmt::format(": a row of token {}", row.token.value));
      }
      if (joins(row.from) && joins(row.to)) continue;
      return mistake(fmt::format(
          ": the row of token {} goes from GPU {} to {}, but GPU {} takes no part", row.token.value,
          row.from.value, row.to.value, joins(row.from) ? row.to.value : row.from.value));
    }
  }

  void check_waits() {
    const Op& op = plan_[id_];
    for (const OpId other : op.after) {
      if (other.value < 0 || other.index() >= plan_.ops.size()) {
        may_order_ = false;
        return mistake(fmt::format(" waits for op {}, but the plan has {} ops", other.value,
                                   plan_.ops.size()));
      }
      if (op.group.meets(plan_[other].group)) continue;
      return mistake(fmt::format(" on {} waits for the foreign {} on {}: they share no GPU",
                                 gpus_text(op), describe(plan_, other), gpus_text(plan_[other])));
    }
  }

  const Plan& plan_;
  std::vector<PlanMistake> mistakes_;
  // What ops share is looked at once: units of matrices whose entries are sound, there and back,
  // forward and backward; groups and kernels that are sound.
  std::unordered_map<const void*, double> units_;
  std::unordered_set<const std::vector<GpuId>*> sound_groups_;
  std::unordered_set<const std::vector<Kernel>*> sound_kernels_;
  OpId id_;
  bool may_order_ = true;  // ids are in range and participants distinct
};

}  // namespace

bool differ_in_sizes_alone(const Kernel& a, const Kernel& b) {
  if (a.index() != b.index()) return false;
  if (const auto* attention = std::get_if<FusedAttention>(&a)) {
    return attention->shape == std::get<FusedAttention>(b).shape;
  }
  if (const auto* memory = std::get_if<MemoryBound>(&a)) {
    return memory->goes_on == std::get<MemoryBound>(b).goes_on;
  }
  const auto* gemm = std::get_if<GroupedGemm>(&a);
  if (gemm == nullptr) return true;
  const auto& other = std::get<GroupedGemm>(b);
  if (gemm->wave.has_value() != other.wave.has_value()) return false;
  const auto alike = [](const Wave& one, const Wave& two) {
    return one.tile == two.tile && one.fill == two.fill && one.weights == two.weights &&
           one.starts == two.starts;
  };
  return gemm->n == other.n && gemm->k == other.k && gemm->type == other.type &&
         (!gemm->wave || alike(*gemm->wave, *other.wave));
}

std::string describe(const Plan& plan, OpId id) {
  return fmt::format("op {} '{}'", id.value, plan[id].label.text());
}

void check_gpus(const Plan& plan, std::size_t gpus) {
  if (gpus == static_cast<std::size_t>(plan.gpus)) return;
  throw Error(
      fmt::format("plan '{}' is for {} GPUs, but the cluster has {}", plan.name, plan.gpus, gpus));
}

std::vector<PlanMistake> find_mistakes(const Plan& plan) { return Checker(plan).run(); }

void check_plan(const Plan& plan) {
  Mistakes mistakes;
  for (PlanMistake& mistake : find_mistakes(plan)) mistakes.add(std::move(mistake.message));
  mistakes.throw_if_any();
}

}  // namespace moesim
