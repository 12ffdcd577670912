// SPDX-License-Identifier: Apache-2.0
#include "sim/mechanism/placement/experts_apart.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "sim/base/unsuitable.h"

namespace moesim {
namespace {

std::vector<GpuId> behind(int first, int gpus) {
  std::vector<GpuId> list;
  for (GpuId gpu(first); gpu.value < gpus; ++gpu.value) list.push_back(gpu);
  return list;
}

/// Shares as they go on after so many choices.
Shares from(std::span<const Share> shares, std::int64_t done) {
  std::int64_t cycle = 0;
  for (const Share& share : shares) cycle += share.count;
  done %= cycle;
  Shares rotated, before;
  for (Share share : shares) {
    const std::int64_t gone = std::min(done, share.count);
    done -= gone;
    if (gone > 0) before.push_back({share.slot, gone});
    if (share.count > gone) rotated.push_back({share.slot, share.count - gone});
  }
  rotated.insert(rotated.end(), before.begin(), before.end());
  return rotated;
}

class ExpertsApart final : public Placer {
 public:
  template <class Make>
  ExpertsApart(const PlacementContext& c, int attending, const TransportPtr& tokens,
               const Make& make)
      : attending_(attending),
        holders_(c.groups.size() - attending),
        cluster_(c.groups.network().of_gpus(behind(attending, c.groups.size()))),
        context_(c) {
    context_.groups = EpGroups(cluster_, holders_);
    context_.groups.carried_by(tokens);
    if (c.recorded) {
      context_.recorded = [this, recorded = c.recorded](int step, int layer) {
        std::vector<LoadMatrix> loads = recorded(step, layer);
        for (LoadMatrix& each : loads) each = folded(each);
        return loads;
      };
    }
    inner_ = make(context_);
  }

  LayerDecision decide(const LayerRoutingNow& now) override {
    const Batch batch = folded(now.batch);
    const LoadMatrix loads = folded(now.loads);
    LayerDecision decision = inner_->decide(
        {now.step, now.layer, batch, now.ids, loads, now.begins_iteration, now.moment});
    decision.assignment = all_of(decision.assignment, now.loads);
    for (auto* list : {&decision.migrate, &decision.gather, &decision.regather, &decision.reduce}) {
      for (ParamExchange& exchange : *list) exchange = among_all(exchange);
    }
    put_in_front(decision.memory);
    put_in_front(decision.gradient_homes);
    return decision;
  }

  void move_from(const Placer& before, int layer, LayerDecision& decision) const override {
    LayerDecision moves(decision.assignment);
    inner_->move_from(*dynamic_cast<const ExpertsApart&>(before).inner_, layer, moves);
    decision.migration = moves.migration;
    decision.planning = moves.planning;
    decision.planning_blocks = moves.planning_blocks;
    for (const ParamExchange& each : moves.migrate) decision.migrate.push_back(among_all(each));
  }

  bool reacts() const override { return inner_->reacts(); }
  bool looks() const override { return inner_->looks(); }
  bool may_be_told() const override { return inner_->may_be_told(); }
  bool routes_shared() const override { return inner_->routes_shared(); }
  double compression() const override { return inner_->compression(); }
  std::vector<FirstPlan> first_plans() const override { return inner_->first_plans(); }
  std::string forced() const override { return inner_->forced(); }
  std::vector<std::string> notes() const override { return inner_->notes(); }

 private:
  std::size_t holder_of(int rank) const {
    return static_cast<std::size_t>((rank < attending_ ? rank : rank - attending_) % holders_);
  }

  Assignment all_of(const Assignment& of_holders, const LoadMatrix& loads) {
    if (of_holders.split()) return spread(of_holders, loads);
    if (!last_ || last_->first != of_holders) last_ = {of_holders, spread(of_holders, loads)};
    return last_->second;
  }

  Batch folded(const Batch& batch) const {
    Batch result{batch.step, {}};
    result.ranks.resize(static_cast<std::size_t>(holders_));
    for (int rank = 0; rank < attending_; ++rank) {
      const auto& runs = batch.ranks[static_cast<std::size_t>(rank)];
      auto& of_holder = result.ranks[holder_of(rank)];
      of_holder.insert(of_holder.end(), runs.begin(), runs.end());
    }
    return result;
  }

  LoadMatrix folded(const LoadMatrix& loads) const {
    if (loads.sources() == 0) return loads;
    LoadMatrix result(holders_, loads.experts());
    for (int rank = 0; rank < attending_; ++rank) {
      const GpuId holder(static_cast<std::int64_t>(holder_of(rank)));
      for (ExpertId e(0); e.value < loads.experts(); ++e.value) {
        result.at(holder, e) += loads.at(GpuId(rank), e);
      }
    }
    return result;
  }

  template <class T>
  void put_in_front(std::vector<T>& of_holders) const {
    if (of_holders.empty()) return;
    of_holders.insert(of_holders.begin(), static_cast<std::size_t>(attending_), T());
  }

  /// Every rank uses the slots that the one of its number uses, and goes on where the ranks before
  /// it with that number have ended.
  Assignment spread(const Assignment& of_holders, const LoadMatrix& loads) const {
    const Placement& slots = of_holders.placement();
    SlotTable table = slots.table();
    put_in_front(table);
    LoadMatrix before(holders_, slots.experts());
    Ragged<Share> shares;
    for (int rank = 0; rank < attending_ + holders_; ++rank) {
      const GpuId holder(static_cast<std::int64_t>(holder_of(rank)));
      for (ExpertId e(0); e.value < slots.experts(); ++e.value) {
        if (!of_holders.split()) {
          shares.add_row({Share{of_holders.slot(holder, e), 1}});
          continue;
        }
        shares.add_row(from(of_holders.shares(holder, e), before.at(holder, e)));
        const bool known = rank < attending_ && e.value < loads.experts();
        if (known) before.at(holder, e) += loads.at(GpuId(rank), e);
      }
    }
    return Assignment(Placement(slots.experts(), table), std::move(shares));
  }

  ParamExchange among_all(const ParamExchange& of_holders) const {
    ParamExchange all{of_holders.name, ByteMatrix(of_holders.traffic.unit()), of_holders.encode,
                      of_holders.decode};
    std::vector<ByteMatrix::Entry> row;
    for (int rank = 0; rank < attending_; ++rank) all.traffic.add_row(row);
    for (int holder = 0; holder < holders_; ++holder) {
      const auto entries = of_holders.traffic.row(GpuId(holder));
      row.assign(entries.begin(), entries.end());
      for (auto& entry : row) entry.to.value += attending_;
      all.traffic.add_row(row);
    }
    put_in_front(all.encode);
    put_in_front(all.decode);
    return all;
  }

  int attending_, holders_;
  Topology cluster_;  // of those that hold experts
  PlacementContext context_;
  std::unique_ptr<Placer> inner_;
  std::optional<std::pair<Assignment, Assignment>> last_;  // of holders, not split, and of all
};

}  // namespace

std::unique_ptr<Placer> place_apart(
    const PlacementContext& context, int attending, const TransportPtr& tokens,
    const std::function<std::unique_ptr<Placer>(const PlacementContext&)>& make) {
  const int gpus = context.groups.size();
  if (context.groups.count() > 1 || attending >= gpus) {
    throw Unsuitable(
        fmt::format("{} GPUs that attend in {} EP groups of {}", attending, context.groups.count(),
                    gpus),
        "with serving.attention_ranks all GPUs are one EP group, and some of them hold experts");
  }
  return std::make_unique<ExpertsApart>(context, attending, tokens, make);
}

}  // namespace moesim
