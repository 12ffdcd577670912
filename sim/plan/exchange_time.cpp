// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/exchange_time.h"

#include <algorithm>
#include <limits>
#include <span>
#include <tuple>
#include <utility>

#include "sim/plan/shared_link.h"
#include "sim/transport/transport.h"

namespace moesim {
namespace {

/// The use of one link by one exchange.
struct Job {
  LinkId link;
  std::size_t exchange;
  Seconds begin, work;
};

/// Serves the jobs of one link, by ascending begin.
void serve(std::span<const Job> jobs, std::vector<Seconds>& ends) {
  SharedLink<std::size_t> link;
  const auto ended = [&](std::size_t exchange, Seconds end) {
    ends[exchange] = std::max(ends[exchange], end);
  };
  for (const Job& job : jobs) {
    link.advance(job.begin, ended);
    link.add(job.exchange, job.work);
  }
  link.advance(Seconds(std::numeric_limits<double>::infinity()), ended);
}

}  // namespace

ExchangeTime exchange_time(const LinkLoads& loads) {
  ExchangeTime time{loads.overhead, Seconds(0), Seconds(0)};
  Seconds last = loads.latency;
  for (const LinkUse& use : loads.uses) {
    time.transfer = std::max(time.transfer, use.time);
    last = std::max(last, use.first + use.time);
  }
  time.latency = last - time.transfer;
  return time;
}

ExchangePrice price(const Topology& topology, const GroupTraffic& traffic, const Carrier& carrier) {
  return price(topology, traffic, topology.loads(traffic), carrier);
}

ExchangePrice price(const Topology& topology, const GroupTraffic& traffic, LinkLoads loads,
                    const Carrier& carrier) {
  PricedExchange exchange{std::move(loads), {}};
  if (carrier.transport != nullptr) {
    carry(*carrier.transport, carrier.goes_on, topology, traffic, {}, exchange.loads);
  }
  exchange.alone = exchange_time(exchange.loads);
  return std::make_shared<const PricedExchange>(std::move(exchange));
}

ExchangePrice price(const Topology& topology, const ByteMatrix& traffic, const Carrier& carrier) {
  return price(topology, GroupTraffic{traffic, topology.all_gpus()}, carrier);
}

std::vector<Seconds> shared_times(const std::vector<ExchangePrice>& exchanges) {
  std::vector<Seconds> ends;
  std::vector<Job> jobs;
  for (const ExchangePrice& exchange : exchanges) {
    for (const LinkUse& use : exchange->loads.uses) {
      jobs.push_back({use.link, ends.size(), exchange->start(), use.time});
    }
    ends.push_back(exchange->start());
  }
  std::stable_sort(jobs.begin(), jobs.end(), [](const Job& a, const Job& b) {
    return std::tie(a.link, a.begin) < std::tie(b.link, b.begin);
  });
  for (std::size_t first = 0, last = 0; first < jobs.size(); first = last) {
    while (last < jobs.size() && jobs[last].link == jobs[first].link) ++last;
    serve(std::span(jobs).subspan(first, last - first), ends);
  }
  return ends;
}

}  // namespace moesim
