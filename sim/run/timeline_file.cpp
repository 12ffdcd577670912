// SPDX-License-Identifier: Apache-2.0
#include "sim/run/timeline_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/ordering.h"
#include "sim/base/read_number.h"
#include "sim/base/units.h"

namespace moesim {
namespace {

Error wrong_ranks(const std::string& text) {
  return Error(fmt::format("--timeline-ranks: '{}' names no ranks", text),
               "all, or ranks and ranges: 0,8-15");
}

int rank_of(const std::string& all, std::string_view text) {
  const int rank = parse_integer<int>(text).value_or(-1);
  if (rank < 0) throw wrong_ranks(all);
  return rank;
}

std::vector<GpuId> listed_ranks(const std::string& text, int gpus) {
  std::vector<GpuId> ranks;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view part = std::string_view(text).substr(begin, end - begin);
    const std::size_t dash = part.find('-');
    const int first = rank_of(text, part.substr(0, dash));
    const int last = dash == part.npos ? first : rank_of(text, part.substr(dash + 1));
    if (last < first) throw wrong_ranks(text);
    if (last >= gpus) {
      throw Error(fmt::format("--timeline-ranks: there is no rank {}", last),
                  fmt::format("the cluster has ranks 0 to {}", gpus - 1));
    }
    for (int rank = first; rank <= last; ++rank) ranks.emplace_back(rank);
    begin = end + 1;
  }
  sort_once(ranks);
  return ranks;
}

std::string words_of(const TimelineChoice& choice) {
  const std::string ranks =
      choice.ranks.empty()
          ? fmt::format("at most {} ranks of a case, the first of its pipeline stages",
                        default_ranks)
          : "ranks " + choice.ranks;
  return fmt::format(
      "{}; {}", ranks,
      choice.steps == 1 ? "the first step" : fmt::format("the first {} steps", choice.steps));
}

}  // namespace

std::vector<GpuId> chosen_ranks(const TimelineChoice& choice, int gpus,
                                const std::vector<int>& stage_of) {
  if (choice.ranks == "all") return listed_ranks(fmt::format("0-{}", gpus - 1), gpus);
  if (!choice.ranks.empty()) return listed_ranks(choice.ranks, gpus);
  const int stages = stage_of.empty() ? 1 : 1 + *std::ranges::max_element(stage_of);
  std::map<int, int> left;  // by stage: if they are many, evenly spaced ones
  for (int i = 0; i < default_ranks; ++i) {
    ++left[stages > default_ranks ? i * (stages - 1) / (default_ranks - 1) : i % stages];
  }
  std::vector<GpuId> ranks;
  for (int g = 0; g < gpus; ++g) {
    const auto stage = left.find(stage_of.empty() ? 0 : stage_of[static_cast<std::size_t>(g)]);
    if (stage != left.end() && stage->second-- > 0) ranks.emplace_back(g);
  }
  return ranks;
}

TimelineFile::TimelineFile(TimelineRequest request, int workers, int cases, int most_gpus)
    : request_(std::move(request)), cases_(cases), processes_each_(most_gpus + 1) {
  for (int w = 0; w < workers; ++w) parts_.emplace_back(request_.path);
}

TraceEvents TimelineFile::events(int worker) const {
  const NamelessFile& part = parts_.at(static_cast<std::size_t>(worker));
  return TraceEvents([&part](std::string_view text) { part.append(text); });
}

TimelineCase TimelineFile::named_case(int index, const std::string& name,
                                      std::vector<GpuId> ranks) const {
  return {cases_ == 1 ? "" : name, index * processes_each_, std::move(ranks)};
}

std::optional<TimelineFile> open_timeline(const std::optional<TimelineRequest>& request,
                                          const Inputs& inputs, std::size_t workers,
                                          std::size_t fidelities) {
  if (!request) return std::nullopt;
  int most_gpus = 0;
  for (const ClusterInput& cluster : inputs.clusters) {
    chosen_ranks(request->choice, cluster.topology.gpu_count());
    most_gpus = std::max(most_gpus, cluster.topology.gpu_count());
  }
  return std::optional<TimelineFile>(std::in_place, *request, static_cast<int>(workers),
                                     static_cast<int>(workers * fidelities), most_gpus);
}

void TimelineFile::finish(const std::vector<bool>& has_result) const {
  const std::string shown = words_of(choice());
  FileInParts file(request_.path);
  std::int64_t events = 1, bytes = 0;
  const auto write = [&](std::string_view text) {
    file.write(text);
    bytes += std::ssize(text);
  };
  write(start_of_events(request_.version, shown));
  for (std::size_t w = 0; w < parts_.size(); ++w) {
    if (!has_result[w]) continue;
    parts_[w].read([&](std::string_view text) {
      events += std::ranges::count(text, '\n');
      write(text);
    });
  }
  write(end_of_events);
  file.finish();
  if (!request_.says) return;
  fmt::print(stderr, "timeline: {}: {}; {}, {}; ui.perfetto.dev or chrome://tracing open it\n",
             request_.path, shown, counted(events, "event"), to_string(Bytes(bytes)));
}

}  // namespace moesim
