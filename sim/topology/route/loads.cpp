// SPDX-License-Identifier: Apache-2.0
// Bytes that leave their hosts, or stay there.
#include "sim/topology/route/loads.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "sim/topology/route/loader.h"

namespace moesim {
namespace {

/// Adds the units of neighbours to those that each is sent; returns their sum. Blocks of a fixed
/// number of entries become vector instructions; entries that follow are fetched ahead, as the
/// processor's own fetching ends with every page (16,384 GPUs, 268 million pairs: 210 -> 152 ms).
std::int64_t sum_run(std::span<const ByteMatrix::Entry> run, std::int64_t* inbound) {
  constexpr std::size_t block = 8;
  std::array<std::int64_t, block> sums{};
  std::size_t i = 0;
  for (; i + block <= run.size(); i += block) {
    __builtin_prefetch(&run[i] + 32 * block);
    for (std::size_t k = 0; k < block; ++k) {
      const std::int64_t units = run[i + k].units;
      inbound[i + k] += units;
      sums[k] += units;
    }
  }
  std::int64_t sum = std::accumulate(sums.begin(), sums.end(), std::int64_t{0});
  for (; i < run.size(); ++i) {
    inbound[i] += run[i].units;
    sum += run[i].units;
  }
  return sum;
}

/// The first entry to `member` or one after it. A row without gaps, or with one, such as its
/// diagonal, needs no search, which would wait for memory at every probe.
auto first_from(std::span<const ByteMatrix::Entry> row, int member) {
  const auto begins = [&](std::ptrdiff_t i) {
    return i >= 0 && i <= std::ssize(row) &&
           (i == std::ssize(row) || row.begin()[i].to.value >= member) &&
           (i == 0 || row.begin()[i - 1].to.value < member);
  };
  const std::ptrdiff_t guess = row.empty() ? 0 : member - row.front().to.value;
  for (const std::ptrdiff_t i : {guess, guess - 1}) {
    if (begins(i)) return row.begin() + i;
  }
  return std::ranges::lower_bound(row, member, {},
                                  [](const ByteMatrix::Entry& e) { return e.to.value; });
}

}  // namespace

Loader::Loader(const Routes& routes, std::size_t links, const ByteMatrix& traffic,
               std::span<const GpuId> members)
    : routes_(routes),
      traffic_(traffic),
      members_(members),
      entrances_(routes, members),
      width_(entrances_.used.size()),
      sums_(links),
      inbound_(members.size(), 0),
      entering_(static_cast<std::size_t>(routes.fabric().size())) {
  first_in_.assign(width_, Load().latency);
}

LinkLoads Loader::run() {
  const std::vector<int> by_host = members_by_host(routes_, members_);
  const auto host_of = [&](int member) { return routes_.host_of(gpu(member)); };
  for (auto first = by_host.begin(); first != by_host.end();) {
    const int host = host_of(*first);
    const auto last = std::find_if(first, by_host.end(), [&](int m) { return host_of(m) != host; });
    leave_host(host, {first, last});
    first = last;
  }
  if (crosses_) {
    cross_fabric();
    enter_hosts();
  }
  return sums_.take();
}

const Entrance& Loader::entrance(std::size_t e) const {
  return routes_.entrances()[static_cast<std::size_t>(entrances_.used[e])];
}

void Loader::sum_remote(Entries entries, std::int64_t* sums) {
  if (entries.empty()) return;
  if (entries.back().to.value - entries.front().to.value == std::ssize(entries) - 1) {
    return sum_dense(entries, sums);
  }
  const int* entrance = entrances_.of_member.data();
  std::int64_t* inbound = inbound_.data();
  // Neighbours share an entrance, whose sum in memory would be waited for at every entry.
  int at = entrance[entries.front().to.index()];
  std::int64_t sum = 0;
  for (const ByteMatrix::Entry& e : entries) {
    const int next = entrance[e.to.index()];
    if (next != at) sums[std::exchange(at, next)] += std::exchange(sum, 0);
    sum += e.units;
    inbound[e.to.index()] += e.units;
  }
  sums[at] += sum;
}

void Loader::sum_dense(Entries entries, std::int64_t* sums) {
  for (std::size_t done = 0; done < entries.size();) {
    const std::size_t first = entries[done].to.index();
    const std::size_t alike = std::min(entrances_.same[first], entries.size() - done);
    const Entries run = entries.subspan(done, alike);
    sums[entrances_.of_member[first]] += sum_run(run, &inbound_[first]);
    done += alike;
  }
}

void Loader::leave_host(int h, std::span<const int> members) {
  const Host& host = routes_.host(h);
  const std::size_t gpus = host.gpus.size();
  remote_.assign(gpus * width_, 0);
  local_.assign(gpus * gpus, 0);
  for (const int from : members) {
    const auto g = static_cast<std::size_t>(routes_.local_of(gpu(from)));
    std::int64_t* const remote = remote_.data() + g * width_;  // empty without a fabric
    const Entries row = traffic_.row(GpuId(from));
    const auto first = first_from(row, members.front());
    const auto last = first_from(row, members.back() + 1);
    sum_remote({row.begin(), first}, remote);
    sum_remote({last, row.end()}, remote);
    for (auto e = first; e != last; ++e) {
      if (e->to.value == from) continue;
      const int there = gpu(e->to.value);
      if (routes_.stays_inside(gpu(from), there)) {
        const auto to = static_cast<std::size_t>(routes_.local_of(there));
        local_[to * gpus + g] += traffic_.bytes(*e).value;
      } else {
        sum_remote({e, e + 1}, remote);
      }
    }
  }
  stay_inside(host);
  if (std::ranges::all_of(remote_, [](std::int64_t units) { return units == 0; })) return;
  crosses_ = true;
  go_out(h);
}

void Loader::stay_inside(const Host& host) {
  const HostType& type = routes_.type(host);
  const std::size_t gpus = host.gpus.size();
  for (std::size_t to = 0; to < gpus; ++to) {
    at_.assign(static_cast<std::size_t>(type.inside.size()), {});
    bool any = false;
    for (std::size_t from = 0; from < gpus; ++from) {
      const std::int64_t bytes = local_[to * gpus + from];
      if (bytes == 0) continue;
      const auto vertex = static_cast<std::size_t>(type.gpus[from]);
      any = true;
      at_[vertex] = {bytes, type.latency_to_gpu[to][vertex]};
      sums_.note_latency(at_[vertex].latency);
    }
    if (any) push(host, type.to_gpu[to]);
  }
}

void Loader::push(const Host& host, const Dag& dag) {
  dag.push(at_, [&](int link, const Load& load) {
    sums_.put(host.out_links[static_cast<std::size_t>(link)], load);
  });
}

void Loader::go_out(int h) {
  const Host& host = routes_.host(h);
  const Attachment& attachment = routes_.attachment(h);
  const std::vector<Egress>& egresses = routes_.egresses(host.type);
  for (const int v : host.fabric_up) {
    entering_[static_cast<std::size_t>(v)].resize(width_);
  }
  const std::size_t gpus = host.gpus.size();
  leaving_.assign(egresses.size() * gpus, {});
  choosing_.assign(gpus * width_, {});
  for (std::size_t g = 0; g < gpus; ++g) {
    for (std::size_t e = 0; e < width_; ++e) {
      const std::int64_t units = remote_[g * width_ + e];
      if (units == 0) continue;
      const auto number = static_cast<std::size_t>(egress_of(attachment, e));
      const Egress& egress = egresses[number];
      Load load{units * traffic_.unit().value};
      for (const Egress::Exit& exit : egress.exits[g]) {
        const int v = host.up_switch[static_cast<std::size_t>(exit.port)];
        const double latency = exit.latency + entrance(e).latency[static_cast<std::size_t>(v)];
        sums_.note_latency(latency);
        load.latency = std::min(load.latency, latency);
      }
      if (!egress.single) {
        choosing_[g * width_ + e] = load;
        continue;
      }
      leaving_[number * gpus + g] += load;
      const auto port = static_cast<std::size_t>(egress.exits[g].front().port);
      entering_[static_cast<std::size_t>(host.up_switch[port])][e] += load;
    }
  }
  for (std::size_t n = 0; n < egresses.size(); ++n) {
    if (egresses[n].single) push_out(host, egresses[n], &leaving_[n * gpus], 1);
  }
  for (std::size_t e = 0; e < width_; ++e) {
    if (egress_of(attachment, e) < 0) continue;
    const Egress& egress = egresses[static_cast<std::size_t>(egress_of(attachment, e))];
    if (egress.single) continue;
    if (!push_out(host, egress, &choosing_[e], width_)) continue;
    const HostType& type = routes_.type(host);
    for (std::size_t p = 0; p < type.up.size(); ++p) {
      entering_[static_cast<std::size_t>(host.up_switch[p])][e] += through_port_[p];
    }
  }
}

int Loader::egress_of(const Attachment& attachment, std::size_t e) const {
  return attachment.egress_of[static_cast<std::size_t>(entrances_.used[e])];
}

bool Loader::push_out(const Host& host, const Egress& egress, const Load* load,
                      std::size_t stride) {
  const HostType& type = routes_.type(host);
  at_.assign(static_cast<std::size_t>(type.inside.size()), {});
  bool any = false;
  for (std::size_t g = 0; g < host.gpus.size(); ++g) {
    at_[static_cast<std::size_t>(type.gpus[g])] = load[g * stride];
    any = any || load[g * stride].bytes != 0;
  }
  if (!any) return false;
  through_port_.assign(type.up.size(), {});
  egress.dag.push(at_, [&](int link, const Load& part) {
    sums_.put(host.out_links[static_cast<std::size_t>(link)], part);
    if (egress.single) return;
    for (std::size_t p = 0; p < type.up.size(); ++p) {
      if (type.up[p].link == link) through_port_[p] += part;
    }
  });
  return true;
}

LinkLoads link_loads(const Routes& routes, std::size_t links, const ByteMatrix& traffic,
                     std::span<const GpuId> members) {
  return Loader(routes, links, traffic, members).run();
}

}  // namespace moesim
