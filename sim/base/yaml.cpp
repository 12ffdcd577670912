// SPDX-License-Identifier: Apache-2.0
#include "sim/base/yaml.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/base/files.h"
#include "sim/base/units.h"
#include "sim/base/yaml_state.h"

namespace moesim {
namespace {

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

Diagnostic syntax_error(const std::string& file, const std::vector<std::string>& lines,
                        const YAML::Exception& e) {
  Diagnostic d{Severity::error, file, e.mark.line + 1, e.mark.column + 1, e.msg, "", ""};
  const auto line = static_cast<std::size_t>(e.mark.line);
  if (e.mark.line >= 0 && line < lines.size()) d.source_line = lines[line];
  return d;
}

/// The child of a map or list that one part of a dotted path names; created where it is missing.
YAML::Node child(YAML::Node& node, const std::string& part, const Override& o) {
  if (node.IsSequence()) {
    std::size_t index = 0;
    const auto [end, failure] = std::from_chars(part.data(), part.data() + part.size(), index);
    if (failure != std::errc() || end != part.data() + part.size() || index >= node.size()) {
      throw Error(fmt::format("{}: no item '{}' in a list of {}", o.str(), part, node.size()));
    }
    return node[index];
  }
  if (node.IsScalar()) {
    throw Error(fmt::format("{}: '{}' lies below a plain value", o.str(), part));
  }
  return node[part];
}

nlohmann::ordered_json to_json(const YAML::Node& node) {
  if (node.IsMap()) {
    auto object = nlohmann::ordered_json::object();
    for (const auto& item : node) object[item.first.Scalar()] = to_json(item.second);
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
  auto parsed = nlohmann::ordered_json::parse(text, nullptr, false);
  return parsed.is_number() || parsed.is_boolean() || parsed.is_null()
             ? parsed
             : nlohmann::ordered_json(text);
}

}  // namespace

Override parse_override(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(fmt::format("--set {}: expected path=value", text),
                "for example --set nodes=8, or --set levels.0.count=4");
  }
  return {text.substr(0, equals), text.substr(equals + 1), ""};
}

const Override* YamlDocument::State::override_at(const std::string& path) const {
  for (const auto& o : overrides) {
    if (path == o.path || path.starts_with(o.path + ".")) return &o;
  }
  return nullptr;
}

void YamlDocument::State::add(Severity severity, const YAML::Node& node, const std::string& path,
                              const std::string& message, const std::string& hint) {
  Diagnostic d{severity, file, 0, 0, message, "", hint};
  if (const Override* o = override_at(path)) {
    d.file = fmt::format("{}: {}", file, o->str());
  } else if (!node.Mark().is_null()) {
    d.line = node.Mark().line + 1;
    d.column = node.Mark().column + 1;
    const auto line = static_cast<std::size_t>(node.Mark().line);
    if (line < lines.size()) d.source_line = lines[line];
  }
  diagnostics.push_back(std::move(d));
}

void YamlDocument::State::apply_overrides() {
  for (const auto& o : overrides) {
    YAML::Node node = root;
    std::istringstream parts(o.path);
    for (std::string part; std::getline(parts, part, '.');) node.reset(child(node, part, o));
    try {
      node = YAML::Load(o.value);
    } catch (const YAML::Exception& e) {
      throw Error(fmt::format("{}: {}", o.str(), e.msg));
    }
  }
}

YamlDocument::YamlDocument(std::unique_ptr<State> state) : state_(std::move(state)) {}
YamlDocument::~YamlDocument() = default;

std::unique_ptr<YamlDocument> YamlDocument::from_text(const std::string& text,
                                                      const std::string& name,
                                                      const std::vector<Override>& overrides) {
  auto state = std::make_unique<State>();
  state->file = name;
  state->lines = split_lines(text);
  state->overrides = overrides;
  try {
    state->root = YAML::Load(text);
  } catch (const YAML::Exception& e) {
    throw Error({syntax_error(name, state->lines, e)});
  }
  if (!state->root.IsDefined() || state->root.IsNull()) throw error_in(name, "the file is empty");
  state->apply_overrides();
  return std::unique_ptr<YamlDocument>(new YamlDocument(std::move(state)));
}

std::unique_ptr<YamlDocument> YamlDocument::from_file(const std::string& path,
                                                      const std::vector<Override>& overrides) {
  return from_text(read_file(path), path, overrides);
}

const std::string& YamlDocument::file() const { return state_->file; }
const std::vector<Diagnostic>& YamlDocument::diagnostics() const { return state_->diagnostics; }
YamlValue YamlDocument::root() { return YamlValue(*this, state_->root, ""); }

YamlValue::YamlValue(YamlDocument& doc, const YAML::Node& node, std::string path)
    : doc_(&doc), node_(std::make_shared<const YAML::Node>(node)), path_(std::move(path)) {}

bool YamlValue::is_scalar() const { return node_->IsScalar(); }
bool YamlValue::is_list() const { return node_->IsSequence(); }
bool YamlValue::is_map() const { return node_->IsMap(); }
int YamlValue::line() const { return node_->Mark().is_null() ? 0 : node_->Mark().line + 1; }
std::string YamlValue::json() const { return to_json(*node_).dump(); }

void YamlValue::error(const std::string& message, const std::string& hint) const {
  doc_->state_->add(Severity::error, *node_, path_, message, hint);
}
void YamlValue::warning(const std::string& message, const std::string& hint) const {
  doc_->state_->add(Severity::warning, *node_, path_, message, hint);
}

std::string YamlValue::string() const {
  if (!is_scalar()) return error(fmt::format("'{}' must be text", path_)), "";
  return node_->Scalar();
}

bool YamlValue::boolean() const {
  const std::string text = is_scalar() ? node_->Scalar() : "";
  if (text != "true" && text != "false") {
    error(fmt::format("'{}' must be true or false", path_));
  }
  return text == "true";
}

std::vector<YamlValue> YamlValue::list() const {
  std::vector<YamlValue> items;
  if (!is_list()) {
    error(fmt::format("'{}' must be a list", path_), "write [a, b] or one '- item' a line");
    return items;
  }
  for (std::size_t i = 0; i < node_->size(); ++i) {
    items.emplace_back(*doc_, (*node_)[i], fmt::format("{}.{}", path_, i));
  }
  return items;
}

int YamlValue::choice(const std::vector<std::string>& names) const {
  const std::string text = string();
  const auto it = std::find(names.begin(), names.end(), text);
  if (it != names.end()) return static_cast<int>(it - names.begin());
  if (is_scalar()) {
    error(fmt::format("'{}' cannot be '{}'", path_, text), did_you_mean(text, names));
  }
  return 0;
}

namespace {

std::string range_text(Range range) {
  const bool below = std::isfinite(range.min);
  const bool above = std::isfinite(range.max);
  if (range.min == positive.min && !above) return "above 0";
  if (below && above) return fmt::format("between {} and {}", range.min, range.max);
  return below ? fmt::format("at least {}", range.min) : fmt::format("at most {}", range.max);
}

/// A default that respects the range, returned after an error so that reading can go on.
double fallback(Range range) { return std::clamp(1.0, range.min, range.max); }

struct Dimension {
  const char* what;
  const char* example;
  double (*scale)(std::string_view unit);
};

constexpr Dimension size_dimension{"a size", "80 GB or 64 KiB", bytes_scale};
constexpr Dimension time_dimension{"a time", "2 us", seconds_scale};
constexpr Dimension bandwidth_dimension{"a bandwidth", "50 GB/s or 400 Gbit/s", bandwidth_scale};
constexpr Dimension rate_dimension{"a compute rate", "989 TFLOP/s", compute_rate_scale};

double quantity(const YamlValue& value, const Dimension& dimension, Range range) {
  NumberWithUnit parsed;
  if (!value.is_scalar() || !split_unit(value.string(), parsed)) {
    value.error(fmt::format("'{}' must be {}", value.path(), dimension.what),
                fmt::format("such as {}", dimension.example));
    return fallback(range);
  }
  const double scale = dimension.scale(parsed.unit);
  if (scale == 0) {
    value.error(parsed.unit.empty()
                    ? fmt::format("'{}' needs a unit", value.path())
                    : fmt::format("'{}': unknown unit '{}'", value.path(), parsed.unit),
                fmt::format("{} such as {}", dimension.what, dimension.example));
    return fallback(range);
  }
  const double result = parsed.number * scale;
  if (result < range.min || result > range.max) {
    value.error(fmt::format("'{}' must be {}", value.path(), range_text(range)));
    return fallback(range);
  }
  return result;
}

}  // namespace

double YamlValue::number(Range range) const {
  NumberWithUnit parsed;
  if (!is_scalar() || !split_unit(node_->Scalar(), parsed) || !parsed.unit.empty()) {
    error(fmt::format("'{}' must be a number", path_));
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
  if (text.empty() || failure != std::errc() || end != text.data() + text.size()) {
    error(fmt::format("'{}' must be a whole number", path_));
    return static_cast<std::int64_t>(fallback(range));
  }
  if (static_cast<double>(result) < range.min || static_cast<double>(result) > range.max) {
    error(fmt::format("'{}' is {}, must be {}", path_, text, range_text(range)));
    return static_cast<std::int64_t>(fallback(range));
  }
  return result;
}

Bytes YamlValue::bytes(Range range) const {
  return Bytes(std::llround(quantity(*this, size_dimension, range)));
}
Seconds YamlValue::seconds(Range range) const {
  return Seconds(quantity(*this, time_dimension, range));
}
BytesPerSecond YamlValue::bandwidth(Range range) const {
  return BytesPerSecond(quantity(*this, bandwidth_dimension, range));
}
FlopsPerSecond YamlValue::compute_rate(Range range) const {
  return FlopsPerSecond(quantity(*this, rate_dimension, range));
}

}  // namespace moesim
