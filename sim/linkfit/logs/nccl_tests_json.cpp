// SPDX-License-Identifier: Apache-2.0
// What nccl-tests write with -J (JSON version 3, read in 2.19.6, commit a0b82b2, src/util.cu).
// Files may hold several JSON texts, or other output around them.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "sim/base/error.h"
#include "sim/base/json.h"
#include "sim/base/read_number.h"
#include "sim/linkfit/logs/formats.h"
#include "sim/linkfit/logs/nccl_test.h"
#include "sim/linkfit/logs/nvlink_setting.h"

namespace moesim {
namespace {

struct JsonDocument {
  int line;  // of the file, where it begins
  std::string_view text;
};

constexpr std::string_view json_blanks = " \t\r\n";

/// Whether an object with keys, or a list of objects, begins there.
bool begins_document(std::string_view text, std::size_t at) {
  const std::size_t next = text.find_first_not_of(json_blanks, at + 1);
  if (next == std::string_view::npos) return false;
  return text[at] == '{' ? text[next] == '"' || text[next] == '}'
                         : text[at] == '[' && text[next] == '{';
}

/// Behind the bracket that closes what begins there.
std::size_t end_of(std::string_view text, std::size_t at) {
  int depth = 0;
  bool quoted = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (quoted) {
      if (c == '\\') ++at;
      quoted = c != '"';
    } else if (c == '"') {
      quoted = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (c == '}' || c == ']') {
      if (--depth == 0) return at + 1;
    }
  }
  return text.size();
}

/// Objects and lists that begin a line, one after the other; what is between them is left out. The
/// last one ends with the file if nothing closes it.
std::vector<JsonDocument> json_documents(std::string_view text) {
  std::vector<JsonDocument> documents;
  int line = 1;
  std::size_t counted = 0;
  for (std::size_t at = text.find_first_not_of(json_blanks); at != std::string_view::npos;) {
    std::size_t end = std::min(text.find('\n', at), text.size());
    if (begins_document(text, at)) {
      line += static_cast<int>(std::count(text.begin() + static_cast<std::ptrdiff_t>(counted),
                                          text.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
      counted = at;
      end = end_of(text, at);
      documents.push_back({line, text.substr(at, end - at)});
    }
    at = text.find_first_not_of(json_blanks, end);
  }
  return documents;
}

using json = nlohmann::ordered_json;

class JsonLog {
 public:
  JsonLog(json root, int line, std::string file, const LogChoice& choice)
      : file_(std::move(file)), choice_(choice), root_(std::move(root)) {
    test_.line = line;
  }

  NcclTest read() {
    test_.has_table = test_.ended = true;
    read_setting();
    if (root_.contains("start_time")) test_.date = part(root_, "start_time", &json::is_string);
    if (root_.contains("nccl_version")) {
      test_.library = fmt::format("NCCL {}", root_["nccl_version"].dump());
    }
    for (const char* said : {"args", "env"}) take_nvlink(root_.value(said, json()));
    const json results = part(root_, "results", &json::is_array);
    for (std::size_t i = 0; i < results.size(); ++i) read_result(results[i], i);
    const json bounds = part(root_, "out_of_bounds", &json::is_object);
    if (part(bounds, "count", &json::is_number).get<double>() != 0) {
      fail("the test found wrong results", wrong_results_hint);
    }
    return std::move(test_);
  }

 private:
  [[noreturn]] void fail(const std::string& message, const std::string& hint = "") const {
    throw error_in(file_, message, hint, test_.line);
  }

  /// A member of the right kind.
  json part(const json& object, const char* key, bool (json::*is)() const noexcept) const {
    const auto at = object.is_object() ? object.find(key) : object.end();
    if (!object.is_object() || at == object.end() || !((*at).*is)()) {
      fail(fmt::format("'{}' is missing or of the wrong kind", key),
           "give the file that a test of nccl-tests wrote with -J");
    }
    return *at;
  }

  /// Takes NCCL_MNNVL_ENABLE from "NAME=0", {"NAME": "0"} or {"name": "NAME", "value": "0"}, also
  /// of a list.
  void take_nvlink(const json& said) {
    const std::string name(nvlink_variable);
    const auto take = [&](const json& value) {
      const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
      if (const auto number = parse_integer<int>(text)) test_.nvlink_set = number;
    };
    if (said.is_array()) {
      for (const json& each : said) take_nvlink(each);
    } else if (said.is_object() && said.contains(name)) {
      take(said[name]);
    } else if (said.is_object() && said.value("name", json()) == json(name)) {
      take(said.value("value", json()));
    } else if (said.is_string() && said.get<std::string>().starts_with(name + "=")) {
      take(said.get<std::string>().substr(name.size() + 1));
    }
  }

  void read_setting() {
    const json args = part(root_, "args", &json::is_array);
    if (!args.empty() && args[0].is_string()) test_.program = args[0].get<std::string>();
    const json config = part(root_, "config", &json::is_object);
    const double local = part(config, "nthreads", &json::is_number).get<double>() *
                         part(config, "ngpus", &json::is_number).get<double>();
    if (!(local >= 1 && local <= 1024)) fail("has no GPUs in a process, or too many");
    test_.ranks.set_local(static_cast<int>(local));
    for (const json& device : part(config, "devices", &json::is_array)) {
      const double rank = part(device, "rank", &json::is_number);
      const double group =
          device.value("group", json(0)).is_number() ? device.value("group", 0.) : 0;
      if (!(rank >= 0 && rank < 1 << 24)) fail("has a rank that is none");
      test_.ranks.add_listed(
          static_cast<int>(rank), static_cast<int>(group),
          part(device, "hostname", &json::is_string),
          device.value("device_hex", json()).is_string() ? device["device_hex"].get<std::string>()
                                                         : "",
          device.value("device", json()).is_number_integer() ? device["device"].get<int>() : -1);
      test_.gpu = part(device, "device_info", &json::is_string);
    }
  }

  /// Throws Error if only the half that is not chosen has times.
  void check_half(const json& result, const json& body) const {
    const json other = result.value(choice_.in_place ? "out_of_place" : "in_place", json());
    const auto has_time = [](const json& half) {
      return half.is_object() && half.value("time", json()).is_number();
    };
    if (has_time(body) || !has_time(other)) return;
    if (choice_.in_place) fail("has no in-place times", "leave out --in-place");
    fail("has no out-of-place times", "--in-place takes its in-place times");
  }

  void read_result(const json& result, std::size_t number) {
    const double size = part(result, "size", &json::is_number);
    const char* half = choice_.in_place ? "in_place" : "out_of_place";
    check_half(result, result.value(half, json()));
    const json body = part(result, half, &json::is_object);
    const json wrong = body.value("nwrong", json());
    if (!wrong.is_number()) {
      test_.checked = false;
    } else if (wrong.get<double>() != 0) {
      fail(fmt::format("results[{}]: {} wrong elements at size {}", number, wrong.dump(), size),
           wrong_results_hint);
    }
    if (body.contains("cpu_time")) fail(cpu_times, cpu_times_hint);
    test_.rows.push_back({size, part(body, "time", &json::is_number),
                          part(body, "alg_bw", &json::is_number),
                          part(body, "bus_bw", &json::is_number)});
  }

  std::string file_;
  const LogChoice& choice_;
  json root_;
  NcclTest test_;
};

/// What a value is in a cell of a table.
std::string cell_of(const json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// What rccl-tests write with -Z json (read in commit 233482b, src/common.cpp): the rows of their
/// CSV, each as an object on a line below the first.
Log parse_rccl_rows(const std::vector<json>& rows, const std::string& file,
                    const LogChoice& choice) {
  std::string text, separator;
  for (const auto& [key, value] : rows.front().items()) {
    text += separator + (key == "name" ? "collective" : key);
    separator = ",";
  }
  for (const json& row : rows) {
    separator = "\n";
    for (const auto& [key, value] : rows.front().items()) {
      text += separator + cell_of(row.is_object() ? row.value(key, json()) : json());
      separator = ",";
    }
  }
  Log log = parse_table(text, file, choice);
  log.kind = "rccl-tests JSON";
  return log;
}

/// The objects of the file, lists of them taken apart, with the lines where their texts begin.
std::vector<std::pair<int, json>> objects_in(const std::string& text, const std::string& file) {
  std::vector<std::pair<int, json>> objects;
  for (const JsonDocument& document : json_documents(text)) {
    json value = parse_json(
        document.text,
        {file, document.line, "run the test to its end: it closes the file when it is done"});
    if (!value.is_array()) {
      objects.emplace_back(document.line, std::move(value));
      continue;
    }
    for (json& each : value) objects.emplace_back(document.line, std::move(each));
  }
  return objects;
}

}  // namespace

Log parse_nccl_tests_json(const std::string& text, const std::string& file,
                          const LogChoice& choice) {
  std::vector<json> rows;
  std::vector<NcclTest> tests;
  for (auto& [line, object] : objects_in(text, file)) {
    if (object.is_object() && object.contains("algBw")) {
      rows.push_back(std::move(object));
    } else {
      tests.push_back(JsonLog(std::move(object), line, file, choice).read());
    }
  }
  if (!rows.empty()) return parse_rccl_rows(rows, file, choice);
  Log log = log_of(tests, file, choice);
  log.kind = "nccl-tests JSON";
  return log;
}

}  // namespace moesim
