// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/logs/rank_places.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <utility>
#include <vector>

#include "sim/base/figures.h"
#include "sim/base/lower_case.h"

namespace moesim {
namespace {

/// Whether a name of a host stands for any: "localhost", "xx", "***".
bool is_stand_in(const std::string& host) {
  const std::string name = lower_case(host.substr(0, host.find('.')));
  const bool alike = name.size() > 1 && name.find_first_not_of(name[0]) == std::string::npos;
  return alike || name == "localhost" || name == "host" || name == "hostname" || name == "redacted";
}

}  // namespace

void RankPlaces::add_listed(int rank, int group, const std::string& host,
                            const std::string& address, int device) {
  const bool is_new = listed_.try_emplace(rank, Place{group, host}).second;
  repeated_ = repeated_ || !is_new;
  if (!is_new || address.empty()) return;
  note_gpu(listed_gpus_[fmt::format("{} {}", group, host)], fmt::format("{}", device), address,
           rank);
}

void RankPlaces::add_from_nccl(int rank, int ranks, const std::string& host,
                               const std::string& gpu) {
  nccl_hosts_[rank] = host;
  if (ranks > nccl_ranks_) nccl_gpus_ = {};  // those were of a part of the ranks
  nccl_ranks_ = std::max(nccl_ranks_, ranks);
  if (gpu.empty() || ranks != nccl_ranks_) return;
  const std::size_t blank = gpu.find(' ');
  const std::string device = blank == std::string::npos ? "" : gpu.substr(0, blank);
  note_gpu(nccl_gpus_["0 " + host], device, gpu.substr(blank + 1), rank);
}

void RankPlaces::note_gpu(Gpus& gpus, const std::string& device, const std::string& address,
                          int rank) const {
  gpus.addresses.insert(address);
  const auto [known, is_new] = gpus.ranks.try_emplace(device + " " + address, rank);
  gpus.shared = gpus.shared || (!is_new && known->second / local_ != rank / local_);
}

bool RankPlaces::hosts_share_a_name(const GpusByHost& all) {
  return std::ranges::any_of(all, [](const auto& one) {
    const auto& [key, gpus] = one;
    // One byte of an address that all GPUs have tells nothing of them.
    const bool byte = gpus.addresses.begin()->starts_with("0x") && gpus.addresses.size() == 1;
    const bool one_gpu = gpus.ranks.size() == 1 || byte;
    return gpus.shared && !(one_gpu && !is_stand_in(key.substr(key.find(' ') + 1)));
  });
}

bool RankPlaces::in_first_group(const Place& place) const {
  return place.group == listed_.begin()->second.group;
}

int RankPlaces::ranks_of_first_group() const {
  return static_cast<int>(
      std::ranges::count_if(listed_, [&](const auto& one) { return in_first_group(one.second); }));
}

std::string RankPlaces::unlike_groups() const {
  std::map<int, std::pair<int, std::set<std::string>>> groups;  // ranks and hosts
  for (const auto& [rank, place] : listed_) {
    auto& [ranks, hosts] = groups[place.group];
    ++ranks;
    hosts.insert(place.host);
  }
  std::set<std::pair<int, std::int64_t>> sizes;
  for (const auto& [number, group] : groups) {
    sizes.emplace(group.first, std::ssize(group.second));
  }
  if (sizes.size() < 2) return "";
  std::vector<std::string> texts;
  for (const auto& [ranks, hosts] : sizes) {
    texts.push_back(fmt::format("{} on {}", counted(ranks, "rank"), counted(hosts, "host")));
  }
  return fmt::format("{}", fmt::join(texts, ", "));
}

int RankPlaces::ranks() const {
  if (listed_.empty()) return nccl_ranks_;
  const int first_group = ranks_of_first_group();
  if (first_group < std::ssize(listed_)) return first_group;
  const int processes = listed_.rbegin()->first / local_ + 1;
  return std::max(processes * local_, nccl_ranks_);
}

std::map<int, std::string> RankPlaces::placed() const {
  std::map<int, std::string> result;
  for (const auto& [rank, place] : listed_) {
    if (in_first_group(place)) result.emplace(rank / local_, place.host);
  }
  for (const auto& [rank, host] : nccl_hosts_) result.emplace(rank / local_, host);
  return result;
}

std::map<std::string, int> RankPlaces::ranks_by_host() const {
  const std::map<int, std::string> known = placed();
  if (known.empty() || hosts_share_a_name(listed_gpus_) || hosts_share_a_name(nccl_gpus_))
    return {};
  std::map<std::string, int> ranks_of;
  const bool all = ranks_of_first_group() == std::ssize(listed_);
  int next = 0;
  const std::string* before = nullptr;
  for (const auto& [process, host] : known) {
    // Processes that the log leaves out are on a host if those before and after them are.
    const bool gap = all && process != next && (before == nullptr || *before != host);
    if (gap) return {};
    ranks_of[host] += local_ * (all ? process - next + 1 : 1);
    before = &host;
    next = process + 1;
  }
  if (all && next * local_ < ranks()) return {};
  return ranks_of;
}

std::optional<int> RankPlaces::hosts() const {
  const std::map<std::string, int> ranks_of = ranks_by_host();
  return ranks_of.empty() ? std::nullopt : std::optional(static_cast<int>(ranks_of.size()));
}

int RankPlaces::fewest_on_a_host() const {
  const std::map<std::string, int> ranks_of = ranks_by_host();
  if (ranks_of.empty() || ranks_of_first_group() < std::ssize(listed_)) return 0;
  return std::ranges::min(ranks_of | std::views::values);
}

}  // namespace moesim
