// SPDX-License-Identifier: Apache-2.0
// Bytes that leave their hosts, or stay there.
#include "sim/topology/route/loads.h"

#include <algorithm>
#include <utility>

#include "sim/topology/route/loader.h"

namespace moesim {

Loader::Loader(const Routes& routes, std::size_t links, const ByteMatrix& traffic,
               std::span<const GpuId> members, bool transposed)
    : routes_(routes),
      traffic_(traffic),
      members_(members),
      entrances_(routes, members),
      width_(entrances_.used.size()),
      receives_(transposed),
      sums_(links),
      inbound_(members.size(), 0),
      entering_(static_cast<std::size_t>(routes.fabric().size())) {
  first_in_.assign(width_, Load().latency);
  if (!receives_) return;
  const std::size_t table = members.size() * width_;
  if (table > small_table && table > traffic.entries()) {
    traffic_ = traffic.transposed();
    receives_ = false;
  } else {
    sent_.assign(table, 0);
  }
}

LinkLoads Loader::run() {
  const std::vector<int> by_host = members_by_host(routes_, members_);
  const auto host_of = [&](int member) { return routes_.host_of(gpu(member)); };
  const auto for_each_host = [&](auto visit) {
    for (auto first = by_host.begin(); first != by_host.end();) {
      const int host = host_of(*first);
      const auto last =
          std::find_if(first, by_host.end(), [&](int m) { return host_of(m) != host; });
      visit(host, std::span<const int>(first, last));
      first = last;
    }
  };
  if (receives_) {
    for_each_host([&](int, auto members) {
      for (const int to : members) {
        visit_row(traffic_.row(GpuId(to)),
                  [&](const auto& row) { sum_received(row, to, members); });
      }
    });
  }
  for_each_host([&](int host, auto members) { leave_host(host, members); });
  if (crosses_) {
    cross_fabric();
    enter_hosts();
  }
  return sums_.take();
}

const Entrance& Loader::entrance(std::size_t e) const {
  return routes_.entrances()[static_cast<std::size_t>(entrances_.used[e])];
}

template <class Part>
void Loader::sum_sent(Part entries, std::int64_t* sums) {
  if (!entrances_.in_long_runs) return sum_each(entries, sums);
  while (!entries.empty()) {
    const std::size_t to = entries.to(0);
    const std::size_t end = entries.place(static_cast<int>(to + entrances_.same[to]));
    sums[entrances_.of_member[to]] += add_inbound(entries.part(0, end), inbound_.data());
    entries = entries.part(end, entries.size());
  }
}

template <class Part>
void Loader::sum_each(const Part& entries, std::int64_t* sums) {
  if (entries.empty()) return;
  const int* entrance = entrances_.of_member.data();
  std::int64_t* inbound = inbound_.data();
  // Neighbours may share an entrance, whose sum in memory would be waited for at every entry.
  int at = entrance[entries.to(0)];
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const std::size_t to = entries.to(i);
    const std::uint32_t units = *entries.units(i);
    if (entrance[to] != at) sums[std::exchange(at, entrance[to])] += std::exchange(sum, 0);
    sum += units;
    inbound[to] += units;
  }
  sums[at] += sum;
}

/// The row is what a member receives: sums of all sources at once, what stays in the host, among
/// `members`, left out.
template <class Part>
void Loader::sum_received(const Part& row, int to, std::span<const int> members) {
  const auto entrance =
      static_cast<std::size_t>(entrances_.of_member[static_cast<std::size_t>(to)]);
  std::int64_t& inbound = inbound_[static_cast<std::size_t>(to)];
  const auto add = [&](std::size_t first, std::size_t last) {
    for (std::size_t i = first; i < last; ++i) {
      const std::uint32_t units = *row.units(i);
      sent_[row.to(i) * width_ + entrance] += units;
      inbound += units;
    }
  };
  const std::size_t first = row.place(members.front()), last = row.place(members.back() + 1);
  add(0, first);
  add(last, row.size());
  for (std::size_t i = first; i < last; ++i) {
    const int from = static_cast<int>(row.to(i));
    if (from != to && !routes_.stays_inside(gpu(from), gpu(to))) add(i, i + 1);
  }
}

/// What a member of a host, which has these members, sends (receives).
template <class Part>
void Loader::sum_row(const Part& row, int member, std::span<const int> members,
                     std::int64_t* sums) {
  const auto local_of = [&](int one) {
    return static_cast<std::size_t>(routes_.local_of(gpu(one)));
  };
  const std::size_t gpus = routes_.host(routes_.host_of(gpu(member))).gpus.size();
  const std::size_t first = row.place(members.front()), last = row.place(members.back() + 1);
  if (receives_) {
    std::copy_n(sent_.data() + static_cast<std::size_t>(member) * width_, width_, sums);
  } else {
    sum_sent(row.part(0, first), sums);
    sum_sent(row.part(last, row.size()), sums);
  }
  for (std::size_t i = first; i < last; ++i) {
    const int other = static_cast<int>(row.to(i));
    if (other == member) continue;
    const int from = receives_ ? other : member, to = receives_ ? member : other;
    if (routes_.stays_inside(gpu(from), gpu(to))) {
      local_[local_of(to) * gpus + local_of(from)] += *row.units(i) * traffic_.unit().value;
    } else if (!receives_) {
      sum_sent(row.part(i, i + 1), sums);
    }
  }
}

void Loader::leave_host(int h, std::span<const int> members) {
  const Host& host = routes_.host(h);
  const std::size_t gpus = host.gpus.size();
  remote_.assign(gpus * width_, 0);
  local_.assign(gpus * gpus, 0);
  for (const int member : members) {
    const auto g = static_cast<std::size_t>(routes_.local_of(gpu(member)));
    visit_row(traffic_.row(GpuId(member)),
              [&](const auto& row) { sum_row(row, member, members, remote_.data() + g * width_); });
  }
  const auto none = [](std::int64_t sum) { return sum == 0; };
  if (!std::ranges::all_of(local_, none)) stay_inside(host);
  if (std::ranges::all_of(remote_, none)) return;
  crosses_ = true;
  go_out(h);
}

void Loader::stay_inside(const Host& host) {
  const HostType& type = routes_.type(host);
  const std::size_t gpus = host.gpus.size();
  for (std::size_t to = 0; to < gpus; ++to) {
    bool any = false;
    for (std::size_t from = 0; from < gpus; ++from) {
      const std::int64_t bytes = local_[to * gpus + from];
      if (bytes == 0) continue;
      const auto vertex = static_cast<std::size_t>(type.gpus[from]);
      if (!any) at_.assign(static_cast<std::size_t>(type.inside.size()), {});
      any = true;
      at_[vertex] = {bytes, type.latency_to_gpu[to][vertex]};
      sums_.note_latency(at_[vertex].latency, bytes);
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
  if (leaving_.size() < egresses.size() * gpus) leaving_.resize(egresses.size() * gpus);
  leaves_by_.assign(egresses.size(), false);
  const bool choose = !std::ranges::all_of(egresses, &Egress::single);
  if (choose) choosing_.assign(gpus * width_, {});
  for (std::size_t g = 0; g < gpus; ++g) {
    for (std::size_t e = 0; e < width_; ++e) {
      const std::int64_t units = remote_[g * width_ + e];
      if (units == 0) continue;
      const auto number = static_cast<std::size_t>(egress_of(attachment, e));
      const Egress& egress = egresses[number];
      Load load{units * traffic_.unit().value};
      double longest = 0;
      for (const Egress::Exit& exit : egress.exits[g]) {
        const int v = host.up_switch[static_cast<std::size_t>(exit.port)];
        const double latency = exit.latency + entrance(e).latency[static_cast<std::size_t>(v)];
        longest = std::max(longest, latency);
        load.latency = std::min(load.latency, latency);
      }
      sums_.note_latency(longest, load.bytes);
      if (!egress.single) {
        choosing_[g * width_ + e] = load;
        continue;
      }
      leaving_[number * gpus + g] += load;
      leaves_by_[number] = true;
      const auto port = static_cast<std::size_t>(egress.exits[g].front().port);
      entering_[static_cast<std::size_t>(host.up_switch[port])][e] += load;
    }
  }
  for (std::size_t n = 0; n < egresses.size(); ++n) {
    if (!leaves_by_[n]) continue;
    push_out(host, egresses[n], &leaving_[n * gpus], 1);
    std::fill_n(&leaving_[n * gpus], gpus, Load{});
  }
  for (std::size_t e = 0; choose && e < width_; ++e) {
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
  const auto leaves = [&](std::size_t g) { return load[g * stride].bytes != 0; };
  const std::size_t gpus = host.gpus.size();
  std::size_t first = 0;
  while (first < gpus && !leaves(first)) ++first;
  if (first == gpus) return false;
  at_.assign(static_cast<std::size_t>(type.inside.size()), {});
  for (std::size_t g = first; g < gpus; ++g) {
    at_[static_cast<std::size_t>(type.gpus[g])] = load[g * stride];
  }
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
                     std::span<const GpuId> members, bool transposed) {
  return Loader(routes, links, traffic, members, transposed).run();
}

}  // namespace moesim
