// SPDX-License-Identifier: Apache-2.0
#include "sim/run/pictured_results.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "sim/report/sums.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_bytes = 1'600'000;   // of all pictures; a report has 3 MB
constexpr std::int64_t most_ids = 400'000'000;  // of a trace; beyond, every n-th step is read
constexpr std::size_t most_steps = 128;         // cells of a heat map

/// Indices of cases, those first that say most.
std::vector<std::size_t> by_interest(const std::vector<PicturedCase>& cases) {
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].pictures != nullptr) groups[cases[i].group].push_back(i);
  }
  const auto time = [&](std::size_t i) { return cases[i].time; };
  std::vector<std::size_t> order;
  const auto add = [&](std::size_t i) {
    if (std::ranges::find(order, i) == order.end()) order.push_back(i);
  };
  for (const auto& [name, members] : groups) {
    add(members.front());
    add(*std::ranges::min_element(members, {}, time));
  }
  for (const auto& [name, members] : groups) add(*std::ranges::max_element(members, {}, time));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    if (cases[i].pictures != nullptr) add(i);
  }
  return order;
}

using Counts = std::vector<std::int64_t>;

Counts count_experts(const IdRows& ids, int experts) {
  Counts counts(static_cast<std::size_t>(experts));
  for (std::int64_t token = 0; token < ids.tokens(); ++token) {
    for (int k = 0; k < ids.top_k(); ++k) {
      const auto expert = static_cast<std::size_t>(ids.at(token, k));
      if (expert < counts.size()) ++counts[expert];
    }
  }
  return counts;
}

Json percent_of_mean(const Counts& counts) {
  const auto sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  Json list = Json::array();
  for (const std::int64_t count : counts) {
    list.push_back(sum == 0 ? 0
                            : std::llround(100.0 * static_cast<double>(count) *
                                           static_cast<double>(counts.size()) /
                                           static_cast<double>(sum)));
  }
  return list;
}

/// Loads of the experts as they were recorded: over all steps, and how uneven each step is.
Json expert_loads_json(const RoutingTrace& trace) {
  const TraceInfo& info = trace.info();
  const std::int64_t ids =
      trace.total_tokens() * info.top_k * static_cast<std::int64_t>(info.layers.size());
  const int every = static_cast<int>(std::max(
      ids / most_ids + 1, (trace.step_count() + static_cast<std::int64_t>(most_steps) - 1) /
                              static_cast<std::int64_t>(most_steps)));
  Json layers = Json::array(), experts = Json::array(), steps = Json::array(),
       numbers = Json::array();
  for (int s = 0; s < trace.step_count(); s += every) numbers.push_back(trace.step(s).number());
  for (std::size_t l = 0; l < info.layers.size(); ++l) {
    Counts sum(static_cast<std::size_t>(info.experts));
    Json of_steps = Json::array();
    for (int s = 0; s < trace.step_count(); s += every) {
      const Counts counts = count_experts(trace.step(s).ids(static_cast<int>(l)), info.experts);
      add_to(sum, counts);
      of_steps.push_back(std::llround(100 * max_over_mean(counts)));
    }
    layers.push_back(info.layers[l]);
    experts.push_back(percent_of_mean(sum));
    steps.push_back(std::move(of_steps));
  }
  return {{"layers", layers},           {"experts", info.experts},
          {"steps", numbers},           {"recorded_steps", trace.step_count()},
          {"percent_of_mean", experts}, {"max_over_mean_percent", steps}};
}

}  // namespace

void add_pictures(Json& document, const std::vector<PicturedCase>& cases,
                  const RoutingTrace& trace) {
  std::size_t bytes = 0;
  std::vector<const Topology*> drawn;
  Json drawings = Json::array();
  for (const std::size_t i : by_interest(cases)) {
    Json pictures = pictures_json(*cases[i].pictures, *cases[i].topology);
    const std::size_t more = pictures.dump().size();
    if (bytes > 0 && bytes + more > most_bytes) continue;
    bytes += more;
    document["cases"][i]["pictures"] = std::move(pictures);
    if (std::ranges::find(drawn, cases[i].topology) != drawn.end()) continue;
    drawn.push_back(cases[i].topology);
    drawings.push_back(drawing_json(*cases[i].topology));
  }
  document["drawings"] = std::move(drawings);
  if (trace.step_count() > 0) document["expert_loads"] = expert_loads_json(trace);
}

}  // namespace moesim
