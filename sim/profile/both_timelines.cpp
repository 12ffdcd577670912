// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/both_timelines.h"

#include <algorithm>
#include <limits>

#include "sim/profile/clocks.h"

namespace moesim {
namespace {

/// Bars of one side that a picture can hold.
constexpr std::size_t most_bars = 8000;

/// Begin and end of a rank's first step.
std::pair<ProfileTicks, ProfileTicks> first_step(const ProfiledRank& rank, int steps) {
  if (!rank.steps.empty()) return rank.steps.front();
  ProfileTicks last = 0;
  for (const ProfiledKernel& kernel : rank.kernels) last = std::max(last, kernel.end());
  const ProfileTicks first = rank.kernels.empty() ? 0 : rank.kernels.front().start;
  return {first,
          steps <= 1 ? std::numeric_limits<ProfileTicks>::max() : first + (last - first) / steps};
}

/// Indices of the kernels that are shown, by start: of too many the longest.
std::vector<std::size_t> shown_kernels(const ProfiledRank& rank, int steps,
                                       std::int64_t& left_out) {
  const auto [begin, end] = first_step(rank, steps);
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < rank.kernels.size(); ++i) {
    if (rank.kernels[i].start >= begin && rank.kernels[i].start < end) shown.push_back(i);
  }
  if (shown.size() <= most_bars) return shown;
  left_out += std::ssize(shown) - static_cast<std::int64_t>(most_bars);
  const auto middle = shown.begin() + static_cast<std::ptrdiff_t>(most_bars);
  std::nth_element(shown.begin(), middle, shown.end(), [&](std::size_t a, std::size_t b) {
    return rank.kernels[a].length > rank.kernels[b].length;
  });
  shown.erase(middle, shown.end());
  std::sort(shown.begin(), shown.end());
  return shown;
}

void add_lanes(const Profile& profile, std::size_t at, bool measured, int steps,
               BothTimelines& both) {
  const ProfiledRank& rank = profile.ranks[at];
  const std::vector<ProfileTicks> waits = waits_of(profile)[at];
  const auto shown = shown_kernels(rank, steps, both.left_out);
  std::vector<ProfileLane> lanes;
  for (const std::string& stream : rank.streams) lanes.push_back({measured, stream, {}});
  for (const std::size_t i : shown) {
    const ProfiledKernel& kernel = rank.kernels[i];
    const ProfileTicks start = kernel.start - rank.kernels[shown.front()].start;
    lanes[kernel.stream].bars.push_back(
        {start, waits.empty() ? 0 : waits[i], kernel.length, kernel.kind});
    both.length = std::max(both.length, start + kernel.length);
  }
  for (ProfileLane& lane : lanes) {
    if (!lane.bars.empty()) both.lanes.push_back(std::move(lane));
  }
}

}  // namespace

BothTimelines both_timelines(const Profile& measured, const Profile& simulated, int steps) {
  std::size_t m = 0, s = 0;
  for (std::size_t i = measured.ranks.size(); i-- > 0;) {
    const auto same =
        std::ranges::find(simulated.ranks, measured.ranks[i].rank, &ProfiledRank::rank);
    if (same == simulated.ranks.end()) continue;
    m = i;
    s = static_cast<std::size_t>(same - simulated.ranks.begin());
  }
  BothTimelines both;
  both.measured_rank = measured.ranks[m].rank;
  both.simulated_rank = simulated.ranks[s].rank;
  add_lanes(measured, m, true, steps, both);
  add_lanes(simulated, s, false, 1, both);
  return both;
}

}  // namespace moesim
