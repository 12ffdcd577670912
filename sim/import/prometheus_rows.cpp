// SPDX-License-Identifier: Apache-2.0
#include "sim/import/prometheus_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/line_file.h"
#include "sim/import/input_hash.h"
#include "sim/import/prometheus_samples.h"
#include "sim/import/table_values.h"

namespace moesim {
namespace {

bool has_expert(const std::vector<std::string>& labels, const TableFields& fields) {
  return std::ranges::any_of(labels, [&](const std::string& label) {
    return fields.role_of(label) == TableRole::experts;
  });
}

[[noreturn]] void refuse_sample(const std::string& path, int line) {
  throw error_in(path, "is cut or changed: a sample of an expert without labels and a number",
                 "a line is name{layer=\"1\",expert=\"0\"} 4", line);
}

/// The samples of a file that have the label of an expert.
class MetricsPage {
 public:
  MetricsPage(const std::string& path, const TableFields& fields)
      : path_(path), fields_(fields), places_(fields) {}

  void take_line(const std::string& text, int line) {
    MetricLine found = metric_line(text);
    if (!found.type.empty()) note_type(found.type);
    if (has_expert(found.unread, fields_)) refuse_sample(path_, line);
    if (found.sample) take(std::move(*found.sample), line);
  }

  void take(MetricSample sample, int line) {
    if (!has_expert(sample.labels, fields_)) return;
    if (sample.metric.ends_with("_created")) return;  // when a counter began
    if (sample.metric.ends_with("_bucket") &&
        std::ranges::find(sample.labels, "le") != sample.labels.end()) {
      throw error_in(
          path_,
          fmt::format("'{}' is a histogram, whose buckets count observations, each bucket "
                      "those of the ones below",
                      sample.metric),
          "give a counter of each expert's tokens", line);
    }
    if (!samples_.empty() && sample.metric != samples_.front().metric) {
      throw error_in(path_,
                     fmt::format("has metrics '{}' and '{}' of experts", samples_.front().metric,
                                 sample.metric),
                     "give the lines of one", line);
    }
    sample.labels.emplace_back("count");
    sample.values.push_back(fmt::format("{}", sample.value));
    sample.line = line;
    sample.page = page_;
    samples_.push_back(std::move(sample));
  }
  void next_page() { ++page_; }

  std::int64_t size() const { return std::ssize(samples_); }
  bool has_types() const { return !types_.empty(); }

  /// Every scrape is a step, counted on from the files before; what it counts grows in counters.
  void use_rows(PrometheusCounters& counters, const TableReader::Use& use) {
    const auto all = scrapes();
    const bool grow = is_counter(all);
    bool first = true;
    for (const auto& scrape : all) {
      std::vector<PrometheusCounters::Sample> counted;
      for (const MetricSample* sample : scrape) counted.push_back(series_of(*sample));
      const auto rank = rank_in_name(path_);
      const auto its = counters.count(rank, counted, first);
      for (std::size_t i = 0; i < scrape.size(); ++i) {
        if (grow && its.begins[i] && first && all.size() > 1) continue;
        const double count = grow ? its.counts[i] : scrape[i]->value;
        TableRow row = row_of(*scrape[i], count, its.scrape);
        if (grow && its.scrape == 0) {
          counters.hold(rank, [&use, row]() mutable { use(row); });
        } else {
          use(row);
        }
      }
      first = false;
    }
  }

 private:
  using Scrape = std::vector<const MetricSample*>;

  void note_type(const std::vector<std::string>& type) {
    types_[type[0]] = type[1];
    const bool of_samples = !samples_.empty() && (type[0] == samples_.front().metric ||
                                                  type[0] + total == samples_.front().metric);
    if (of_samples) ++page_;
  }

  /// By its type; of OpenMetrics, which names types without the ending; else by its name, or if
  /// no series falls and one rises.
  bool is_counter(const std::vector<Scrape>& all) const {
    if (samples_.empty()) return false;
    const std::string& metric = samples_.front().metric;
    const bool ends = metric.ends_with(total);
    auto type = types_.find(metric);
    if (type == types_.end() && ends) {
      type = types_.find(metric.substr(0, metric.size() - std::string_view(total).size()));
    }
    const bool says =
        type != types_.end() && type->second != "untyped" && type->second != "unknown";
    return says ? type->second == "counter" : ends || only_rise(all);
  }

  bool only_rise(const std::vector<Scrape>& all) const {
    std::map<std::string, double> last;
    bool rises = false;
    for (const Scrape& scrape : all) {
      for (const MetricSample* sample : scrape) {
        const auto [before, added] = last.try_emplace(series_of(*sample).series, sample->value);
        if (sample->value < before->second) return false;
        rises = rises || sample->value > before->second;
        before->second = sample->value;
      }
    }
    return rises;
  }

  PrometheusCounters::Sample series_of(const MetricSample& sample) const {
    PrometheusCounters::Sample its{"", "", sample.value};
    for (std::size_t i = 0; i + 1 < sample.labels.size(); ++i) {
      const std::string text = sample.labels[i] + '=' + sample.values[i] + '\n';
      its.series += text;
      const auto role = fields_.role_of(sample.labels[i]);
      if (role != TableRole::layer && role != TableRole::experts) its.server += text;
    }
    return its;
  }

  /// By their times; else a page is one, and a series that comes again begins the next.
  std::vector<Scrape> scrapes() const {
    std::vector<Scrape> scrapes;
    std::map<double, Scrape> by_time;
    std::set<std::string> seen;
    bool repeats = false;
    for (const MetricSample& sample : samples_) {
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

  TableRow row_of(const MetricSample& sample, double count, std::int64_t scrape) {
    TableRow row{path_, sample.line};
    fill_row(row, places_.find(sample.labels, path_), fields_, sample.labels,
             [&](std::size_t field) {
               TableValue value = value_of_text(sample.values[field]);
               if (field + 1 == sample.values.size()) value.numbers = {count};
               return std::optional(value);
             });
    if (!row.odd_count.empty()) throw error_in(path_, row.odd_count, odd_count_hint, sample.line);
    if (!row.step) row.step = scrape;
    if (!row.rank) row.rank = rank_in_name(path_);
    return row;
  }

  static constexpr const char* total = "_total";
  const std::string& path_;
  const TableFields& fields_;
  FieldPlaces places_;
  std::vector<MetricSample> samples_;
  std::map<std::string, std::string> types_;  // by metric
  int page_ = 0;
};

}  // namespace

bool read_metrics_page(const std::string& path, const TableFields& fields,
                       PrometheusCounters& counters, const TableReader::Use& use) {
  MetricsPage page(path, fields);
  LineFile lines(path);
  std::string line;
  while (lines.next(line)) page.take_line(line, lines.line_number());
  page.use_rows(counters, use);
  if (page.size() == 0 && page.has_types()) {
    throw error_in(path, "has metrics, none with the label of an expert",
                   "--map experts=LABEL,layer=LABEL names the labels");
  }
  return page.size() > 0;
}

bool holds_expert_samples(const JsonElement& item, const TableFields& fields) {
  bool any = false;
  use_json_samples(
      item, [&](const MetricSample& sample) { any = any || has_expert(sample.labels, fields); });
  return any;
}

bool read_metrics_json(const std::string& path, const TableFields& fields,
                       PrometheusCounters& counters, const TableReader::Use& use) {
  MetricsPage page(path, fields);
  JsonItems items(path);
  while (items.next_whole()) {
    use_json_samples(items.item(),
                     [&](MetricSample sample) { page.take(std::move(sample), items.line()); });
    if (json_at(items.item(), "data")) page.next_page();
  }
  page.use_rows(counters, use);
  return items.cut();
}

}  // namespace moesim
