// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/exchange_fit.h"

#include <algorithm>
#include <cmath>

#include "sim/base/error.h"
#include "sim/plan/exchange_time.h"

namespace moesim {
namespace {

/// [op] the times of an exchange over all timelines; empty for kernels.
std::vector<std::vector<double>> op_times(const MicroPlan& micro, const Times& times) {
  std::vector<std::vector<double>> all(micro.plan.ops.size());
  for (const Timeline& timeline : timelines_of(times, micro.name)) {
    for (std::size_t op = 0; op < all.size(); ++op) {
      if (micro.plan.ops[op].exchange() != nullptr) {
        all[op].push_back(time_of_exchange(timeline.ops[op]).value);
      }
    }
  }
  return all;
}

/// The most others that a GPU sends to.
int peers_of(const ByteMatrix& traffic) {
  std::size_t most = 0;
  for (int g = 0; g < traffic.ranks(); ++g) most = std::max(most, traffic.row(GpuId(g)).size());
  return static_cast<int>(most);
}

Bytes most_sent(const ByteMatrix& traffic) {
  Bytes most(0);
  for (int g = 0; g < traffic.ranks(); ++g) {
    Bytes sent(0);
    for (const auto& entry : traffic.row(GpuId(g))) sent += traffic.bytes(entry);
    most = std::max(most, sent);
  }
  return most;
}

void fit_overheads(const std::vector<ExchangePlan>& plans, const Times& times, ExchangeFit& fit) {
  std::vector<double> empty, slopes;
  for (const ExchangePlan& plan : plans) {
    if (plan.purpose != ExchangePurpose::overhead) continue;
    const auto seconds = op_times(plan.micro, times);
    std::map<int, std::vector<double>> by_peers;
    for (std::size_t op = 0; op < seconds.size(); ++op) {
      const Op& of_plan = plan.micro.plan.ops[op];
      if (is_probe(of_plan, Probe::empty))
        empty.insert(empty.end(), seconds[op].begin(), seconds[op].end());
      if (!is_probe(of_plan, Probe::tiny)) continue;
      auto& list = by_peers[peers_of(of_plan.exchange()->traffic)];
      list.insert(list.end(), seconds[op].begin(), seconds[op].end());
    }
    std::vector<double> peers, medians;
    for (const auto& [count, list] : by_peers) {
      peers.push_back(count);
      medians.push_back(robust_median(list).value);
    }
    if (peers.size() > 1) slopes.push_back(theil_sen(peers, medians).slope);
  }
  if (empty.empty()) return;  // of one rank
  fit.exchange_overhead = robust_median(empty);
  if (!slopes.empty()) fit.peer_overhead = std::max(0.0, robust_median(slopes).value);
}

/// If links are busy equally long, the one that reaches farthest: a host's bus often is stated to
/// be as fast as its NIC.
LinkId busiest(const Topology& topology, const LinkLoads& loads) {
  const auto tier_of = [&](LinkId link) {
    return topology.classes()[static_cast<std::size_t>(topology.links()[link.index()].link_class)]
        .tier;
  };
  LinkUse best;
  for (const LinkUse& use : loads.uses) {
    const bool more = use.time > best.time * (1 + 1e-9);
    const bool equal = use.time * (1 + 1e-9) >= best.time;
    if (more || (equal && tier_of(use.link) > tier_of(best.link))) best = use;
  }
  return best.link;
}

/// What a class's links on a route of an exchange add up to in number, and the others in latency.
struct RouteShare {
  int links = 0;
  Seconds others;
};
RouteShare share_of(const Topology& topology, const ByteMatrix& traffic, int link_class) {
  RouteShare share;
  for (int g = 0; g < traffic.ranks(); ++g) {
    if (traffic.row(GpuId(g)).empty()) continue;
    const auto paths = topology.paths(GpuId(g), traffic.row(GpuId(g)).front().to);
    for (const LinkId id : paths.front().links) {
      const Link& link = topology.links()[id.index()];
      if (link.link_class == link_class) {
        ++share.links;
      } else {
        share.others += link.latency;
      }
    }
    break;
  }
  return share;
}

void add_errors(ClassFit& result) {
  const BandwidthTable table = result.fit.table();
  std::vector<double> errors;
  for (ClassFit::Size& size : result.sizes) {
    size.error = (result.fit.fixed + table.time(size.bytes)).value / size.time.value - 1;
    errors.push_back(std::abs(size.error));
    result.worst = std::max(result.worst, errors.back());
  }
  result.typical = robust_median(errors).value;
}

ClassFit fit_class(const Topology& topology, const MicroPlan& micro, LinkId link,
                   const Times& times) {
  const Link& bound = topology.links()[link.index()];
  ClassFit result;
  result.link_class = topology.classes()[static_cast<std::size_t>(bound.link_class)].name;
  result.plan = micro.name;
  result.nominal = bound.bandwidth;
  const auto seconds = op_times(micro, times);
  std::vector<double> medians, spreads;
  const ByteMatrix* traffic = nullptr;
  for (std::size_t op = 0; op < seconds.size(); ++op) {
    if (micro.plan.ops[op].key.kind == OpKind::settle) continue;
    traffic = &micro.plan.ops[op].exchange()->traffic;
    const Robust time = robust_median(seconds[op]);
    const Bytes bytes = price(topology, *traffic)->loads.on(link).bytes;
    result.sizes.push_back({bytes, time, 0});
    medians.push_back(time.value);
    spreads.push_back(time.spread);
    result.kept += time.kept;
    result.rejected += time.rejected;
  }
  result.spread = robust_median(spreads).value;
  medians = ascending(medians);
  std::vector<Sample> samples;
  for (std::size_t i = 0; i < medians.size(); ++i) {
    samples.push_back({result.sizes[i].bytes, Seconds(medians[i])});
  }
  result.fit = fit_link(samples);
  add_errors(result);
  const RouteShare share = share_of(topology, *traffic, bound.link_class);
  result.peers = peers_of(*traffic);
  result.links = std::max(1, share.links);
  result.other_latency = share.others;
  return result;
}

/// What an exchange of a class takes whatever its bytes, divided into overheads and latency.
void share_out_fixed_times(ExchangeFit& fit) {
  const auto beyond = [&](const ClassFit& c) {
    return std::max(0.0, c.fit.fixed.value - fit.exchange_overhead.value);
  };
  for (const ClassFit& c : fit.classes) {
    fit.peer_overhead = std::min(fit.peer_overhead, beyond(c) / std::max(1, c.peers));
  }
  for (ClassFit& c : fit.classes) {
    const double rest = beyond(c) - fit.peer_overhead * c.peers - c.other_latency.value;
    c.latency = Seconds(std::max(0.0, rest) / c.links);
  }
}

/// The simulated times of the exchanges that start together.
std::vector<double> simulated(const Topology& topology, const std::vector<const Op*>& together) {
  std::vector<ExchangePrice> exchanges;
  for (const Op* op : together) exchanges.push_back(price(topology, op->exchange()->traffic));
  std::vector<double> times;
  for (const Seconds time : shared_times(exchanges)) times.push_back(time.value);
  return times;
}

void add_error(double simulated, double measured, Bytes bytes, std::vector<double>& errors,
               ExchangeCheck& check) {
  const double error = simulated / measured - 1;
  errors.push_back(std::abs(error));
  ++check.exchanges;
  if (std::abs(error) < std::abs(check.worst)) return;
  check.worst = error;
  check.worst_bytes = bytes;
}

}  // namespace

ExchangeFit fit_exchanges(const Topology& topology, const std::vector<ExchangePlan>& plans,
                          const Times& times) {
  ExchangeFit fit;
  fit_overheads(plans, times, fit);
  for (const ExchangePlan& plan : plans) {
    if (plan.purpose != ExchangePurpose::table) continue;
    const ByteMatrix& largest = plan.micro.plan.ops.back().exchange()->traffic;
    const LinkId link = busiest(topology, price(topology, largest)->loads);
    const auto& name =
        topology.classes()[static_cast<std::size_t>(topology.links()[link.index()].link_class)]
            .name;
    if (std::ranges::find(fit.classes, name, &ClassFit::link_class) != fit.classes.end()) continue;
    fit.classes.push_back(fit_class(topology, plan.micro, link, times));
  }
  share_out_fixed_times(fit);
  return fit;
}

std::vector<ExchangeCheck> check_exchanges(const Topology& topology,
                                           const std::vector<ExchangePlan>& plans,
                                           const ExchangeFit& fit, const Times& times) {
  std::vector<ExchangeCheck> checks;
  for (const ExchangePlan& plan : plans) {
    if (plan.purpose == ExchangePurpose::overhead) continue;
    ExchangeCheck& check = checks.emplace_back();
    check.plan = plan.micro.name;
    check.fitted = std::ranges::find(fit.classes, check.plan, &ClassFit::plan) != fit.classes.end();
    const auto seconds = op_times(plan.micro, times);
    const auto& ops = plan.micro.plan.ops;
    std::vector<double> errors;
    for (std::size_t op = 0, next = 0; op < ops.size(); op = next) {
      next = op + 1;
      if (ops[op].key.kind == OpKind::settle) continue;
      while (next < ops.size() && ops[next].key.kind != OpKind::settle) ++next;
      std::vector<const Op*> together;
      for (std::size_t i = op; i < next; ++i) together.push_back(&ops[i]);
      const auto expected = simulated(topology, together);
      for (std::size_t i = op; i < next; ++i) {
        add_error(expected[i - op], robust_median(seconds[i]).value,
                  most_sent(ops[i].exchange()->traffic), errors, check);
      }
    }
    if (!errors.empty()) check.typical = robust_median(errors).value;
  }
  return checks;
}

}  // namespace moesim
