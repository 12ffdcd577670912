// SPDX-License-Identifier: Apache-2.0
#include "sim/import/prometheus_samples.h"

#include <algorithm>
#include <cctype>
#include <limits>

#include "sim/base/delimited.h"
#include "sim/base/plain_line.h"
#include "sim/base/read_number.h"

namespace moesim {
namespace {

bool is_name(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':';
}

/// A value as Prometheus writes it: "4", "+Inf", "NaN", "1e400".
std::optional<double> metric_value(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, status] = read_number(text.data(), text.data() + text.size(), value);
  if (status == std::errc::result_out_of_range) return std::numeric_limits<double>::infinity();
  const bool whole = status == std::errc() && end == text.data() + text.size();
  return whole ? std::optional(value) : std::nullopt;
}

class SampleText {
 public:
  explicit SampleText(std::string_view line) : line_(line) {}

  /// Reads the sample whose labels begin at the brace.
  void read(std::size_t brace, MetricLine& found) {
    MetricSample sample;
    sample.metric = name_before(brace);
    if (sample.metric.empty()) return;
    at_ = brace + 1;
    if (read_labels(sample) && read_value(sample)) {
      found.sample = std::move(sample);
    } else if (!sample.values.empty()) {
      found.unread = std::move(sample.labels);
    }
  }

 private:
  static constexpr const char* blanks = " \t";

  std::string name_before(std::size_t brace) const {
    const std::size_t end = line_.find_last_not_of(blanks, brace == 0 ? 0 : brace - 1) + 1;
    if (brace == 0 || end == 0) return "";
    std::size_t first = end;
    while (first > 0 && is_name(line_[first - 1])) --first;
    return std::string(line_.substr(first, end - first));
  }
  std::string word(bool of_name) {
    skip();
    const std::size_t first = at_;
    while (at_ < line_.size() &&
           (of_name ? is_name(line_[at_]) : line_[at_] != ' ' && line_[at_] != '\t'))
      ++at_;
    return std::string(line_.substr(first, at_ - first));
  }
  void skip() { at_ = std::min(line_.find_first_not_of(blanks, at_), line_.size()); }
  bool take(std::string_view marks) {
    skip();
    const bool found = at_ < line_.size() && marks.find(line_[at_]) != std::string_view::npos;
    if (found) ++at_;
    return found;
  }
  bool read_labels(MetricSample& sample) {
    while (!take("}")) {
      sample.labels.push_back(word(true));
      if (sample.labels.back().empty() || !take("=") || !take("\"'")) return false;
      const char quote = line_[at_ - 1];
      std::size_t end = at_;
      while (end < line_.size() && line_[end] != quote) end += line_[end] == '\\' ? 2 : 1;
      if (end >= line_.size()) return false;
      sample.values.emplace_back(line_.substr(at_, end - at_));
      at_ = end + 1;
      take(",");
    }
    return !sample.labels.empty();
  }
  /// The value, and the time if one follows.
  bool read_value(MetricSample& sample) {
    const std::string text = word(false);
    if (text.starts_with(':')) sample.values.clear();  // a span of Rust's tracing
    const auto value = metric_value(text);
    if (!value) return false;
    sample.value = *value;
    sample.time = metric_value(word(false));
    return true;
  }

  std::string_view line_;
  std::size_t at_ = 0;
};

/// "name", "counter" of "# TYPE name counter".
std::vector<std::string> type_in(std::string_view line) {
  constexpr std::string_view mark = "# TYPE ";
  const std::size_t at = line.find(mark);
  if (at == std::string_view::npos || (at > 0 && line[at - 1] != ' ')) return {};
  auto words = cells_of(line.substr(at + mark.size()), ' ');
  if (words.size() < 2) return {};
  words.resize(2);
  return words;
}

bool is_comment(std::string_view line) {
  return line.starts_with('#') || line.find("# HELP ") != std::string_view::npos;
}

std::string text_of(const JsonElement& json) {
  std::string_view text;
  return json.get(text) == simdjson::SUCCESS ? std::string(text) : simdjson::to_string(json);
}

/// The labels of an object of texts and numbers; nothing for any other value.
std::optional<MetricSample> labelled(const std::optional<JsonElement>& labels) {
  simdjson::dom::object object;
  if (!labels || labels->get(object) != simdjson::SUCCESS) return std::nullopt;
  MetricSample sample;
  for (const auto& [label, value] : object) {
    if (value.is_object() || value.is_array()) return std::nullopt;
    if (label == "__name__") {
      sample.metric = text_of(value);
      continue;
    }
    sample.labels.emplace_back(label);
    sample.values.push_back(text_of(value));
  }
  return sample;
}

/// Sets [time, "4"], or a number; false for any other value.
bool set_value(MetricSample& sample, const JsonElement& json) {
  simdjson::dom::array pair;
  if (json.get(pair) != simdjson::SUCCESS) {
    const auto value = metric_value(text_of(json));
    sample.value = value.value_or(0);
    return value.has_value();
  }
  if (pair.size() != 2) return false;
  const auto value = metric_value(text_of(pair.at(1).value()));
  sample.time = metric_value(text_of(pair.at(0).value()));
  sample.value = value.value_or(0);
  return value && sample.time;
}

/// Uses the samples of one series; returns false if the value is none.
bool use_series(const JsonElement& json, const std::function<void(MetricSample)>& use) {
  auto sample = labelled(json_at(json, "metric"));
  if (!sample) sample = labelled(json_at(json, "labels"));
  if (!sample || sample->labels.empty()) return false;
  if (const auto value = json_at(json, "value")) {
    if (!set_value(*sample, *value)) return false;
    use(*sample);
    return true;
  }
  const auto values = json_at(json, "values");
  if (!values || !values->is_array()) return false;
  for (const JsonElement value : values->get_array()) {
    if (!set_value(*sample, value)) return false;
    use(*sample);
  }
  return true;
}

}  // namespace

MetricLine metric_line(const std::string& text) {
  const std::string line = plain_line(text);
  MetricLine found{{}, {}, type_in(line)};
  if (!found.type.empty() || is_comment(line)) return found;
  for (std::size_t at = line.find('{'); at != std::string::npos && !found.sample;
       at = line.find('{', at + 1)) {
    SampleText(line).read(at, found);
  }
  return found;
}

bool use_json_samples(const JsonElement& item, const std::function<void(MetricSample)>& use) {
  const auto data = json_at(item, "data");
  const auto result = data ? json_at(*data, "result") : std::nullopt;
  if (!result || !result->is_array()) return use_series(item, use);
  bool any = false;
  for (const JsonElement series : result->get_array()) any = use_series(series, use) || any;
  return any;
}

}  // namespace moesim
