// SPDX-License-Identifier: Apache-2.0
#include "sim/plan/exchange_time.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <span>
#include <tuple>
#include <utility>

namespace moesim {
namespace {

/// The use of one link by one exchange.
struct Job {
  LinkId link;
  std::size_t exchange;
  Seconds begin, work;
};

/// Serves the jobs of one link, by ascending begin: each of those in service gets an even share.
void serve(std::span<const Job> jobs, std::vector<Seconds>& ends) {
  struct Serving {
    Seconds until;  // share that each in service has had when this one has had enough
    std::size_t exchange;
    bool operator>(const Serving& o) const {
      return std::tie(until, exchange) > std::tie(o.until, o.exchange);
    }
  };
  std::priority_queue<Serving, std::vector<Serving>, std::greater<>> serving;
  Seconds now(0), share(0);
  const auto serve_until = [&](Seconds time) {
    while (!serving.empty()) {
      const auto count = static_cast<double>(serving.size());
      const Seconds end = now + (serving.top().until - share) * count;
      if (end > time) {
        share += (time - now) * (1 / count);
        break;
      }
      now = end;
      share = serving.top().until;
      Seconds& last = ends[serving.top().exchange];
      last = std::max(last, now);
      serving.pop();
    }
    now = time;
  };
  for (const Job& job : jobs) {
    serve_until(job.begin);
    serving.push({share + job.work, job.exchange});
  }
  serve_until(Seconds(std::numeric_limits<double>::infinity()));
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

ExchangePrice price(const Topology& topology, const ByteMatrix& traffic) {
  PricedExchange exchange{topology.loads(traffic), {}};
  exchange.alone = exchange_time(exchange.loads);
  return std::make_shared<const PricedExchange>(std::move(exchange));
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
