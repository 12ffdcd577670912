// SPDX-License-Identifier: Apache-2.0
// What GPUs did when, by a profiler: kernels of streams, exchanges with their sizes, steps. Names
// of hosts, users and files of the profile are not kept.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/types.h"
#include "sim/model/kernel.h"
#include "sim/model/op_kind.h"

namespace moesim {

/// What a kernel does. Which kernels are of a kind is data: models/kernels.
enum class KernelKind {
  unknown,
  gemm,
  grouped_gemm,
  attention,
  attention_backward,
  convolution,
  norm,
  elementwise,
  activation,
  cast,
  permute,
  router,
  rope,
  embedding,
  loss,
  optimizer,
  reduction,
  scan,
  sort,
  cache,
  copy,
  host,  // what a GPU waits for its host, as moesim writes it
  all_to_all,
  all_gather,
  reduce_scatter,
  all_reduce,
  broadcast,
  send_recv,
  dispatch,
  combine,
  notify,
  other_exchange
};
inline constexpr int kernel_kind_count = static_cast<int>(KernelKind::other_exchange) + 1;
/// [kind], as tables and YAML have them: "grouped-gemm".
const std::vector<std::string>& kernel_kind_names();
const std::string& name_of(KernelKind kind);
/// Whether GPUs exchange data in it or wait for each other.
bool is_exchange(KernelKind kind);

/// A time of a profile: nanoseconds in 1/1000, from the profile's first event on.
using ProfileTicks = std::int64_t;  // ps
inline Seconds seconds_of(ProfileTicks ticks) {
  return Seconds(static_cast<double>(ticks) * 1e-12);
}

/// What the metadata of an exchange say.
struct ExchangeFacts {
  std::int64_t in_bytes = 0, out_bytes = 0;  // of this rank; 0: unknown
  int ranks = 0;                             // of the group; 0: unknown
  std::uint32_t group = 0;                   // index into groups
  std::int64_t sequence = -1;                // of the group's exchanges, if the profile counts them
  std::string link;                          // class of the busiest link; empty: unknown
  std::int64_t link_bytes = 0;               // on it
  ProfileTicks waiting = -1;                 // for the last rank; -1: unknown
};

/// What a kernel computes, and which op of a plan it is, as far as the profile says.
struct WorkShape {
  std::optional<OpType> op;
  Kernel work;
  bool operator==(const WorkShape&) const = default;
};

struct ProfiledKernel {
  ProfileTicks start = 0, length = 0;
  ProfileTicks launch = -1;  // the end of the host's call; -1: unknown
  std::uint32_t name = 0;
  std::int32_t exchange = -1, shape = -1;  // indices, -1: none
  std::uint16_t stream = 0;                // index into streams
  KernelKind kind = KernelKind::unknown;
  ProfileTicks end() const { return start + length; }
};

/// What one GPU did.
struct ProfiledRank {
  int rank = 0;
  std::string gpu;                      // "NVIDIA H800"; empty: unknown
  std::vector<std::string> streams;     // "7", "ep"
  std::vector<ProfiledKernel> kernels;  // by start
  std::vector<ExchangeFacts> exchanges;
  std::vector<WorkShape> shapes;
  std::vector<std::pair<ProfileTicks, ProfileTicks>> steps;  // begin and end, by begin
  ProfileTicks shift = 0;                                    // added to align its clock
};

/// The ranks of a run.
struct Profile {
  std::string producer;  // "PyTorch profiler", "moesim" ...
  std::vector<std::string> kernel_names;
  std::vector<std::string> groups;  // of ranks: "0-7", "default_pg of 8"
  /// Numbers of communicators by their identities, which are the same on all their ranks.
  std::map<std::string, int> communicators;
  std::vector<ProfiledRank> ranks;  // by rank
  /// Named times that the program took itself, least and largest over ranks, in seconds.
  std::map<std::string, std::vector<std::pair<double, double>>> timers;
  std::vector<std::string> notes;        // what people should know: "ends early ..."
  std::int64_t bytes = 0;                // of the files, unpacked
  std::int64_t origin_microseconds = 0;  // of all times, since some epoch
  bool one_clock = false;                // of all ranks: the program aligned them itself
};

/// Whether it has steps and no kernels, as Megatron-LM's logs.
bool is_log(const Profile& profile);

}  // namespace moesim
