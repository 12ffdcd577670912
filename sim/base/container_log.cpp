// SPDX-License-Identifier: Apache-2.0
#include "sim/base/container_log.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>
#include <vector>

#include "sim/base/json.h"

namespace moesim {
namespace {

/// The key of what a line printed; empty where the line is no entry of a log. Docker has "log",
/// others a line or message and when it came.
std::string printed_key(const nlohmann::ordered_json& entry) {
  if (!entry.is_object()) return "";
  const auto is_text = [&](const char* key) {
    const auto value = entry.find(key);
    return value != entry.end() && value->is_string();
  };
  if (is_text("log")) return "log";
  const auto has = [&](const char* key) { return entry.contains(key); };
  if (!has("timestamp") && !has("@timestamp") && !has("time") && !has("ts")) return "";
  for (const char* key : {"line", "message", "textPayload"}) {
    if (is_text(key)) return key;
  }
  return "";
}

/// The lines of a list of entries; those without text printed nothing.
std::optional<std::string> lines_of_list(const std::string& text) {
  const auto root = json_if(text);
  const auto& list = root.is_object() && root.contains("events") ? root["events"] : root;
  if (!list.is_array() || list.empty()) return std::nullopt;
  std::vector<std::string> printed;
  for (const auto& entry : list) {
    if (!entry.is_object()) return std::nullopt;
    const std::string key = printed_key(entry);
    if (!key.empty()) printed.push_back(entry[key].get<std::string>());
  }
  if (printed.empty()) return std::nullopt;
  const auto time_of = [](const auto& entry) {
    return entry.value("timestamp", nlohmann::ordered_json());
  };
  if (time_of(list.front()) > time_of(list.back())) std::ranges::reverse(printed);
  std::string all;
  for (const std::string& line : printed) all += line + (line.ends_with('\n') ? "" : "\n");
  return all;
}

}  // namespace

std::optional<std::string> container_lines(const std::string& text, const std::string& file) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos) return std::nullopt;
  const bool has_events = text[first] == '{' && text.find("\"events\"") != std::string::npos;
  if (text[first] == '[' || has_events) {
    if (auto lines = lines_of_list(text)) return lines;
  }
  constexpr std::size_t longest = 1 << 20;  // of a first line
  const std::size_t end = text.find('\n');
  if (!text.starts_with('{') || std::min(end, text.size()) > longest) return std::nullopt;
  const std::string key = printed_key(json_if(std::string_view(text).substr(0, end)));
  if (key.empty()) return std::nullopt;
  std::string printed;
  int number = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    ++number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto kept = parse_json(line, {file, number, "each line of a container's log is JSON"});
    const auto log = kept.find(key);
    if (log == kept.end() || !log->is_string()) return std::nullopt;
    printed += log->get<std::string>();
    // Docker cuts long lines, and leaves the end of a line only to its last piece.
    if (key != "log" && !printed.ends_with('\n')) printed += '\n';
  }
  return printed;
}

}  // namespace moesim
