// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/clocks.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

namespace moesim {
namespace {

/// An exchange by its group, its kind and its number there.
using SharedName = std::tuple<std::uint32_t, int, std::int64_t>;
/// (rank's index, kernel's index) of all who show it.
using SharedExchanges = std::map<SharedName, std::vector<std::pair<std::size_t, std::size_t>>>;

/// Sends and receives pair up by their peers, which profiles do not say.
bool is_shared_kind(KernelKind kind) {
  return is_exchange(kind) && kind != KernelKind::send_recv && kind != KernelKind::broadcast;
}

SharedExchanges shared_exchanges(const Profile& profile) {
  SharedExchanges shared;
  for (std::size_t r = 0; r < profile.ranks.size(); ++r) {
    const ProfiledRank& rank = profile.ranks[r];
    std::map<std::pair<std::uint32_t, int>, std::int64_t> counts;
    for (std::size_t k = 0; k < rank.kernels.size(); ++k) {
      const ProfiledKernel& kernel = rank.kernels[k];
      if (kernel.exchange < 0 || !is_shared_kind(kernel.kind)) continue;
      const ExchangeFacts& facts = rank.exchanges[static_cast<std::size_t>(kernel.exchange)];
      const int kind = static_cast<int>(kernel.kind);
      const std::int64_t number = counts[{facts.group, kind}]++;
      const bool counted = facts.sequence >= 0;
      shared[{facts.group, counted ? -1 : kind, counted ? facts.sequence : number}].emplace_back(r,
                                                                                                 k);
    }
  }
  std::erase_if(shared, [](const auto& entry) {
    const auto& members = entry.second;
    const auto same_rank = [](const auto& a, const auto& b) { return a.first == b.first; };
    return members.size() < 2 || std::ranges::adjacent_find(members, same_rank) != members.end();
  });
  return shared;
}

const ProfiledKernel& kernel_of(const Profile& profile,
                                const std::pair<std::size_t, std::size_t>& at) {
  return profile.ranks[at.first].kernels[at.second];
}

ProfileTicks nth_of(std::vector<ProfileTicks> values, double part) {
  const auto at = static_cast<std::ptrdiff_t>(part * static_cast<double>(values.size() - 1));
  std::ranges::nth_element(values, values.begin() + at);
  return values[static_cast<std::size_t>(at)];
}

void shift_rank(ProfiledRank& rank, ProfileTicks shift) {
  rank.shift += shift;
  for (ProfiledKernel& kernel : rank.kernels) {
    kernel.start += shift;
    if (kernel.launch >= 0) kernel.launch += shift;
  }
  for (auto& [begin, end] : rank.steps) {
    begin += shift;
    end += shift;
  }
}

/// Differences of ends, per pair of ranks (the first one is aligned).
std::map<std::size_t, std::vector<ProfileTicks>> differences(const Profile& profile,
                                                             const SharedExchanges& shared,
                                                             const std::vector<bool>& aligned) {
  std::map<std::size_t, std::vector<ProfileTicks>> of;
  for (const auto& [name, members] : shared) {
    const auto base =
        std::ranges::find_if(members, [&](const auto& m) { return aligned[m.first]; });
    if (base == members.end()) continue;
    const ProfileTicks end = kernel_of(profile, *base).end();
    for (const auto& m : members) {
      if (!aligned[m.first]) of[m.first].push_back(end - kernel_of(profile, m).end());
    }
  }
  return of;
}

bool states_waits(const Profile& profile) {
  return std::ranges::any_of(profile.ranks, [](const ProfiledRank& rank) {
    return std::ranges::any_of(rank.exchanges, [](const auto& e) { return e.waiting >= 0; });
  });
}

}  // namespace

ClockFit align_clocks(Profile& profile) {
  ClockFit fit;
  const SharedExchanges shared = shared_exchanges(profile);
  fit.matched = static_cast<int>(shared.size());
  std::vector<bool> aligned(profile.ranks.size(), profile.one_clock);
  if (!aligned.empty()) aligned[0] = true;
  for (;;) {  // ranks of groups that share a member with those before
    const auto of = differences(profile, shared, aligned);
    if (of.empty()) break;
    for (const auto& [rank, ends] : of) {
      const ProfileTicks shift = nth_of(ends, 0.5);
      shift_rank(profile.ranks[rank], shift);
      aligned[rank] = true;
      fit.largest_shift = std::max(fit.largest_shift, seconds_of(std::abs(shift)));
    }
  }
  fit.unaligned = static_cast<int>(std::ranges::count(aligned, false));
  std::vector<ProfileTicks> residuals;
  for (const auto& [name, members] : shared) {
    const ProfileTicks end = kernel_of(profile, members.front()).end();
    for (std::size_t m = 1; m < members.size(); ++m) {
      residuals.push_back(std::abs(kernel_of(profile, members[m]).end() - end));
    }
  }
  if (!residuals.empty()) {
    fit.residual_median = seconds_of(nth_of(residuals, 0.5));
    fit.residual_95 = seconds_of(nth_of(residuals, 0.95));
  }
  return fit;
}

std::vector<std::vector<ProfileTicks>> waits_of(const Profile& profile) {
  std::vector<std::vector<ProfileTicks>> waits(profile.ranks.size());
  const SharedExchanges shared = shared_exchanges(profile);
  if (shared.empty() && !states_waits(profile)) return waits;
  for (std::size_t r = 0; r < waits.size(); ++r) waits[r].resize(profile.ranks[r].kernels.size());
  for (const auto& [name, members] : shared) {
    ProfileTicks last = kernel_of(profile, members.front()).start;
    for (const auto& m : members) last = std::max(last, kernel_of(profile, m).start);
    for (const auto& m : members) {
      const ProfiledKernel& kernel = kernel_of(profile, m);
      waits[m.first][m.second] = std::min(last - kernel.start, kernel.length);
    }
  }
  for (std::size_t r = 0; r < waits.size(); ++r) {
    const ProfiledRank& rank = profile.ranks[r];
    for (std::size_t k = 0; k < rank.kernels.size(); ++k) {
      if (rank.kernels[k].exchange < 0) continue;
      const auto& facts = rank.exchanges[static_cast<std::size_t>(rank.kernels[k].exchange)];
      if (facts.waiting >= 0) waits[r][k] = std::min(facts.waiting, rank.kernels[k].length);
    }
  }
  return waits;
}

std::vector<std::vector<ProfileTicks>> lags_of(const Profile& profile) {
  std::vector<std::vector<ProfileTicks>> lags;
  for (const ProfiledRank& rank : profile.ranks) lags.emplace_back(rank.kernels.size());
  for (const auto& [name, members] : shared_exchanges(profile)) {
    ProfileTicks joined = kernel_of(profile, members.front()).start, ended = joined;
    for (const auto& m : members) {
      joined = std::max(joined, kernel_of(profile, m).start);
      ended = std::max(ended, kernel_of(profile, m).end());
    }
    for (const auto& m : members) {
      lags[m.first][m.second] = ended - std::max(joined, kernel_of(profile, m).end());
    }
  }
  return lags;
}

}  // namespace moesim
