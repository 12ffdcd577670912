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
  /// A rank that the test lists. Ranks of other groups than the first run tests of their own. If
  /// two processes of a group have one GPU by host, device and address, several hosts share a name
  /// (containers, names that were taken out), unless all that the name has are on one GPU, as NCCL
  /// may be told to allow. Older tests print one byte of an address, which GPUs may share.
  void add_listed(int rank, int group, const std::string& host, const std::string& address = "",
                  int device = -1);
  /// A rank that NCCL's own log lines name, and its GPU if they do.
  void add_from_nccl(int rank, int ranks, const std::string& host, const std::string& gpu = "");

  bool listed() const { return !listed_.empty(); }
  /// A rank was listed twice: processes that do not know of each other.
  bool repeated() const { return repeated_; }
  /// Groups that differ, "8 ranks on 1 host, 24 ranks on 3 hosts"; empty if all are alike. A test's
  /// times are those of its slowest group.
  std::string unlike_groups() const;
  int ranks() const;                 // 0: unknown
  std::optional<int> hosts() const;  // nothing when some rank's host is unknown
  int fewest_on_a_host() const;      // ranks of the host that has the fewest; 0: unknown

 private:
  struct Place {
    int group;
    std::string host;
  };
  bool in_first_group(const Place& place) const;
  int ranks_of_first_group() const;
  /// Hosts of processes of the first group.
  std::map<int, std::string> placed() const;
  /// Empty when some rank's host is unknown.
  std::map<std::string, int> ranks_by_host() const;

  int local_ = 1;
  std::map<int, Place> listed_;
  bool repeated_ = false;
  /// Of a name: GPUs with a rank of each, their addresses, and whether two processes share one.
  struct Gpus {
    std::map<std::string, int> ranks = {};
    std::set<std::string> addresses = {};
    bool shared = false;
  };
  using GpusByHost = std::map<std::string, Gpus>;
  void note_gpu(Gpus& gpus, const std::string& device, const std::string& address, int rank) const;
  static bool hosts_share_a_name(const GpusByHost& all);
  GpusByHost listed_gpus_, nccl_gpus_;  // the first by group and host
  std::map<int, std::string> nccl_hosts_;
  int nccl_ranks_ = 0;
};

}  // namespace moesim
