// SPDX-License-Identifier: Apache-2.0
// Replication by predicted load. No publication describes it, every step is our interpretation; the
// closest are GRACE-MoE (arXiv 2509.25041) and MoE-GPS (arXiv 2506.07366).
#include <algorithm>
#include <deque>

#include "sim/balance/serving/eplb.h"
#include "sim/balance/serving/path_profile.h"
#include "sim/balance/serving/prediction.h"
#include "sim/policy/placement/serving/serving.h"
#include "sim/policy/policies.h"

namespace moesim {
namespace {

enum class Predictor { last, ema, adjacent, oracle };

struct PredictiveOptions {
  LaggedOptions lagged;
  Predictor predictor = Predictor::ema;
  double beta = 0.9;
  int lag = 1;
  int extra_slots = 1;
};

class Predictive final : public Serving {
 public:
  Predictive(const PlacementContext& c, const PredictiveOptions& o, RunShape shape, SlotTable base)
      : Serving(c, o.lagged, base),
        o_(o),
        shape_(shape),
        base_(std::move(base)),
        cells_(cells(), Cell{{}, prediction::Ema(o.beta), std::vector<double>(base_.size())}),
        profiles_(static_cast<std::size_t>(c.layers), PathProfile(c.experts)) {}
  bool reacts() const override { return o_.predictor == Predictor::oracle; }
  std::vector<FirstPlan> first_plans() const override {
    return {{.after = std::max(options().first, o_.lag)}};
  }

 protected:
  std::optional<SlotTable> replan(int layer, int run, int steps,
                                  const SlotTable& current) override {
    if (!due(options(), steps)) return std::nullopt;
    const std::vector<double> expected = predict(layer, run, steps);
    if (expected.empty()) return std::nullopt;  // nothing is that old yet
    SlotTable extra;
    for (std::size_t g = 0; g < base_.size(); ++g) {
      extra.emplace_back(current[g].begin() + static_cast<std::ptrdiff_t>(base_[g].size()),
                         current[g].end());
    }
    const prediction::Copies copies = prediction::replicate(expected, base_, extra, o_.extra_slots);
    cells_[at(layer, run)].gpu_loads = copies.gpu_loads;
    return prediction::table(base_, copies);
  }
  Assignment assign(const Placement& placement, const LayerRoutingNow& now) override {
    const int ep = context().ep;
    return assign_by_run(placement, ep, [&](int run, const Placement& slots) {
      return prediction::shares(slots, rows_of(now.loads, run * ep, ep),
                                cells_[at(now.layer, run)].gpu_loads, shape_.gpus_per_node);
    });
  }
  void observe(int layer, int run, const LoadMatrix& loads) override {
    Cell& cell = cells_[at(layer, run)];
    cell.newest.push_back(loads);
    if (cell.newest.size() > static_cast<std::size_t>(o_.lag) + 1) cell.newest.pop_front();
    if (cell.newest.size() >= static_cast<std::size_t>(o_.lag)) {
      cell.ema.add(cell.newest[cell.newest.size() - static_cast<std::size_t>(o_.lag)]);
    }
  }
  /// Profiles which choices follow those of the layer before.
  void observe_routing(const LayerRoutingNow& now) override {
    if (o_.predictor != Predictor::adjacent) return;
    const auto choices = chosen(now);
    if (now.layer > 0) {
      for (std::size_t t = 0; t < choices.size(); ++t) {
        for (const ExpertId from : before_[t]) {
          profiles_[static_cast<std::size_t>(now.layer)].add({from}, choices[t]);
        }
      }
    }
    before_ = choices;
  }

 private:
  struct Cell {
    std::deque<LoadMatrix> newest;  // lag + 1 at most
    prediction::Ema ema;            // of all but the newest lag - 1
    std::vector<double> gpu_loads;  // [rank of the run] predicted
  };

  /// [token] the experts it chose, over all ranks.
  std::vector<std::vector<ExpertId>> chosen(const LayerRoutingNow& now) const {
    std::vector<std::vector<ExpertId>> choices;
    for (const auto& runs : now.batch.ranks) {
      for (const TokenRun& run : runs) {
        for (std::int64_t t = run.first; t < run.first + run.count; ++t) {
          auto& of_token = choices.emplace_back();
          for (int k = 0; k < now.ids.top_k(); ++k) {
            const int expert = now.ids.at(t, k);
            if (expert < context().experts) of_token.emplace_back(expert);
          }
        }
      }
    }
    return choices;
  }

  /// Loads of the step that follows `steps` others; empty when unknown.
  std::vector<double> predict(int layer, int run, int steps) const {
    const Cell& cell = cells_[at(layer, run)];
    const auto lag = static_cast<std::size_t>(o_.lag);
    switch (o_.predictor) {
      case Predictor::oracle: {
        const int step = context().first_step - context().warmup + steps;
        const LoadMatrix now = context().recorded(step, layer);
        return eplb::loads_of(rows_of(now, run * context().ep, context().ep));
      }
      case Predictor::adjacent:
        if (layer > 0) {  // that layer has seen this step already: the newest is not for us
          const Cell& before = cells_[at(layer - 1, run)];
          return expect_after(profiles_[static_cast<std::size_t>(layer)],
                              eplb::loads_of(before.newest[before.newest.size() - 2]));
        }
        [[fallthrough]];
      case Predictor::last:
        if (cell.newest.size() < lag) return {};
        return eplb::loads_of(cell.newest[cell.newest.size() - lag]);
      case Predictor::ema:
        break;
    }
    return cell.ema.load();
  }

  PredictiveOptions o_;
  RunShape shape_;
  SlotTable base_;
  std::vector<Cell> cells_;                    // [layer and run]
  std::vector<PathProfile> profiles_;          // [layer]
  std::vector<std::vector<ExpertId>> before_;  // [token] of the layer before
};

}  // namespace

// predictor: last (loads of one step), ema (default; beta: 0.9), adjacent (from the layer before
// and the profile of all steps so far; the first layer: last) or oracle (the recorded loads of the
// very step, an upper bound). lag: steps that loads are old, at least 1 (default 1; for last and
// ema); extra_slots: for copies on every GPU (1); interval (1), first (1): steps between decisions,
// and before the first. migration: overlapped (default: a layer's experts wait for their own
// copies) or blocks. payload (weights), planning_time (0 us), planning (hidden): as for eplb.
PlacementMaker read_predictive(const YamlMap& params) {
  constexpr Range steps{1, 1 << 20};
  PredictiveOptions o;
  LaggedOptions defaults = weights_only();
  defaults.migrate_blocks = false;
  o.lagged = read_transfer_options(params, defaults);
  o.lagged.interval = static_cast<int>(params.integer("interval", steps, 1));
  o.lagged.first = static_cast<int>(params.integer("first", steps, 1));
  o.predictor =
      static_cast<Predictor>(params.choice("predictor", {"last", "ema", "adjacent", "oracle"}, 1));
  if (o.predictor == Predictor::ema) o.beta = params.number("beta", {0, 1}, 0.9);
  if (o.predictor == Predictor::ema || o.predictor == Predictor::last) {
    o.lag = static_cast<int>(params.integer("lag", {1, 1024}, 1));
  }
  o.extra_slots = static_cast<int>(params.integer("extra_slots", {0, 4096}, 1));
  return [o](const PlacementContext& c) {
    const RunShape shape = run_shape(c, "predictive-replication");
    SlotTable base =
        unless_unsuitable([&] { return contiguous_placement(c.experts, c.ep, c.ep).table(); });
    return std::make_unique<Predictive>(c, o, shape, std::move(base));
  };
}

}  // namespace moesim
