// SPDX-License-Identifier: Apache-2.0
#include "sim/topology/route/member_entrances.h"

#include <algorithm>
#include <numeric>

#include "sim/base/sort_once.h"

namespace moesim {

MemberEntrances::MemberEntrances(const Routes& routes, std::span<const GpuId> members) {
  for (const GpuId member : members) {
    const int entrance = routes.entrance_of(member.value);
    of_member.push_back(entrance);
    if (entrance >= 0 && (used.empty() || used.back() != entrance)) used.push_back(entrance);
  }
  sort_once(used);
  for (int& entrance : of_member) {
    if (entrance < 0) continue;
    entrance = static_cast<int>(std::ranges::lower_bound(used, entrance) - used.begin());
  }
  constexpr std::size_t long_run = 16;
  same.assign(members.size(), 1);
  std::size_t runs = 1;
  for (std::size_t m = members.size(); m-- > 1;) {
    if (of_member[m] == of_member[m - 1]) {
      same[m - 1] = same[m] + 1;
    } else {
      ++runs;
    }
  }
  in_long_runs = members.size() >= runs * long_run;
}

std::vector<int> members_by_host(const Routes& routes, std::span<const GpuId> members) {
  std::vector<int> by_host(members.size());
  std::iota(by_host.begin(), by_host.end(), 0);
  std::ranges::stable_sort(by_host, {}, [&](int m) {
    return routes.host_of(members[static_cast<std::size_t>(m)].value);
  });
  return by_host;
}

}  // namespace moesim
