// SPDX-License-Identifier: Apache-2.0
#include "sim/import/prometheus_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "sim/base/delimited.h"
#include "sim/base/error.h"
#include "sim/base/line_file.h"
#include "sim/import/dump_names.h"
#include "sim/import/table_values.h"

namespace moesim {
namespace {

struct Sample {
  std::string metric;
  std::vector<std::string> labels, values;  // the last is the sample's own, "count"
  std::optional<double> time = {};
  int line = 0, page = 0;  // of the file; pages begin with the metric's type

  double value() const { return value_of_text(values.back()).numbers.front(); }
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
  const TableValue time = value_of_text(line.substr(last));
  if (time.numeric && time.lists == 0) sample.time = time.numbers.front();
  const TableValue own = value_of_text(sample.values.back());
  return own.numeric && own.lists == 0 ? std::optional(sample) : std::nullopt;
}

/// The samples of a file that have the label of an expert.
class MetricsPage {
 public:
  MetricsPage(const std::string& path, const TableFields& fields)
      : path_(path), fields_(fields), places_(fields) {
    LineFile lines(path);
    std::string line;
    while (lines.next(line)) {
      if (line.front() == '#') {
        note_type(line);
      } else if (auto sample = sample_of(line)) {
        sample->line = lines.line_number();
        take(std::move(*sample));
      }
    }
  }

  std::int64_t size() const { return std::ssize(samples_); }

  void use_rows(PrometheusCounters& counters, const TableReader::Use& use) {
    if (!is_counter()) {
      for (const Sample& sample : samples_) use_row(sample, std::nullopt, std::nullopt, use);
      return;
    }
    bool first = true;
    for (const auto& scrape : scrapes()) {
      std::vector<PrometheusCounters::Sample> counted;
      for (const Sample* sample : scrape) counted.push_back(series_of(*sample));
      const auto [number, counts] = counters.count(rank_in_name(path_), counted, first);
      for (std::size_t i = 0; i < scrape.size(); ++i) use_row(*scrape[i], counts[i], number, use);
      first = false;
    }
  }

 private:
  /// "# TYPE name counter"
  void note_type(const std::string& line) {
    const auto words = cells_of(line, ' ');
    if (words.size() < 4 || words[1] != "TYPE") return;
    types_[words[2]] = words[3];
    const bool of_samples = !samples_.empty() && (words[2] == samples_.front().metric ||
                                                  words[2] + total == samples_.front().metric);
    if (of_samples) ++page_;
  }

  void take(Sample sample) {
    const auto& found = places_.find(sample.labels, path_);
    if (found[static_cast<std::size_t>(TableRole::experts)].empty()) return;
    if (!samples_.empty() && sample.metric != samples_.front().metric) {
      throw error_in(path_,
                     fmt::format("has metrics '{}' and '{}' of experts", samples_.front().metric,
                                 sample.metric),
                     "give the lines of one", sample.line);
    }
    sample.page = page_;
    samples_.push_back(std::move(sample));
  }

  /// By its type; of OpenMetrics, which names types without the ending; else by its name.
  bool is_counter() const {
    if (samples_.empty()) return false;
    const std::string& metric = samples_.front().metric;
    const bool ends = metric.ends_with(total);
    auto type = types_.find(metric);
    if (type == types_.end() && ends) {
      type = types_.find(metric.substr(0, metric.size() - std::string_view(total).size()));
    }
    const bool says =
        type != types_.end() && type->second != "untyped" && type->second != "unknown";
    return says ? type->second == "counter" : ends;
  }

  PrometheusCounters::Sample series_of(const Sample& sample) {
    const auto& found = places_.find(sample.labels, path_);
    const auto is = [&](TableRole role, std::size_t field) {
      return std::ranges::count(found[static_cast<std::size_t>(role)], field) > 0;
    };
    PrometheusCounters::Sample its{"", "", sample.value()};
    for (std::size_t i = 0; i + 1 < sample.labels.size(); ++i) {
      const std::string text = sample.labels[i] + '=' + sample.values[i] + '\n';
      its.series += text;
      if (!is(TableRole::layer, i) && !is(TableRole::experts, i)) its.server += text;
    }
    return its;
  }

  /// By their times; else a page is one, and a series that comes again begins the next.
  std::vector<std::vector<const Sample*>> scrapes() {
    std::vector<std::vector<const Sample*>> scrapes;
    std::map<double, std::vector<const Sample*>> by_time;
    std::set<std::string> seen;
    bool repeats = false;
    for (const Sample& sample : samples_) {
      const bool again = seen.contains(series_of(sample).series);
      repeats = repeats || again;
      if (scrapes.empty() || sample.page != scrapes.back().front()->page || again) {
        scrapes.emplace_back();
        seen.clear();
      }
      seen.insert(series_of(sample).series);
      scrapes.back().push_back(&sample);
      if (sample.time) by_time[*sample.time].push_back(&sample);
    }
    const bool timed = std::ranges::all_of(samples_, [](const auto& s) { return bool{s.time}; });
    if (!timed || !repeats) return scrapes;
    scrapes.clear();
    for (auto& [time, its] : by_time) scrapes.push_back(std::move(its));
    return scrapes;
  }

  void use_row(const Sample& sample, std::optional<double> count,
               std::optional<std::int64_t> scrape, const TableReader::Use& use) {
    TableRow row{path_, sample.line};
    fill_row(row, places_.find(sample.labels, path_), fields_, sample.labels,
             [&](std::size_t field) {
               TableValue value = value_of_text(sample.values[field]);
               if (count && field + 1 == sample.values.size()) value.numbers = {*count};
               return std::optional(value);
             });
    if (!row.step) row.step = scrape;
    use(row);
  }

  static constexpr const char* total = "_total";
  const std::string& path_;
  const TableFields& fields_;
  FieldPlaces places_;
  std::vector<Sample> samples_;
  std::map<std::string, std::string> types_;  // by metric
  int page_ = 0;
};

}  // namespace

std::int64_t read_prometheus_rows(const std::string& path, const TableFields& fields,
                                  PrometheusCounters& counters, const TableReader::Use& use) {
  MetricsPage page(path, fields);
  page.use_rows(counters, use);
  return page.size();
}

}  // namespace moesim
