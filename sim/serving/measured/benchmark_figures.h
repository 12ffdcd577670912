// SPDX-License-Identifier: Apache-2.0
// What a benchmark states, by name: tools nest and write the same names in their own ways.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// Names are in small letters and digits alone, those of objects before a point: "Mean TTFT (ms)"
/// and mean_ttft_ms are "meanttftms", {"request_info": {"num_requests": 5}} has
/// "requestinfo.numrequests".
struct BenchmarkFigures {
  std::map<std::string, double, std::less<>> numbers;  // times of AIPerf in seconds
  std::map<std::string, std::string, std::less<>> texts;
  std::map<std::string, std::vector<double>, std::less<>> lists;

  std::map<std::string, std::string, std::less<>> written;  // names as the file has them
  std::set<std::string> left_out;                           // of those that are no figures

  /// The first of these names that has a number.
  std::optional<double> number(std::initializer_list<std::string_view> names) const;
  /// The same of what was measured; what is null, not finite or below 0 is left out.
  std::optional<double> figure(std::initializer_list<std::string_view> names);
  std::string text(std::initializer_list<std::string_view> names) const;
};

/// Of an object, whatever is in it. An object with a `unit` of time has times.
BenchmarkFigures figures_of_json(const nlohmann::ordered_json& object);
/// Adds a line "Mean TTFT (ms):      68.1"; others are left out.
void add_printed_figure(std::string_view line, BenchmarkFigures& figures);

}  // namespace moesim
