// SPDX-License-Identifier: Apache-2.0
#include "sim/import/prometheus_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/line_file.h"
#include "sim/import/table_values.h"

namespace moesim {
namespace {

struct Sample {
  std::string metric;
  std::vector<std::string> labels, values;  // the last is the sample's own, "count"
};

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':';
}

std::optional<Sample> sample_of(std::string_view line) {
  std::size_t at = 0;
  const auto name = [&] {
    const std::size_t first = at;
    while (at < line.size() && is_name(line[at])) ++at;
    return std::string(line.substr(first, at - first));
  };
  Sample sample{name(), {}, {}};
  if (sample.metric.empty() || at == line.size() || line[at++] != '{') return std::nullopt;
  while (at < line.size() && line[at] != '}') {
    const std::string label = name();
    if (label.empty() || line.substr(at, 2) != "=\"") return std::nullopt;
    const std::size_t end = line.find('"', at + 2);
    if (end == std::string_view::npos) return std::nullopt;
    sample.labels.push_back(label);
    sample.values.emplace_back(line.substr(at + 2, end - at - 2));
    at = end + 1;
    while (at < line.size() && (line[at] == ',' || line[at] == ' ')) ++at;
  }
  if (at == line.size()) return std::nullopt;
  const std::size_t first = line.find_first_not_of(' ', at + 1);
  if (first == std::string_view::npos) return std::nullopt;
  const std::size_t last = std::min(line.find(' ', first), line.size());  // a time may follow
  sample.labels.emplace_back("count");
  sample.values.emplace_back(line.substr(first, last - first));
  return value_of_text(sample.values.back()).numeric ? std::optional(sample) : std::nullopt;
}

}  // namespace

std::int64_t read_prometheus_rows(const std::string& path, const TableFields& fields,
                                  const TableReader::Use& use) {
  FieldPlaces places(fields);
  LineFile lines(path);
  std::string line, metric;
  std::int64_t rows = 0;
  while (lines.next(line)) {
    const auto sample = sample_of(line);
    if (!sample) continue;
    const auto& found = places.find(sample->labels, path);
    if (found[static_cast<std::size_t>(TableRole::experts)].empty()) continue;
    if (metric.empty()) metric = sample->metric;
    if (sample->metric != metric) {
      throw error_in(path,
                     fmt::format("has metrics '{}' and '{}' of experts", metric, sample->metric),
                     "give the lines of one", lines.line_number());
    }
    TableRow row{path, lines.line_number()};
    fill_row(row, found, fields, sample->labels,
             [&](std::size_t field) { return value_of_text(sample->values[field]); });
    ++rows;
    use(row);
  }
  return rows;
}

}  // namespace moesim
