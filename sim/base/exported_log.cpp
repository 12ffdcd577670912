// SPDX-License-Identifier: Apache-2.0
#include "sim/base/exported_log.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string_view>
#include <vector>

#include "sim/base/delimited.h"
#include "sim/base/json.h"
#include "sim/base/lower_case.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

/// Keys of what was printed that need no time: Docker's and Fluent Bit's, journald's, Splunk's.
constexpr std::array certain_keys = {"log", "MESSAGE", "_raw"};
/// The same next to a time.
constexpr std::array message_keys = {"message", "@message", "line",       "textPayload",
                                     "msg",     "body",     "LogMessage", "jsonPayload"};
constexpr std::array time_keys = {
    "timestamp", "@timestamp", "time",         "ts",
    "date",      "_time",      "timeUnixNano", "__REALTIME_TIMESTAMP"};
/// Keys below which entries are.
constexpr std::array holders = {"events",  "hits",    "_source",      "data",      "result",
                                "results", "values",  "attributes",   "fields",    "logs",
                                "records", "entries", "resourceLogs", "scopeLogs", "logRecords",
                                "cells",   "outputs"};

struct Entry {
  std::string time;  // empty if it is not known
  std::string text;
  bool may_be_piece = false;  // of a line that Docker has cut
};

const Json* member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

std::string time_of(const Json& object) {
  for (const char* key : time_keys) {
    const Json* time = member(object, key);
    if (time != nullptr && time->is_array() && !time->empty()) time = &time->front();  // of Kibana
    if (time == nullptr) continue;
    if (time->is_string()) return time->get<std::string>();
    if (time->is_number()) return time->dump();
  }
  return "";
}

/// A text; bytes as journald lists those that are not plain text; a list of lines; the values of
/// OpenTelemetry and of structured logs.
std::optional<std::string> text_of(const Json* value) {
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  if (value->is_object()) {
    const Json* text = member(*value, "stringValue");
    return text_of(text != nullptr ? text : member(*value, "message"));
  }
  if (!value->is_array()) return std::nullopt;
  std::string all;
  for (const Json& part : *value) {
    if (part.is_string()) {
      all += part.get<std::string>();
    } else if (part.is_number_integer()) {
      all += static_cast<char>(part.get<int>());
    } else {
      return std::nullopt;
    }
  }
  return all;
}

class Entries {
 public:
  /// Takes the entries of a value of JSON.
  void add(const Json& value) {
    if (value.is_object()) {
      if (!add_entry(value)) add_below(value);
      return;
    }
    if (!value.is_array() || is_pair(value) || is_row(value)) return;
    for (const Json& element : value) add(element);
  }
  /// Those of its members.
  void add_below(const Json& object) {
    for (const char* key : holders) {
      if (const Json* below = member(object, key)) add(*below);
    }
  }
  void put(Entry entry) { list_.push_back(std::move(entry)); }

  std::optional<std::string> lines() {
    if (list_.empty()) return std::nullopt;
    begin_with_oldest();
    const auto ends = [](const Entry& entry) { return entry.text.ends_with('\n'); };
    const bool cut = std::ranges::any_of(
        list_, [&](const Entry& entry) { return entry.may_be_piece && ends(entry); });
    std::string all;
    for (const Entry& entry : list_) {
      all += entry.text;
      const bool goes_on = cut && entry.may_be_piece;
      if (!ends(entry) && !goes_on) all += '\n';
    }
    return all;
  }

 private:
  /// Takes an object that is an entry; returns whether it is.
  bool add_entry(const Json& object) {
    const std::string time = time_of(object);
    const auto take = [&](const char* key) {
      auto text = text_of(member(object, key));
      if (text) put({time, std::move(*text), std::string_view(key) == "log"});
      return text.has_value();
    };
    if (std::ranges::any_of(certain_keys, take)) return true;
    if (object.contains("output_type") && take("text")) return true;  // of a notebook
    return !time.empty() && std::ranges::any_of(message_keys, take);
  }

  /// Of Loki's API: nanoseconds and a line.
  bool is_pair(const Json& list) {
    if (list.size() < 2 || !list[0].is_string() || !list[1].is_string()) return false;
    std::string time = list[0].get<std::string>();
    if (time.size() < 10 || time.find_first_not_of("0123456789") != std::string::npos) return false;
    put({std::move(time), list[1].get<std::string>()});
    return true;
  }

  /// Of CloudWatch's queries: columns by their names.
  bool is_row(const Json& list) {
    Json row = Json::object();
    for (const Json& cell : list) {
      if (!cell.is_object() || !cell.contains("field") || !cell.contains("value")) return false;
      if (cell["field"].is_string()) row[cell["field"].get<std::string>()] = cell["value"];
    }
    if (row.empty()) return false;
    return add_entry(row);
  }

  /// Exports often begin with the newest, or have one stream after the other.
  void begin_with_oldest() {
    const auto earlier = [](const Entry& a, const Entry& b) {
      const bool sizes_tell = a.time.find_first_not_of("0123456789") == std::string::npos;
      if (sizes_tell && a.time.size() != b.time.size()) return a.time.size() < b.time.size();
      return a.time < b.time;
    };
    std::ptrdiff_t rises = 0;
    for (std::size_t i = 1; i < list_.size(); ++i) {
      rises += earlier(list_[i - 1], list_[i]) ? 1 : earlier(list_[i], list_[i - 1]) ? -1 : 0;
    }
    if (rises < 0) std::ranges::reverse(list_);
    // Times of other forms are in the order of their digits only within a day.
    const auto sorts = [](const Entry& entry) {
      return entry.time.size() > 9 && entry.time.find_first_not_of("0123456789") >= 4;
    };
    if (std::ranges::all_of(list_, sorts)) std::ranges::stable_sort(list_, earlier);
  }

  std::vector<Entry> list_;
};

/// The records of RFC 4180: quoted cells may have separators and ends of lines.
std::vector<std::vector<std::string>> records_of(std::string_view text, char separator) {
  std::vector<std::vector<std::string>> records = {{""}};
  bool quoted = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    std::string& cell = records.back().back();
    if (c == '"') {
      const bool doubled = quoted && at + 1 < text.size() && text[at + 1] == '"';
      if (doubled) cell += text[++at];
      if (!doubled) quoted = !quoted;
    } else if (quoted) {
      cell += c;
    } else if (c == separator) {
      records.back().emplace_back();
    } else if (c == '\n') {
      records.push_back({""});
    } else if (c != '\r') {
      cell += c;
    }
  }
  return records;
}

std::optional<std::string> lines_of_csv(std::string_view text) {
  const std::string_view head = text.substr(0, text.find('\n'));
  const char separator = separator_of(head);
  if (separator == '\0' || separator == '|') return std::nullopt;
  const std::vector<std::string> names = cells_of(head, separator);
  const auto column = [&](std::initializer_list<std::string_view> known) {
    const auto is_known = [&](const std::string& name) {
      const std::string lower = lower_case(name);
      return std::ranges::any_of(known, [&](std::string_view k) { return lower == k; });
    };
    return static_cast<std::size_t>(std::ranges::find_if(names, is_known) - names.begin());
  };
  const std::size_t message = column({"message", "@message", "log", "line", "msg", "_raw",
                                      "textpayload", "logmessage", "logentry", "body", "content"});
  const std::size_t time = column({"time", "_time", "date", "timestamp", "@timestamp", "ts",
                                   "datetime", "timegenerated", "timegenerated [utc]"});
  if (message == names.size() || time == names.size()) return std::nullopt;
  Entries entries;
  const auto records = records_of(text, separator);
  for (std::size_t r = 1; r < records.size(); ++r) {
    if (records[r].size() != names.size()) continue;
    entries.put({records[r][time], records[r][message]});
  }
  return entries.lines();
}

/// One value of JSON in each line, if the first line is one with an entry.
std::optional<std::string> lines_of_json_lines(const std::string& text, const std::string& file) {
  constexpr std::size_t longest = 1 << 20;  // of a first line
  const std::size_t end = text.find('\n');
  if (!text.starts_with('{') || std::min(end, text.size()) > longest) return std::nullopt;
  Entries first, entries;
  first.add(json_if(std::string_view(text).substr(0, end)));
  if (!first.lines()) return std::nullopt;
  int number = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    entries.add(parse_json(line, {file, number, "each line of an exported log is JSON"}));
  }
  return entries.lines();
}

}  // namespace

std::optional<std::string> exported_lines(const std::string& text, const std::string& file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return std::nullopt;
  if (text[first] != '{' && text[first] != '[') return lines_of_csv(text);
  const Json root = json_if(text);
  Entries entries;
  if (root.is_object()) entries.add_below(root);  // one entry is no log
  if (root.is_array()) entries.add(root);
  if (auto lines = entries.lines()) return lines;
  return lines_of_json_lines(text, file);
}

}  // namespace moesim
