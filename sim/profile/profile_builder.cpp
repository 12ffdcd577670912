// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/profile_builder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numeric>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/read_number.h"
#include "sim/base/text.h"
#include "sim/profile/flat_json.h"

namespace moesim {
namespace {

constexpr std::size_t most_names = 1U << 20, most_streams = 60000, longest_name = 4096;

/// What is behind the last slash: a path says who ran it where. Operators are part of a name.
std::string without_path(std::string name) {
  for (std::size_t at = name.find('/'); at != name.npos; at = name.find('/', at)) {
    std::size_t begin = at;
    while (begin > 0 && name[begin - 1] != ' ' && name[begin - 1] != '(' &&
           name[begin - 1] != ',') {
      --begin;
    }
    name.erase(begin, at + 1 - begin);
    at = begin;
  }
  return name;
}

/// The number that all of the text is.
std::optional<double> number_of(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, status] = read_number(text.data(), end, value);
  const bool whole = status == std::errc() && stop == end && std::isfinite(value);
  return whole ? std::optional(value) : std::nullopt;
}

}  // namespace

std::string text_of_profile(std::string_view text) {
  return is_text(text) ? printable(text) : "(not UTF-8)";
}

KernelNames::KernelNames(const KernelTable& table, Profile& profile)
    : table_(table), profile_(profile) {
  for (std::size_t i = 0; i < profile.kernel_names.size(); ++i) {
    numbers_.emplace(profile.kernel_names[i], static_cast<std::uint32_t>(i));
    kinds_.push_back(table.kind_of(profile.kernel_names[i]));
  }
}

std::uint32_t KernelNames::number(std::string_view raw, const std::string& where) {
  raw = raw.substr(0, longest_name);
  if (const auto known = numbers_.find(raw); known != numbers_.end()) return known->second;
  const std::string name = text_of_profile(without_path(flat_string(raw)));
  const auto number = static_cast<std::uint32_t>(profile_.kernel_names.size());
  if (number >= most_names) throw error_in(where, "has over a million different kernels");
  numbers_.emplace(raw, number);
  profile_.kernel_names.push_back(name);
  kinds_.push_back(table_.kind_of(name));
  return number;
}

std::uint16_t RankBuilder::stream(std::string_view name, const std::string& where) {
  if (const auto known = streams_.find(name); known != streams_.end()) return known->second;
  const auto number = static_cast<std::uint16_t>(rank_.streams.size());
  if (rank_.streams.size() >= most_streams) throw error_in(where, "has over 60000 streams");
  streams_.emplace(std::string(name), number);
  constexpr std::size_t longest_shown = 200;
  rank_.streams.push_back(text_of_profile(flat_string(name).substr(0, longest_shown)));
  return number;
}

void RankBuilder::add(const ProfiledKernel& kernel, std::int64_t launch, std::int64_t op) {
  constexpr ProfileTicks most = 4'000'000'000'000'000;
  total_ += kernel.length;
  if (total_ > most) throw Error("the profile holds over an hour of kernels of one GPU");
  rank_.kernels.push_back(kernel);
  numbers_.push_back({launch, op});
}

std::int32_t RankBuilder::exchange(const ExchangeFacts& facts) {
  rank_.exchanges.push_back(facts);
  return static_cast<std::int32_t>(rank_.exchanges.size() - 1);
}

std::int32_t RankBuilder::shape(const std::string& key, const WorkShape& shape) {
  const auto [at, fresh] = shapes_.emplace(key, static_cast<std::int32_t>(rank_.shapes.size()));
  if (fresh) rank_.shapes.push_back(shape);
  return at->second;
}

void RankBuilder::join_launches(const Launches& launches) {
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    const std::int64_t number = numbers_[i].launch;
    if (number < 0) continue;
    const auto found = std::ranges::lower_bound(launches, number, {},
                                                &std::pair<std::int64_t, ProfileTicks>::first);
    if (found != launches.end() && found->first == number) rank_.kernels[i].launch = found->second;
  }
}

void RankBuilder::join_ops(const std::vector<Op>& ops, const std::vector<WorkShape>& shapes,
                           const std::vector<std::pair<KernelKind, ExchangeFacts>>& exchanges) {
  if (!shapes.empty()) rank_.shapes = shapes;
  for (std::size_t i = 0; i < numbers_.size(); ++i) {
    if (numbers_[i].op < 0) continue;
    const auto found = std::ranges::lower_bound(ops, numbers_[i].op, {}, &Op::number);
    if (found == ops.end() || found->number != numbers_[i].op) continue;
    ProfiledKernel& kernel = rank_.kernels[i];
    if (kernel.shape < 0) kernel.shape = found->shape;
    if (kernel.exchange < 0 && found->exchange >= 0 && is_exchange(kernel.kind)) {
      const auto& [kind, facts] = exchanges[static_cast<std::size_t>(found->exchange)];
      if (kind != KernelKind::unknown) kernel.kind = kind;
      kernel.exchange = exchange(facts);
    }
  }
}

ProfiledRank RankBuilder::finish(ProfileTicks shift) {
  std::vector<Numbers>().swap(numbers_);
  for (ProfiledKernel& kernel : rank_.kernels) {
    kernel.start += shift;
    if (kernel.launch >= 0) kernel.launch += shift;
  }
  for (auto& [begin, end] : rank_.steps) {
    begin += shift;
    end += shift;
  }
  std::ranges::sort(rank_.steps);
  std::ranges::sort(rank_.kernels, [](const ProfiledKernel& a, const ProfiledKernel& b) {
    return std::pair(a.start, a.stream) < std::pair(b.start, b.stream);
  });
  return std::move(rank_);
}

ProfileMoment profile_moment(std::string_view text) {
  ProfileMoment moment;
  if (text.find_first_of("eE") != text.npos) {
    const double value = flat_number(text);
    if (!(std::abs(value) < 4e18)) return {};
    moment.microseconds = static_cast<std::int64_t>(value);
    moment.rest = std::llround((value - std::trunc(value)) * 1e6);
    return moment;
  }
  const char* const end = text.data() + text.size();
  const auto [point, status] = std::from_chars(text.data(), end, moment.microseconds);
  constexpr std::int64_t most_microseconds = 4'000'000'000'000'000'000;
  if (status != std::errc() || moment.microseconds > most_microseconds ||
      moment.microseconds < -most_microseconds) {
    return {};
  }
  if (point == end || *point != '.') return moment;
  ProfileTicks unit = 100000;
  for (const char* at = point + 1; at != end && *at >= '0' && *at <= '9' && unit > 0; ++at) {
    moment.rest += (*at - '0') * unit;
    unit /= 10;
  }
  if (text.starts_with('-')) moment.rest = -moment.rest;
  return moment;
}

ProfileTicks profile_ticks(const ProfileMoment& moment, std::int64_t base) {
  constexpr std::int64_t most = 1'000'000'000'000;
  return std::clamp(moment.microseconds - base, -most, most) * 1'000'000 + moment.rest;
}

ProfileTicks profile_length(std::string_view text) {
  const ProfileMoment moment = profile_moment(text);
  constexpr std::int64_t most = longest_kernel / 1'000'000;
  if (moment.microseconds < 0 || moment.microseconds >= most || moment.rest < 0) return 0;
  return moment.microseconds * 1'000'000 + moment.rest;
}

bool has_times(std::string_view begin, std::string_view length) {
  constexpr double latest = 4e18, longest = 600e6;  // us
  const auto at = number_of(begin), its = number_of(length);
  return at && its && std::abs(*at) < latest && *its >= 0 && *its < longest;
}

void UntimedKernels::add(std::string_view name) {
  if (count_++ == 0) first_ = text_of_profile(flat_string(name));
}

void UntimedKernels::note(Profile& profile) const {
  if (empty()) return;
  profile.notes.push_back(fmt::format("leaves out {} whose times are not times, first '{}'",
                                      counted(count_, "kernel"), first_));
}

Error UntimedKernels::error(const std::string& path) {
  return error_in(path, "has no kernel with a valid start and length",
                  "the file is damaged or cut short: export it again");
}

std::uint32_t group_number(const std::string& name, Profile& profile) {
  const auto known = std::ranges::find(profile.groups, name);
  const auto number = static_cast<std::uint32_t>(known - profile.groups.begin());
  if (known == profile.groups.end()) profile.groups.push_back(name);
  return number;
}

std::int64_t element_bytes(std::string_view type) {
  static const std::map<std::string_view, std::int64_t> bytes = {
      {"Float", 4},       {"BFloat16", 2},    {"Half", 2},           {"Double", 8},
      {"Byte", 1},        {"Char", 1},        {"Bool", 1},           {"Int", 4},
      {"Long", 8},        {"Short", 2},       {"Float8_e4m3fn", 1},  {"Float8_e5m2", 1},
      {"ncclFloat32", 4}, {"ncclFloat16", 2}, {"ncclBfloat16", 2},   {"ncclFloat64", 8},
      {"ncclInt8", 1},    {"ncclUint8", 1},   {"ncclInt32", 4},      {"ncclUint32", 4},
      {"ncclInt64", 8},   {"ncclUint64", 8},  {"ncclFloat8e4m3", 1}, {"ncclFloat8e5m2", 1}};
  const auto known = bytes.find(type);
  return known == bytes.end() ? 0 : known->second;
}

KernelKind collective_kind(std::string_view name) {
  std::string plain;
  for (const char c : name) {
    if (c >= 'A' && c <= 'Z') plain += static_cast<char>(c - 'A' + 'a');
    if (c >= 'a' && c <= 'z') plain += c;
  }
  const auto has = [&](const char* part) { return plain.find(part) != plain.npos; };
  if (has("alltoall")) return KernelKind::all_to_all;
  if (has("allreduce") || has("barrier")) return KernelKind::all_reduce;
  if (has("reducescatter")) return KernelKind::reduce_scatter;
  if (has("allgather")) return KernelKind::all_gather;
  if (has("broadcast")) return KernelKind::broadcast;
  if (has("send") || has("recv")) return KernelKind::send_recv;
  if (has("gather") || has("scatter") || has("reduce")) return KernelKind::other_exchange;
  return KernelKind::unknown;
}

void add_rank(ProfiledRank rank, const std::string& path, Profile& profile) {
  const auto place = std::ranges::lower_bound(profile.ranks, rank.rank, {}, &ProfiledRank::rank);
  if (place != profile.ranks.end() && place->rank == rank.rank) {
    throw error_in(path, fmt::format("rank {} is in another file, too", rank.rank),
                   "give each rank's trace once, of one run");
  }
  profile.ranks.insert(place, std::move(rank));
}

}  // namespace moesim
