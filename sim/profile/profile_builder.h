// SPDX-License-Identifier: Apache-2.0
// What the readers of profiles have in common: names that come again and again, one clock for all
// files, launches and shapes that are joined to kernels by their numbers.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "sim/base/error.h"
#include "sim/profile/kernel_table.h"
#include "sim/profile/profile.h"

namespace moesim {

/// A name of a profile as it may be printed and written as JSON: profilers cut names between the
/// bytes of a letter, and damaged files hold any bytes.
std::string text_of_profile(std::string_view text);

/// The kernel names of a profile and the kinds that a table gives them.
class KernelNames {
 public:
  KernelNames(const KernelTable& table, Profile& profile);
  /// Throws Error with `where` at over a million different names.
  std::uint32_t number(std::string_view raw, const std::string& where);
  KernelKind kind(std::uint32_t name) const { return kinds_[name]; }

 private:
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  const KernelTable& table_;
  Profile& profile_;
  std::unordered_map<std::string, std::uint32_t, Hash, std::equal_to<>> numbers_;
  std::vector<KernelKind> kinds_;
};

/// Kernels of one GPU while a file is read.
class RankBuilder {
 public:
  explicit RankBuilder(int device) : device_(device) {}

  int device() const { return device_; }
  std::uint16_t stream(std::string_view name, const std::string& where);
  /// `launch` and `op` are the numbers by which its launch and its op are known; -1: none.
  /// Throws Error for over an hour of kernels, which no profile holds.
  void add(const ProfiledKernel& kernel, std::int64_t launch, std::int64_t op);
  std::int32_t exchange(const ExchangeFacts& facts);
  /// The number of a shape; `key` tells equal ones.
  std::int32_t shape(const std::string& key, const WorkShape& shape);
  ProfiledRank& rank() { return rank_; }
  bool empty() const { return rank_.kernels.empty(); }

  /// Sorted (number, end of the host's call).
  using Launches = std::vector<std::pair<std::int64_t, ProfileTicks>>;
  struct Op {
    std::int64_t number = 0;
    std::int32_t shape = -1, exchange = -1;  // indices into what join_ops() is given
  };
  void join_launches(const Launches& launches);
  /// `ops` sorted by number.
  void join_ops(const std::vector<Op>& ops, const std::vector<WorkShape>& shapes,
                const std::vector<std::pair<KernelKind, ExchangeFacts>>& exchanges);
  /// All by start, `shift` later.
  ProfiledRank finish(ProfileTicks shift);

 private:
  struct Numbers {
    std::int64_t launch = -1, op = -1;
  };
  int device_;
  ProfileTicks total_ = 0;
  ProfiledRank rank_;
  std::vector<Numbers> numbers_;  // of kernels
  std::map<std::string, std::uint16_t, std::less<>> streams_;
  std::unordered_map<std::string, std::int32_t> shapes_;
};

/// Microseconds as whole ones and ticks behind the point: epochs do not fit ticks.
struct ProfileMoment {
  std::int64_t microseconds = 0;
  ProfileTicks rest = 0;
};
ProfileMoment profile_moment(std::string_view text);
/// Since `base` microseconds, at most eleven days before or after it.
ProfileTicks profile_ticks(const ProfileMoment& moment, std::int64_t base);
/// No kernel takes longer than ten minutes.
inline constexpr ProfileTicks longest_kernel = 600'000'000'000'000;
/// A length in microseconds; 0 for what is negative, not a number or over `longest_kernel`.
ProfileTicks profile_length(std::string_view text);
/// Whether an event begins at a number and has a length that a kernel can have.
bool has_times(std::string_view begin, std::string_view length);

/// Kernels of a file that are left out because their times are not times.
class UntimedKernels {
 public:
  void add(std::string_view name);
  bool empty() const { return count_ == 0; }
  /// Notes in the profile how many there are, if any.
  void note(Profile& profile) const;
  /// What a file says that has only such kernels.
  static Error error(const std::string& path);

 private:
  std::int64_t count_ = 0;
  std::string first_;
};

/// The index of a group's name.
std::uint32_t group_number(const std::string& name, Profile& profile);
/// Bytes of an element by PyTorch's and NCCL's names; 0 for others.
std::int64_t element_bytes(std::string_view type);
/// The kind of a collective by PyTorch's and NCCL's names; unknown for others.
KernelKind collective_kind(std::string_view name);
/// Adds a rank to a profile. Throws Error if the profile has one of this number.
void add_rank(ProfiledRank rank, const std::string& path, Profile& profile);

}  // namespace moesim
