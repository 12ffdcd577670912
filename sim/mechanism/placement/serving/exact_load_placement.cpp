// SPDX-License-Identifier: Apache-2.0
// MoonEP, UltraEP and FEPLB: balanced after the gate, inside NVLink domains, with weights that are
// fetched for the step and gradients that return.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/base/rounding.h"
#include "sim/base/unsuitable.h"
#include "sim/mechanism/mechanisms.h"
#include "sim/mechanism/placement/serving/exact_load.h"
#include "sim/mechanism/placement/serving/spilling.h"

namespace moesim {
namespace {

/// Ranks of an EP group that is on one host, wherever it begins.
int most_on_one_host(const EpGroups& groups) {
  return groups.gpus_per_host() > 0 ? groups.gpus_per_host() : groups.equal_blocks();
}

class MoonEp final : public Spilling {
 public:
  MoonEp(const PlacementContext& context, const SpillOptions& options)
      : Spilling(context, options) {
    for (const RankSpace& ranks : context.groups.spaces()) {
      if (const int hosts = ranks.hosts().size(); hosts > 1) {
        throw Unsuitable(
            fmt::format("its ranks fetch experts over NVLink, an EP group has {} hosts", hosts),
            fmt::format("ep: {} or less", most_on_one_host(context.groups)));
      }
    }
  }

 private:
  llep::Plan plan_of(const GroupStep& at) const override {
    return exact_load::moon_ep(at.loads.per_expert(), ep());
  }
};

struct UltraEpOptions {
  exact_load::Quota quota;
  double at_most = 0;  // load of a rank over its domain's mean; 0: as the slots allow
};

class UltraEp final : public Spilling {
 public:
  UltraEp(const PlacementContext& c, const SpillOptions& s, const UltraEpOptions& o)
      : Spilling(c, s), o_(o), domain_(group_nodes(c).gpus_per_node) {}

 private:
  llep::Plan plan_of(const GroupStep& at) const override {
    const auto counts = at.loads.per_expert();
    llep::Plan plan = exact_load::ultra_ep(counts, ep(), domain_, o_.quota);
    if (o_.at_most > 0 && !met_by(plan)) refuse(at, counts, plan);
    return plan;
  }

  /// Of a domain: a mean and `at_most` of it are whole token-slots, rounded up as in the search.
  struct DomainLoad {
    std::int64_t largest, sum;
  };
  std::vector<DomainLoad> domains_of(const llep::Plan& plan) const {
    std::vector<DomainLoad> domains;
    for (auto first = plan.loads.begin(); first != plan.loads.end(); first += domain_) {
      const auto last = first + domain_;
      domains.push_back(
          {*std::max_element(first, last), std::accumulate(first, last, std::int64_t{0})});
    }
    return domains;
  }

  bool met_by(const llep::Plan& plan) const {
    return std::ranges::all_of(domains_of(plan), [&](const DomainLoad& d) {
      const auto mean = static_cast<double>((d.sum + domain_ - 1) / domain_);
      return d.largest <= rounded_up(o_.at_most * mean);
    });
  }

  /// The most that a rank has over the mean of its domain.
  double imbalance(const llep::Plan& plan) const {
    double most = 1;
    for (const DomainLoad& d : domains_of(plan)) {
      if (d.sum == 0) continue;
      most = std::max(most, static_cast<double>(d.largest) * domain_ / static_cast<double>(d.sum));
    }
    return most;
  }

  [[noreturn]] void refuse(const GroupStep& at, const std::vector<std::int64_t>& counts,
                           const llep::Plan& plan) const {
    exact_load::Quota more = o_.quota;
    std::string hint = fmt::format(
        "no number of slots meets it: lower 'least_rows' ({}) or 'tolerance' ({:g}), or raise "
        "'at_most'",
        more.least, more.tolerance);
    while (++more.slots <= context().experts) {
      if (!met_by(exact_load::ultra_ep(counts, ep(), domain_, more))) continue;
      hint = fmt::format("slots: {} would", more.slots);
      break;
    }
    const std::vector<int>& numbers = context().numbers;
    const auto index = static_cast<std::size_t>(at.layer);
    throw Unsuitable(
        fmt::format("its quota cannot be met: with {} slots of layer {} a rank computes {:.3f} "
                    "times the mean, at most {:g} is asked for",
                    o_.quota.slots, index < numbers.size() ? numbers[index] : at.layer,
                    imbalance(plan), o_.at_most),
        hint);
  }

  UltraEpOptions o_;
  int domain_;
};

class Feplb final : public Spilling {
 public:
  Feplb(const PlacementContext& c, const SpillOptions& s, int dynamic)
      : Spilling(c, s), dynamic_(dynamic), domain_(group_nodes(c).gpus_per_node) {}

 private:
  llep::Plan plan_of(const GroupStep& at) const override {
    return exact_load::feplb(at.loads.per_expert(), ep(), domain_, dynamic_);
  }

  int dynamic_;
  int domain_;
};

}  // namespace

// received: keep (default: weights stay until the backward pass) or regather; planning_time: of the
// planner on the GPU, per layer (0 us, unstated). An EP group has to be in one NVLink domain.
PlacementMaker read_moon_ep(const YamlMap& params) {
  const SpillOptions o = read_spill_options(params);
  return [o](const PlacementContext& context) { return std::make_unique<MoonEp>(context, o); };
}

// slots: of a rank for received experts (2); tolerance: of the mean load, by which the first limit
// is above it (0.01); least_rows: worth a replica if no limit near it is met (1024); at_most: load
// of a rank over the mean of its NVLink domain that has to be met (absent: whatever the slots
// allow). received and planning_time as above.
PlacementMaker read_ultra_ep(const YamlMap& params) {
  UltraEpOptions o;
  o.quota.slots = static_cast<int>(params.integer("slots", {1, 512}, o.quota.slots));
  o.quota.least = params.integer("least_rows", {1, 1 << 30}, o.quota.least);
  o.quota.tolerance = params.number("tolerance", {0, 1}, o.quota.tolerance);
  o.at_most = params.number("at_most", {1, 1000}, 0);
  const SpillOptions spill = read_spill_options(params);
  return
      [=](const PlacementContext& context) { return std::make_unique<UltraEp>(context, spill, o); };
}

// dynamic: experts of a rank that others may compute (4; all, if it owns fewer); received and
// planning_time as above.
PlacementMaker read_feplb(const YamlMap& params) {
  const auto dynamic = static_cast<int>(params.integer("dynamic", {1, 4096}, 4));
  const SpillOptions spill = read_spill_options(params);
  return [=](const PlacementContext& context) {
    return std::make_unique<Feplb>(context, spill, dynamic);
  };
}

}  // namespace moesim
