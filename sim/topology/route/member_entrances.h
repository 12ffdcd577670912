// SPDX-License-Identifier: Apache-2.0
// Where the bytes of an exchange enter the hosts of its members.
#pragma once

#include <span>
#include <vector>

#include "sim/topology/route/routes.h"

namespace moesim {

/// The entrances that members of an exchange need, numbered from 0.
struct MemberEntrances {
  MemberEntrances(const Routes& routes, std::span<const GpuId> members);

  std::vector<int> used;          // indices into Routes::entrances(), ascending
  std::vector<int> of_member;     // into `used`; -1: nothing outside its host needs to reach it
  std::vector<std::size_t> same;  // members from here on with this one's entrance
  bool in_long_runs = true;       // many neighbours share one, on the whole
};

/// Members by their hosts, ascending within one.
std::vector<int> members_by_host(const Routes& routes, std::span<const GpuId> members);

}  // namespace moesim
