// SPDX-License-Identifier: Apache-2.0
// Walks back from the last end. Whatever an op waited for ended when it began.
#include "sim/report/critical_path.h"

#include <algorithm>
#include <array>
#include <optional>

namespace moesim {
namespace {

/// An op on one of its GPUs.
struct PathPlace {
  OpId op;
  std::size_t member = 0;
};

class PathWalk {
 public:
  PathWalk(const Plan& plan, const Timeline& timeline, const Continued* continued)
      : plan_(plan), timeline_(timeline), continued_(continued) {
    if (continued != nullptr) periods_left_ = continued->times;
    for (OpId id(0); id.index() < plan.ops.size(); ++id.value) {
      auto& of_stream = on_stream_.at(static_cast<std::size_t>(plan[id].stream));
      position_.push_back(of_stream.size());
      of_stream.push_back(id);
    }
  }

  std::vector<PathSegment> run() {
    std::optional<PathPlace> at = last();
    if (!at) return {};
    until_ = timeline_.makespan;
    idle(*at, interval(*at).end);
    while (at) at = a_period_later(step(*at));
    std::ranges::reverse(path_);
    return std::move(path_);
  }

 private:
  Interval interval(PathPlace at) const { return timeline_.ops[at.op.index()][at.member]; }
  GpuId gpu(PathPlace at) const { return plan_[at.op].group[at.member]; }

  /// What ends last.
  std::optional<PathPlace> last() const {
    std::optional<PathPlace> latest;
    Seconds end;
    for (OpId id(0); id.index() < plan_.ops.size(); ++id.value) {
      const OpIntervals times = timeline_.ops[id.index()];
      for (std::size_t m = 0; m < times.size(); ++m) {
        const Seconds its_end = times.end(m);
        if (latest && its_end <= end) continue;
        latest = PathPlace{id, m};
        end = its_end;
      }
    }
    return latest;
  }

  void add(PathSegment segment, Seconds from) {
    if (from >= until_) return;
    segment.when = {from, until_};
    path_.push_back(segment);
    until_ = from;
  }
  /// The path up to now was on no op; it is said to be the op's that began late.
  void idle(PathPlace at, Seconds from) {
    add({at.op, gpu(at), gpu(at), {}, PathWait::nothing, true, {}}, from);
  }

  /// Adds the op's segment; returns what it waited for.
  std::optional<PathPlace> step(PathPlace at) {
    const PathPlace slowest = {at.op, slowest_member(at)};
    const Seconds begin = interval(slowest).start;
    PathWait wait = PathWait::nothing;
    const std::optional<PathPlace> before = waited_for(slowest, wait);
    add({at.op, gpu(at), gpu(slowest), {}, wait, false, mean_wait(slowest)}, begin);
    idle(slowest, before ? interval(*before).end : Seconds(0));
    return before;
  }

  /// In a steady state the path continues from the same op a period later, once for each that the
  /// whole step has in addition.
  std::optional<PathPlace> a_period_later(std::optional<PathPlace> at) {
    if (!at || periods_left_ == 0) return at;
    const std::int32_t later = continued_->later[at->op.index()];
    if (later < 0) return at;
    --periods_left_;
    const PathPlace same{OpId(later), at->member};
    until_ += interval(same).end - interval(*at).end;
    return same;
  }

  /// The mean wait of the participants that joined an exchange before this one.
  Seconds mean_wait(PathPlace slowest) const {
    const Op& op = plan_[slowest.op];
    Seconds sum;
    if (op.exchange() == nullptr) return sum;
    const std::vector<std::size_t> together = members_with(slowest);
    for (const std::size_t m : together) {
      sum += std::max(Seconds(0), interval(slowest).start - interval({slowest.op, m}).start);
    }
    return sum * (1.0 / static_cast<double>(together.size()));
  }

  /// The participants of an exchange; of collectives apart those of the place's own.
  std::vector<std::size_t> members_with(PathPlace at) const {
    std::vector<std::size_t> members;
    const Op& op = plan_[at.op];
    const auto own = op.place_of(at.member).collective;
    for (std::size_t m = 0; m < op.group.size(); ++m) {
      if (op.place_of(m).collective == own) members.push_back(m);
    }
    return members;
  }

  /// The participant whose joining an exchange waited for.
  std::size_t slowest_member(PathPlace at) const {
    const Op& op = plan_[at.op];
    if (op.exchange() == nullptr) return at.member;
    const auto& when = timeline_.ops[at.op.index()];
    const std::vector<std::size_t> members = members_with(at);
    const bool together = std::ranges::all_of(
        members, [&](std::size_t m) { return when[m].end == when[at.member].end; });
    const GroupTraffic traffic = op.traffic();
    const Bytes none(0);
    const auto counts = [&](std::size_t m) {
      if (together) return true;
      if (when[m].start > when[at.member].end) return false;
      const GpuId here = op.group[at.member], there = op.group[m];
      return traffic.at(here, there) > none || traffic.at(there, here) > none;
    };
    std::size_t slowest = at.member;
    for (const std::size_t m : members) {
      if (when[m].start > when[slowest].start && counts(m)) slowest = m;
    }
    return slowest;
  }

  /// The latest to end of what an op waits for on a GPU; see for_each_wait.
  std::optional<PathPlace> waited_for(PathPlace at, PathWait& wait) const {
    std::optional<PathPlace> latest;
    const auto look = [&](OpId earlier, std::size_t member, PathWait as) {
      const PathPlace place{earlier, member};
      if (latest && interval(place).end <= interval(*latest).end) return;
      latest = place;
      wait = as;
    };
    for (const OpId after : plan_[at.op].after) {
      const Group& group = plan_[after].group;
      if (const std::size_t m = group.member(gpu(at)); m < group.size()) {
        look(after, m, PathWait::data);
      }
    }
    const auto& of_stream = on_stream_.at(static_cast<std::size_t>(plan_[at.op].stream));
    for (std::size_t i = position_[at.op.index()]; i-- > 0;) {
      const Group& group = plan_[of_stream[i]].group;
      const std::size_t m = group.member(gpu(at));
      if (m == group.size()) continue;
      look(of_stream[i], m, PathWait::stream);
      break;
    }
    return latest;
  }

  const Plan& plan_;
  const Timeline& timeline_;
  const Continued* continued_;  // null: the timeline is all there is
  int periods_left_ = 0;        // that the path has not gone through yet
  std::array<std::vector<OpId>, stream_count> on_stream_;
  std::vector<std::size_t> position_;  // [op] in the list of its stream
  Seconds until_;                      // where the path has come to
  std::vector<PathSegment> path_;      // from the end
};

}  // namespace

const char* name_of(PathWait wait) {
  static constexpr const char* names[] = {"nothing", "data", "stream"};
  return names[static_cast<std::size_t>(wait)];
}

std::vector<PathSegment> critical_path(const Plan& plan, const Timeline& timeline,
                                       const Continued* continued) {
  return PathWalk(plan, timeline, continued).run();
}

}  // namespace moesim
