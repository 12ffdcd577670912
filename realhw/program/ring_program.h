// SPDX-License-Identifier: Apache-2.0
// Ring collectives of real numbers: reduce-scatter, all-gather, and both as an all-reduce.
#pragma once

#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "realhw/program/draft.h"

namespace moesim {

/// Elements of float32 that lie behind one another.
struct Segment {
  Place at;
  std::int64_t elements = 0;
};

enum class RingKind { reduce_scatter, all_gather, all_reduce };

/// One collective among the members of some rings; each carries an equal share of every part, half
/// of it either way, as sim/collective plans them.
struct RingCollective {
  RingKind kind = RingKind::all_reduce;
  std::vector<std::vector<GpuId>> rings;  // of the same members
  /// Where the rank has the part that this member sums up, or gives to all.
  std::function<std::vector<Segment>(GpuId owner)> part;
};

/// One exchange of the plan. Rings go in rounds: in round r of a reduce-scatter the member at place
/// p passes the part of p - 1 - r on, added up so far; of an all-gather that of p - r.
class RingProgram {
 public:
  RingProgram(Draft& draft, RankStep& step) : draft_(draft), step_(step) {}
  /// All collectives of an exchange have as many members. The rank is one of them.
  void add(const RingCollective& collective);
  /// Makes the messages: as many bytes as the plan's, or more if a share is not a whole number of
  /// elements. Throws std::runtime_error when the plan has other partners or far fewer bytes.
  void finish();

 private:
  using Pair = std::pair<Segment, bool>;  // whether it is added to what is there
  struct Passed {
    std::map<GpuId, std::vector<Segment>> sent;
    std::map<GpuId, std::vector<Pair>> received;
  };
  void add_way(const RingCollective& collective, const std::vector<GpuId>& ring, std::int64_t begin,
               std::int64_t end, std::int64_t of);
  std::map<GpuId, std::int64_t> planned(bool sent) const;
  void check_fits() const;
  void add_round(std::size_t round, BufferId out, BufferId in, Round& made) const;
  std::int64_t room(std::size_t round, GpuId peer, bool sent) const;
  std::map<GpuId, std::int64_t> places(bool sent, std::int64_t& bytes) const;

  Draft& draft_;
  RankStep& step_;
  std::vector<Passed> rounds_;
};

}  // namespace moesim
