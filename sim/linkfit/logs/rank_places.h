// SPDX-License-Identifier: Apache-2.0
// Where the ranks of a test of nccl-tests ran, as far as its log says.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

namespace moesim {

/// Where the ranks of a test ran. Lists of ranks may be incomplete: nccl-tests name only the first
/// of a process in JSON, cut the lines of processes with many GPUs, and people shorten what they
/// post.
class RankPlaces {
 public:
  /// Ranks that a process has: threads x GPUs of each. They are consecutive.
  void set_local(int ranks) { local_ = ranks; }
  /// A rank that the test lists. Ranks of other groups than the first run tests of their own. Two
  /// of a group at one address of a host: several hosts have its name, as containers often do,
  /// unless all share one GPU.
  void list(int rank, int group, const std::string& host, const std::string& address = "");
  /// A rank of whose communicator NCCL itself tells.
  void tell(int rank, int ranks, const std::string& host);

  bool listed() const { return !listed_.empty(); }
  /// A rank was listed twice: processes that do not know of each other.
  bool repeated() const { return repeated_; }
  int ranks() const;                 // 0: unknown
  std::optional<int> hosts() const;  // nothing when some rank's host is unknown

 private:
  /// Hosts of processes of the first group.
  std::map<int, std::string> placed() const;

  struct Place {
    int group;
    std::string host;
  };
  int local_ = 1;
  std::map<int, Place> listed_;
  bool repeated_ = false;
  std::set<std::string> gpus_;
  bool share_a_gpu_ = false;
  std::map<int, std::string> told_;
  int told_ranks_ = 0;
};

}  // namespace moesim
