// SPDX-License-Identifier: Apache-2.0
// Values: the typed getters and their complaints.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "sim/base/json.h"
#include "sim/base/json_members.h"
#include "sim/base/units.h"
#include "sim/base/yaml_state.h"

namespace moesim {
namespace {

nlohmann::ordered_json to_json(const YAML::Node& node) {
  if (node.IsMap()) {
    auto object = nlohmann::ordered_json::object();
    JsonMembers members(object);
    for (const auto& item : node) members[item.first.Scalar()] = to_json(item.second);
    return object;
  }
  if (node.IsSequence()) {
    auto array = nlohmann::ordered_json::array();
    for (const auto& item : node) array.push_back(to_json(item));
    return array;
  }
  if (!node.IsScalar()) return nullptr;
  const std::string& text = node.Scalar();
  if (node.Tag() == "!") return text;  // quoted
  auto parsed = json_if(text);
  return parsed.is_number() || parsed.is_boolean() || parsed.is_null()
             ? parsed
             : nlohmann::ordered_json(text);
}

/// The beginning of a long text, by whole characters.
std::string shortened(const std::string& text) {
  constexpr std::size_t most_bytes = 80;
  if (text.size() <= most_bytes) return text;
  std::size_t end = most_bytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end) + "...";
}

}  // namespace

std::string found_in(const YAML::Node& node) {
  if (node.IsMap()) return "a mapping";
  if (node.IsSequence()) return "a list";
  if (node.IsNull()) return "empty";
  return node.Scalar().empty() ? "an empty text" : fmt::format("'{}'", shortened(node.Scalar()));
}

YamlValue::YamlValue(YamlDocument& doc, const YAML::Node& node, std::string path)
    : doc_(&doc), node_(std::make_shared<const YAML::Node>(node)), path_(std::move(path)) {}

void YamlValue::note_file(const std::string& path) const {
  doc_->state_->noted_files.push_back(path);
}

const std::string& YamlValue::file() const { return doc_->file(); }

bool YamlValue::is_scalar() const { return node_->IsScalar(); }
bool YamlValue::is_list() const { return node_->IsSequence(); }
bool YamlValue::is_map() const { return node_->IsMap(); }
int YamlValue::line() const {
  return doc_->state_->is_nowhere(*node_, path_) ? 0 : doc_->state_->mark_of(*node_).line + 1;
}
std::string YamlValue::json() const { return to_json(*node_).dump(); }

void YamlValue::error(const std::string& message, const std::string& hint) const {
  doc_->state_->add(Severity::error, *node_, path_, message, hint);
}
void YamlValue::warning(const std::string& message, const std::string& hint) const {
  doc_->state_->add(Severity::warning, *node_, path_, message, hint);
}

void YamlValue::wrong_kind(const std::string& wanted, const std::string& hint) const {
  error(fmt::format("'{}' must be {}, not {}", path_, wanted, found_in(*node_)), hint);
}

std::string YamlValue::string() const {
  if (!is_scalar()) wrong_kind("text");
  return is_scalar() ? node_->Scalar() : "";
}

bool YamlValue::boolean() const {
  const std::string text = is_scalar() ? node_->Scalar() : "";
  if (text != "true" && text != "false") {
    wrong_kind("true or false");
  }
  return text == "true";
}

std::vector<YamlValue> YamlValue::list() const {
  std::vector<YamlValue> items;
  if (!is_list()) {
    wrong_kind("a list", "write [a, b] or one '- item' a line");
    return items;
  }
  for (std::size_t i = 0; i < node_->size(); ++i) {
    items.emplace_back(*doc_, (*node_)[i], fmt::format("{}.{}", path_, i));
  }
  return items;
}

int YamlValue::choice(const std::vector<std::string>& names) const {
  const std::string text = is_scalar() ? node_->Scalar() : "";
  const auto it = std::find(names.begin(), names.end(), text);
  if (it != names.end()) return static_cast<int>(it - names.begin());
  error(fmt::format("'{}' cannot be {}", path_, found_in(*node_)), did_you_mean(text, names));
  return 0;
}

struct YamlValue::Dimension {
  const char* what;
  const char* unit;  // that of the bounds
  const char* example;
  double (*scale)(std::string_view unit);
};

namespace {

std::string range_text(Range range) {
  const bool below = std::isfinite(range.min);
  const bool above = std::isfinite(range.max);
  if (range.min == positive.min && !above) return "above 0";
  if (below && above) return fmt::format("between {} and {}", range.min, range.max);
  return below ? fmt::format("at least {}", range.min) : fmt::format("at most {}", range.max);
}

/// A default that respects the range, returned after an error so that reading can continue.
double fallback(Range range) { return std::clamp(1.0, range.min, range.max); }

constexpr double most_bytes = 9e18;  // what 64 bits hold

}  // namespace

const YamlValue::Dimension YamlValue::size_dimension = {"a size", "B", "80 GB or 64 KiB",
                                                        bytes_scale};
const YamlValue::Dimension YamlValue::time_dimension = {"a time", "s", "2 us", seconds_scale};
const YamlValue::Dimension YamlValue::bandwidth_dimension = {
    "a bandwidth", "B/s", "50 GB/s or 400 Gbit/s", bandwidth_scale};
const YamlValue::Dimension YamlValue::rate_dimension = {"a compute rate", "FLOP/s", "989 TFLOP/s",
                                                        compute_rate_scale};

namespace {

/// What an unknown unit may mean: GBps is GB/s, and Gb/s is Gbit/s, as a small b is a bit.
std::string meant_unit(std::string unit, double (*scale)(std::string_view unit)) {
  const auto with = [&](const std::string& end, const std::string& other) {
    return unit.ends_with(end) ? unit.substr(0, unit.size() - end.size()) + other : "";
  };
  for (const std::string& guess :
       {with("Bps", "B/s"), with("b/s", "bit/s"), with("bits/s", "bit/s"), with("FLOPS", "FLOP/s"),
        with("FLOPs", "FLOP/s")}) {
    if (scale(guess) > 0) return guess;
  }
  return "";
}

}  // namespace

double YamlValue::quantity(const Dimension& dimension, Range range) const {
  NumberWithUnit parsed;
  const std::string hint = fmt::format("{} such as {}", dimension.what, dimension.example);
  if (!is_scalar() || !split_unit(node_->Scalar(), parsed)) {
    wrong_kind(dimension.what, fmt::format("such as {}", dimension.example));
    return fallback(range);
  }
  const double scale = dimension.scale(parsed.unit);
  if (scale == 0) {
    const std::string meant = meant_unit(parsed.unit, dimension.scale);
    error(parsed.unit.empty() ? fmt::format("'{}' needs a unit", path_)
                              : fmt::format("'{}': unknown unit '{}'", path_, parsed.unit),
          meant.empty() ? hint : fmt::format("did you mean '{}'?", meant));
    return fallback(range);
  }
  const double result = parsed.number * scale;
  if (result < range.min || result > range.max) {
    const std::string unit = std::isfinite(range.max) ? fmt::format(" {}", dimension.unit) : "";
    error(fmt::format("'{}' is {}, must be {}{}", path_, node_->Scalar(), range_text(range), unit));
    return fallback(range);
  }
  return result;
}

double YamlValue::number(Range range) const {
  NumberWithUnit parsed;
  if (!is_scalar() || !split_unit(node_->Scalar(), parsed) || !parsed.unit.empty()) {
    wrong_kind("a number");
    return fallback(range);
  }
  if (parsed.number < range.min || parsed.number > range.max) {
    error(fmt::format("'{}' is {}, must be {}", path_, node_->Scalar(), range_text(range)));
    return fallback(range);
  }
  return parsed.number;
}

std::int64_t YamlValue::integer(Range range) const {
  std::int64_t result = 0;
  const std::string text = is_scalar() ? node_->Scalar() : "";
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), result);
  const bool huge = failure == std::errc::result_out_of_range;
  if (text.empty() || (failure != std::errc() && !huge) || end != text.data() + text.size()) {
    wrong_kind("a whole number");
    return static_cast<std::int64_t>(fallback(range));
  }
  if (huge || static_cast<double>(result) < range.min || static_cast<double>(result) > range.max) {
    error(fmt::format("'{}' is {}, must be {}", path_, text, range_text(range)));
    return static_cast<std::int64_t>(fallback(range));
  }
  return result;
}

Bytes YamlValue::bytes(Range range) const {
  range.max = std::min(range.max, most_bytes);
  return Bytes(std::llround(quantity(size_dimension, range)));
}
Seconds YamlValue::seconds(Range range) const { return Seconds(quantity(time_dimension, range)); }
BytesPerSecond YamlValue::bandwidth(Range range) const {
  return BytesPerSecond(quantity(bandwidth_dimension, range));
}
FlopsPerSecond YamlValue::compute_rate(Range range) const {
  return FlopsPerSecond(quantity(rate_dimension, range));
}

}  // namespace moesim
