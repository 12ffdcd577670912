// SPDX-License-Identifier: Apache-2.0
// Typed reading of YAML (and JSON) files: the function that reads a file is its schema.
// Every mistake of a file is collected; the document throws them together.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/types.h"

namespace YAML {
class Node;
}

namespace moesim {

/// `path=value` from `--set`: dotted, list items by index (`levels.0.count=4`); null removes a key.
struct Override {
  std::string path;
  std::string value;
  std::string flag;            // how the user gave it, for messages; "--set path=value" when empty
  bool unless_stated = false;  // a default: if the document has a value, that stays
  /// A part of a mapping: plain values on its way are replaced by it, not changed below.
  bool of_mapping = false;

  std::string str() const { return flag.empty() ? "--set " + path + "=" + value : flag; }
};

/// Splits "path=value"; throws Error when there is no '='.
Override parse_override(const std::string& text);

/// Whether `text` can be a dotted path: no empty part.
bool is_path(std::string_view text);

/// Inclusive bounds of a number.
struct Range {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
};
inline constexpr Range positive{std::numeric_limits<double>::min(),
                                std::numeric_limits<double>::infinity()};
inline constexpr Range non_negative{0, std::numeric_limits<double>::infinity()};

class YamlDocument;
class YamlMap;
struct YamlKeys;  // the keys of one mapping that were asked for

/// One value of a document with its place; getters that fail record an error and return a default.
class YamlValue {
 public:
  YamlValue(YamlDocument& doc, const YAML::Node& node, std::string path);

  bool is_scalar() const;
  bool is_list() const;
  bool is_map() const;
  const std::string& path() const { return path_; }  // dotted, for messages
  int line() const;                                  // 1-based

  std::string string() const;
  bool boolean() const;
  std::int64_t integer(Range range = {}) const;
  double number(Range range = {}) const;
  Bytes bytes(Range range = non_negative) const;              // "80 GB", "4 KiB"
  Seconds seconds(Range range = non_negative) const;          // "5 us"
  BytesPerSecond bandwidth(Range range = positive) const;     // "50 GB/s", "400 Gbit/s"
  FlopsPerSecond compute_rate(Range range = positive) const;  // "989 TFLOP/s"
  /// Index into `names`; an unknown name is an error with a suggestion.
  int choice(const std::vector<std::string>& names) const;
  std::vector<YamlValue> list() const;
  YamlMap map() const;
  /// The map, or one without keys for a plain value (only `kind` instead of {kind: ..., ...}).
  YamlMap map_or_empty() const;
  /// The value as JSON text, unread keys and all (for free-form parts such as provenance).
  std::string json() const;

  void error(const std::string& message, const std::string& hint = "") const;
  void warning(const std::string& message, const std::string& hint = "") const;
  /// Notes a file that the value names, whose content counts as that of the document.
  void note_file(const std::string& path) const;
  /// The file of its document, as it was named.
  const std::string& file() const;

 private:
  friend class YamlMap;
  struct Dimension;  // a kind of quantity with its units
  static const Dimension size_dimension, time_dimension, bandwidth_dimension, rate_dimension;
  double quantity(const Dimension& dimension, Range range) const;
  void wrong_kind(const std::string& wanted, const std::string& hint = "") const;
  YamlDocument* doc_;
  std::shared_ptr<const YAML::Node> node_;
  std::string path_;
};

/// A mapping; keys that nobody asked for when the last copy goes out of use are errors.
class YamlMap {
 public:
  /// Required: a missing key is an error at the map's place, told by finish().
  std::optional<YamlValue> get(const std::string& key) const;
  /// Optional: nothing when absent.
  std::optional<YamlValue> find(const std::string& key) const;
  std::vector<std::string> keys() const;  // in file order; asking for them marks none as read
  /// Whether these keys were read without an error: guards the checks of one against another.
  bool good(const std::vector<std::string>& keys) const;

  // Shorthands: the required form, and the form with a default for an absent key.
  std::string string(const std::string& key) const;
  std::string string(const std::string& key, const std::string& absent) const;
  std::int64_t integer(const std::string& key, Range range) const;
  std::int64_t integer(const std::string& key, Range range, std::int64_t absent) const;
  double number(const std::string& key, Range range) const;
  double number(const std::string& key, Range range, double absent) const;
  bool boolean(const std::string& key, bool absent) const;
  Seconds seconds(const std::string& key) const;
  Seconds seconds(const std::string& key, Seconds absent) const;
  Bytes bytes(const std::string& key) const;
  BytesPerSecond bandwidth(const std::string& key) const;
  BytesPerSecond bandwidth(const std::string& key, BytesPerSecond absent) const;
  FlopsPerSecond compute_rate(const std::string& key) const;
  int choice(const std::string& key, const std::vector<std::string>& names) const;
  int choice(const std::string& key, const std::vector<std::string>& names, int absent) const;

  const YamlValue& value() const { return value_; }

 private:
  friend class YamlValue;
  YamlMap(YamlValue value, std::shared_ptr<YamlKeys> keys);
  YamlValue value_;
  std::shared_ptr<YamlKeys> keys_;
};

/// A parsed file with overrides applied, and the diagnostics met while reading it.
class YamlDocument {
 public:
  /// Reads a file; throws Error when it cannot be read or is not YAML.
  static std::unique_ptr<YamlDocument> from_file(const std::string& path,
                                                 const std::vector<Override>& overrides = {});
  /// Parses text; `name` stands for the file in messages.
  static std::unique_ptr<YamlDocument> from_text(const std::string& text, const std::string& name,
                                                 const std::vector<Override>& overrides = {});
  ~YamlDocument();
  YamlDocument(const YamlDocument&) = delete;
  YamlDocument& operator=(const YamlDocument&) = delete;

  YamlValue root();
  const std::string& file() const;
  /// Reports missing and unknown keys of every map that was opened, then throws Error with all
  /// errors if there is any.
  void finish();
  const std::vector<Diagnostic>& diagnostics() const;
  std::vector<Diagnostic> warnings() const;
  /// Those that values noted, in their order.
  const std::vector<std::string>& noted_files() const;

 private:
  friend class YamlValue;
  friend class YamlMap;
  struct State;
  explicit YamlDocument(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace moesim
