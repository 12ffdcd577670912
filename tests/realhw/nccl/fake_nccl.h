// SPDX-License-Identifier: Apache-2.0
// NCCL among the threads of a process, on fake streams: it matches sends and receives per
// communicator, and can be late, fail, or never end. Aborting blocks as in NCCL 2.28: while a graph
// holds messages of the communicator, and while streams of the GPU are busy, on which others may
// spin that are not aborted in the same group.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "realhw/nccl/nccl_api.h"

namespace moesim {

/// One test's: its functions act on the latest one made.
class FakeNccl {
 public:
  enum class Fault {
    none,
    never_joins,   // a rank that never becomes ready
    never_starts,  // a group that is never put on its stream
    never_ends,    // a group that is, and waits for ever
    fails,         // a group after which the communicator has failed
    cuts,          // a group whose first message is a byte short
    flips,         // a group whose first message arrives with other bits in its fourth byte
    refuses,       // a group whose first send is an error
  };
  struct Group {
    int communicator = 0, rank = 0;  // communicators count from 0 as they are made
    std::vector<std::pair<int, std::size_t>> sends, receives;  // peers and bytes, as given
  };

  FakeNccl();
  ~FakeNccl();
  FakeNccl(const FakeNccl&) = delete;

  const NcclApi& api() const { return api_; }
  /// The rank's `group`-th group, over all its communicators, meets it.
  void plan(Fault fault, int rank, int group = 0);

  std::vector<Group> groups();
  /// Ranks that aborted a communicator, each once.
  std::set<int> aborted();
  int made() const { return made_; }  // communicators, over all ranks
  int live() const { return live_; }  // neither destroyed nor aborted
  int hung() const { return hung_; }  // aborts that would have blocked for ever
  int groups_of(int rank);            // so far

  struct World;
  struct Comm;

 private:
  friend struct FakeNcclCalls;

  NcclApi api_;
  std::mutex mutex_;
  Fault fault_ = Fault::none;
  int fault_rank_ = -1, fault_group_ = 0;
  std::vector<Group> groups_;
  std::set<int> aborted_;
  std::vector<std::shared_ptr<World>> worlds_;
  std::vector<std::unique_ptr<Comm>> comms_;
  std::atomic<int> made_ = 0, live_ = 0, hung_ = 0;
};

}  // namespace moesim
