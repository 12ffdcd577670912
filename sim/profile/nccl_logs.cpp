// SPDX-License-Identifier: Apache-2.0
#include "sim/profile/nccl_logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/profile/flat_json.h"
#include "sim/profile/kineto_args.h"
#include "sim/profile/profile_builder.h"

namespace moesim {
namespace {

constexpr ProfileTicks ticks_per_ns = 1000, ticks_per_us = 1'000'000;
constexpr std::int64_t month_of_us = 2'600'000'000'000, most_message = std::int64_t{1} << 50;

/// Collectives of one file, which become ranks with one stream per group.
class CollectiveFile {
 public:
  CollectiveFile(const std::string& path, const char* producer, const KernelTable& table,
                 Profile& profile)
      : path_(path), names_(table, profile), profile_(profile) {
    profile.producer = producer;
  }

  /// `end`: microseconds since an epoch; `rank`: -1 if the file does not say.
  void add(int rank, std::string_view name, const ProfileMoment& end, ProfileTicks length,
           const ExchangeFacts& facts) {
    if (profile_.ranks.empty() && profile_.origin_microseconds == 0) {
      profile_.origin_microseconds = end.microseconds;
    }
    const std::int64_t since = end.microseconds - profile_.origin_microseconds;
    if (since > month_of_us || since < -month_of_us) {
      ++far_;
      return;
    }
    RankBuilder& builder = builders_.try_emplace(rank, 0).first->second;
    ProfiledKernel kernel;
    kernel.length = length;
    kernel.start = since * ticks_per_us + end.rest - length;
    kernel.name = names_.number(name, path_);
    kernel.kind = collective_kind(name);
    if (kernel.kind == KernelKind::unknown) kernel.kind = KernelKind::other_exchange;
    kernel.stream = builder.stream(profile_.groups[facts.group], path_);
    kernel.exchange = builder.exchange(facts);
    builder.add(kernel, -1, -1);
  }

  void leave_out(std::string_view name) { untimed_.add(name); }

  void finish(std::int64_t bytes) {
    profile_.bytes += bytes;
    if (builders_.empty() && !untimed_.empty()) throw UntimedKernels::error(path_);
    untimed_.note(profile_);
    if (far_ > 0) {
      profile_.notes.push_back(
          fmt::format("leaves out {} over a month from the first", counted(far_, "collective")));
    }
    if (builders_.empty()) throw error_in(path_, "holds no collective that ended");
    for (auto& [rank, builder] : builders_) {
      const int next = profile_.ranks.empty() ? 0 : profile_.ranks.back().rank + 1;
      builder.rank().rank = rank < 0 ? next : rank;
      add_rank(builder.finish(0), path_, profile_);
    }
  }

 private:
  std::string path_;
  KernelNames names_;
  Profile& profile_;
  std::map<int, RankBuilder> builders_;
  UntimedKernels untimed_;
  std::int64_t far_ = 0;
};

/// A number says nothing of the host.
int communicator_number(std::string_view identity, Profile& profile) {
  const auto next = static_cast<int>(profile.communicators.size());
  return profile.communicators.try_emplace(std::string(identity), next).first->second;
}

int rank_in(std::string_view text) {
  const std::int64_t rank = flat_whole(text);
  return rank >= 0 && rank < 1 << 24 ? static_cast<int>(rank) : -1;
}

ProfileMoment moment_of_ns(std::int64_t ns) { return {ns / 1000, ns % 1000 * ticks_per_ns}; }

/// The elements of all tensors in "[[8, 4], [2]]" by the bytes of "[\"Float\", ...]".
std::int64_t tensor_bytes(std::string_view sizes, std::string_view types) {
  const auto type_items = flat_items(types);
  std::int64_t sum = 0;
  std::size_t i = 0;
  for (const std::string_view tensor : flat_items(sizes)) {
    std::int64_t count = 1;
    for (const std::string_view size : flat_items(tensor)) {
      count *= std::clamp<std::int64_t>(flat_whole(size), 0, 1 << 30);
      if (count > 1 << 30) return 0;  // no collective has so many elements in one tensor
    }
    const std::int64_t each =
        type_items.empty() ? 0 : element_bytes(type_items[std::min(i, type_items.size() - 1)]);
    sum = std::min(sum + count * each, most_message);
    ++i;
  }
  return sum;
}

/// A group's ranks by the dump's pg_config: {"0": {"name": "0", "ranks": "[0, 1]"}}.
std::map<std::string, std::string> ranks_of_groups(std::string_view config) {
  std::map<std::string, std::string> ranks;
  for (const FlatField& field : flat_object(config).fields) {
    if (field.key == "ranks") ranks[std::string(field.parent)] = ranks_text(field.value);
  }
  return ranks;
}

int count_of_ranks(const std::string& text) {
  int count = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string run = text.substr(at, end - at);
    const std::size_t dash = run.find('-');
    const std::int64_t first = flat_whole(run.substr(0, dash));
    const std::int64_t last = dash == run.npos ? first : flat_whole(run.substr(dash + 1));
    if (first >= 0 && last >= first && last < 1 << 24) count += static_cast<int>(last - first + 1);
    at = end + 1;
  }
  return count;
}

/// Whose records the lines of NCCL's inspector are: each line says it, or since its format v4.3 the
/// line before a batch of them.
struct InspectorBatch {
  void take(const FlatObject& line) {
    if (line.in("header", "rank").empty()) return;
    id = line.in("header", "id");
    rank = rank_in(line.in("header", "rank"));
    ranks = std::max(0, rank_in(line.in("header", "n_ranks")));
    dumped = profile_moment(line.in("metadata", "dump_timestamp_us"));
  }

  std::string id;
  int rank = -1, ranks = 0;
  ProfileMoment dumped;
};

}  // namespace

void read_flight_recorder(const std::string& path, const KernelTable& table, Profile& profile) {
  CollectiveFile file(path, "PyTorch's flight recorder", table, profile);
  FlatJson json(path, "entries");
  struct Ended {
    std::string name, group;
    std::int64_t end;
    ProfileTicks length;
    ExchangeFacts facts;
  };
  std::vector<Ended> all;  // what describes their groups may be behind them
  std::int64_t undone = 0;
  FlatObject entry;
  while (json.next(entry)) {
    const std::int64_t end = flat_whole(entry("time_discovered_completed_ns"));
    const std::int64_t begin = flat_whole(entry("time_discovered_started_ns"));
    ProfileTicks length =
        static_cast<ProfileTicks>(std::clamp(flat_number(entry("duration_ms")), 0.0, 1e6) * 1e9);
    if (length <= 0 && begin > 0 && begin < end) {
      length = std::min(end - begin, longest_kernel / ticks_per_ns) * ticks_per_ns;
    }
    if (end <= 0 || length <= 0 || length >= longest_kernel) {
      ++undone;
      continue;
    }
    const auto group = flat_items(entry("process_group"));
    const std::string number = group.empty() ? "" : text_of_profile(flat_string(group.front()));
    ExchangeFacts facts;
    facts.in_bytes = tensor_bytes(entry("input_sizes"), entry("input_dtypes"));
    facts.out_bytes = tensor_bytes(entry("output_sizes"), entry("output_dtypes"));
    facts.sequence = flat_whole(entry("collective_seq_id"));
    all.push_back({std::string(entry("profiling_name")), number, end, length, facts});
  }
  const auto config = json.others().find("pg_config");
  auto groups = ranks_of_groups(config == json.others().end() ? "" : config->second);
  for (Ended& one : all) {
    const std::string& ranks = groups[one.group];
    one.facts.ranks = count_of_ranks(ranks);
    one.facts.group = group_number("group " + (ranks.empty() ? one.group : ranks), profile);
    file.add(-1, one.name, moment_of_ns(one.end), one.length, one.facts);
  }
  if (undone > 0)
    profile.notes.push_back(fmt::format("{} did not end", counted(undone, "collective")));
  file.finish(json.bytes());
}

void read_nccl_inspector(const std::string& path, const KernelTable& table, Profile& profile) {
  CollectiveFile file(path, "NCCL inspector", table, profile);
  FlatJson json(path, "");
  InspectorBatch batch;
  FlatObject line;
  while (json.next(line)) {
    batch.take(line);
    const bool point_to_point = !line.in("p2p_perf", "p2p").empty();
    const char* const perf = point_to_point ? "p2p_perf" : "coll_perf";
    const std::string prefix = point_to_point ? "p2p" : "coll";
    const std::string_view name = line.in(perf, prefix);
    if (name.empty()) continue;
    const std::string_view length = line.in(perf, prefix + "_exec_time_us");
    if (!has_times("0", length)) {
      file.leave_out(name);
      continue;
    }
    ExchangeFacts facts;
    facts.in_bytes = std::clamp<std::int64_t>(flat_whole(line.in(perf, prefix + "_msg_size_bytes")),
                                              0, most_message);
    facts.ranks = batch.ranks;
    if (!point_to_point) facts.sequence = flat_whole(line.in(perf, "coll_sn"));
    const int number = communicator_number(batch.id, profile);
    facts.group = group_number(fmt::format("communicator {} of {}", number, facts.ranks), profile);
    file.add(batch.rank, name, batch.dumped, profile_length(length), facts);
  }
  file.finish(json.bytes());
}

void read_nccl_profiler(const std::string& path, const KernelTable& table, Profile& profile) {
  CollectiveFile file(path, "NCCL profiler", table, profile);
  FlatJson json(path, "traceEvents");
  struct Begun {
    ProfileMoment at;
    std::string name;
    int rank = -1;
    ExchangeFacts facts;
  };
  std::map<std::pair<std::string, std::int64_t>, Begun> begun;
  FlatObject event;
  while (json.next(event)) {
    const std::string_view category = event("cat");
    if (category != "COLL" && category != "P2P") continue;
    const bool timed = has_times(event("ts"), "0");
    const std::pair<std::string, std::int64_t> key{event("name"), flat_whole(event("id"))};
    if (!timed) {
      if (event("ph") == "b" || begun.erase(key) > 0) file.leave_out(key.first);
    } else if (event("ph") == "b") {
      Begun one{profile_moment(event("ts")), key.first, rank_in(event.in("args", "Rank")), {}};
      one.facts.in_bytes =
          std::clamp<std::int64_t>(flat_whole(event.in("args", "Count")), 0, most_message) *
          element_bytes(event.in("args", "Datatype"));
      one.facts.sequence = flat_whole(event.in("args", "SeqNum"));
      const int number = communicator_number(event.in("args", "CommHash"), profile);
      one.facts.group = group_number(fmt::format("communicator {}", number), profile);
      if (begun.size() < 1U << 20) begun.insert_or_assign(key, std::move(one));
    } else if (const auto start = begun.find(key); event("ph") == "e" && start != begun.end()) {
      const ProfileMoment end = profile_moment(event("ts"));
      const Begun& one = start->second;
      const ProfileTicks length = profile_ticks(end, one.at.microseconds) - one.at.rest;
      if (length >= 0 && length < longest_kernel) {
        file.add(one.rank, one.name, end, length, one.facts);
      } else {
        file.leave_out(one.name);
      }
      begun.erase(start);
    }
  }
  if (!begun.empty())
    profile.notes.push_back(fmt::format("{} did not end", counted(begun.size(), "collective")));
  file.finish(json.bytes());
}

}  // namespace moesim
