// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/breakdown.h"

#include <algorithm>
#include <numeric>

namespace moesim {
namespace {

/// Goes along a rank's time from one start or end of a kernel to the next.
class TimeSweep {
 public:
  explicit TimeSweep(const ProfiledRank& rank) : kernels_(rank.kernels) {}

  void run(RankTime& out) {
    by_end_.resize(kernels_.size());
    std::iota(by_end_.begin(), by_end_.end(), 0U);
    std::ranges::sort(by_end_, {}, [&](std::uint32_t i) { return kernels_[i].end(); });
    ProfileTicks now = kernels_.front().start;
    std::size_t next = 0;
    for (std::size_t ended = 0; ended < by_end_.size();) {
      const ProfileTicks end = kernels_[by_end_[ended]].end();
      const bool starts = next < kernels_.size() && kernels_[next].start <= end;
      const ProfileTicks then = starts ? kernels_[next].start : end;
      if (then > now) pass(now, then, starts ? &kernels_[next] : nullptr, out);
      now = std::max(now, then);
      if (starts) {
        count(kernels_[next++].kind, 1);
      } else {
        count(kernels_[by_end_[ended++]].kind, -1);
      }
    }
  }

 private:
  void count(KernelKind kind, int change) {
    running_[static_cast<std::size_t>(kind)] += change;
    (is_exchange(kind) ? traffic_ : work_) += change;
  }
  void pass(ProfileTicks from, ProfileTicks to, const ProfiledKernel* next, RankTime& out) {
    const ProfileTicks length = to - from;
    if (work_ == 0 && traffic_ == 0) {
      out.idle += length;
      if (next != nullptr && next->launch >= 0) {
        out.launches_known = true;
        out.host += std::clamp<ProfileTicks>(next->launch - from, 0, length);
      }
      return;
    }
    const bool both = work_ > 0 && traffic_ > 0;
    (both ? out.both : work_ > 0 ? out.work_only : out.traffic_only) += length;
    for (std::size_t k = 0; k < running_.size(); ++k) {
      if (running_[k] == 0) continue;
      if (both) {
        out.kinds[k].overlapped += length * running_[k];
      } else {
        out.kinds[k].exposed += static_cast<double>(length) * running_[k] / (work_ + traffic_);
      }
    }
  }

  const std::vector<ProfiledKernel>& kernels_;
  std::vector<std::uint32_t> by_end_;
  std::array<int, kernel_kind_count> running_{};
  int work_ = 0, traffic_ = 0;
};

}  // namespace

ProfileTicks RankTime::time() const {
  return std::accumulate(kinds.begin(), kinds.end(), ProfileTicks{0},
                         [](ProfileTicks sum, const Kind& k) { return sum + k.time; });
}

ProfileTicks RankTime::recognized() const { return time() - kinds[0].time; }

RankTime breakdown(const ProfiledRank& rank, const std::vector<ProfileTicks>& waiting) {
  RankTime out;
  for (const auto& [begin, end] : rank.steps) out.steps.push_back(end - begin);
  if (rank.kernels.empty()) return out;
  out.waiting_known = !waiting.empty();
  for (const std::string& name : rank.streams) out.streams.push_back({name, 0, 0, 0});
  ProfileTicks last = rank.kernels.front().start;
  for (std::size_t i = 0; i < rank.kernels.size(); ++i) {
    const ProfiledKernel& kernel = rank.kernels[i];
    RankTime::Kind& kind = out.kinds[static_cast<std::size_t>(kernel.kind)];
    RankTime::StreamTime& stream = out.streams[kernel.stream];
    ++kind.kernels;
    ++stream.kernels;
    kind.time += kernel.length;
    stream.busy += kernel.length;
    if (is_exchange(kernel.kind)) stream.traffic += kernel.length;
    if (!waiting.empty()) kind.waiting += waiting[i];
    last = std::max(last, kernel.end());
  }
  out.kernels = std::ssize(rank.kernels);
  out.wall = last - rank.kernels.front().start;
  TimeSweep(rank).run(out);
  std::ranges::sort(out.streams, std::greater(), &RankTime::StreamTime::busy);
  return out;
}

std::vector<UnknownKernel> unknown_kernels(const Profile& profile) {
  std::vector<UnknownKernel> by_name(profile.kernel_names.size());
  for (const ProfiledRank& rank : profile.ranks) {
    for (const ProfiledKernel& kernel : rank.kernels) {
      if (kernel.kind != KernelKind::unknown) continue;
      ++by_name[kernel.name].kernels;
      by_name[kernel.name].time += kernel.length;
    }
  }
  std::vector<UnknownKernel> unknown;
  for (std::size_t i = 0; i < by_name.size(); ++i) {
    if (by_name[i].kernels == 0) continue;
    unknown.push_back({profile.kernel_names[i], by_name[i].kernels, by_name[i].time});
  }
  std::ranges::sort(unknown, std::greater(), &UnknownKernel::time);
  return unknown;
}

}  // namespace moesim
