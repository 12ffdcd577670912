// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/requests/request_log_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "sim/base/delimited.h"
#include "sim/base/error.h"
#include "sim/base/json.h"
#include "sim/base/line_file.h"
#include "sim/base/lower_case.h"
#include "sim/base/text.h"
#include "sim/serving/requests/log_time.h"

namespace moesim {
namespace {

/// Tokens of a hash, and seconds of a unit of `timestamp`; other names of times are in seconds.
struct LogForm {
  std::int64_t block;
  double unit;
};
constexpr LogForm mooncake{512, 1e-3};
constexpr LogForm bailian{16, 1};  // Qwen's on Alibaba Cloud, whose lines name their chat
constexpr std::string_view timestamp_name = "timestamp";

/// In seconds since 1970: what is later is in milliseconds.
constexpr double latest = 1e11;

/// Longer than any context: a length above it is a time or an id in the wrong column.
constexpr std::int64_t most_tokens = 1'000'000'000;
constexpr const char* log_hint =
    "each line is {\"timestamp\": ms, \"input_length\": n, \"output_length\": n}, or a row below "
    "the line arrival,input,output";

/// Adds requests in the order of a file, and says at which line one cannot be.
class RequestSink {
 public:
  RequestSink(const LineFile& lines, RequestLog& log) : lines_(lines), log_(log) {}

  [[noreturn]] void fail(const std::string& message, const std::string& hint = log_hint) const {
    throw error_in(lines_.path(), message, hint, lines_.line_number());
  }

  void add(double seconds, double input, double output) {
    if (!std::isfinite(seconds) || seconds < 0) fail("the time is not a number of 0 or more");
    if (seconds > latest) {
      fail(
          fmt::format("the time is {:.6g} s, in thousands of years", seconds),
          "times are in seconds, of Mooncake's `timestamp` in milliseconds: divide milliseconds by "
          "1000");
    }
    if (!log_.requests.empty() && seconds < last_) {
      fail(fmt::format("the time {} s is before that of the request before, {} s", seconds, last_),
           "sort the log by time");
    }
    if (log_.requests.empty()) first_ = seconds;
    last_ = seconds;
    log_.requests.push_back(
        {Seconds(seconds - first_), length(input, "input"), length(output, "output")});
  }

 private:
  std::int64_t length(double tokens, const char* of) const {
    if (!(tokens >= 1 && tokens <= most_tokens) || tokens != std::floor(tokens)) {
      fail(fmt::format("the {} length is {}: it must be a whole number of 1 or more", of, tokens),
           "leave the request out, or give it the length it had");
    }
    return static_cast<std::int64_t>(tokens);
  }

  const LineFile& lines_;
  RequestLog& log_;
  double first_ = 0, last_ = 0;
};

/// Names as letters_and_digits has them, of Vidur's, Splitwise's, Azure's and BurstGPT's tables,
/// and of OpenAI's API; earlier ones win.
const std::array<std::vector<std::string_view>, 3> column_names = {
    {{"arrival", "arrivedat", "arrivaltime", "arrivaltimestamp", "timestamp"},
     {"input", "numprefilltokens", "contexttokens", "requesttokens", "promptsize", "inputlength",
      "inputtokens", "prompttokens"},
     {"output", "numdecodetokens", "generatedtokens", "responsetokens", "tokensize", "outputlength",
      "outputtokens", "completiontokens"}}};

enum Quantity { arrival, input, output };

using Item = nlohmann::ordered_json;

/// An object of a log; `names`: of its keys, without case and marks.
struct LogLine {
  const Item& item;
  const RequestSink& sink;
  std::vector<std::string> names = {};

  LogLine(const Item& of, const RequestSink& at) : item(of), sink(at) {
    for (const auto& [key, value] : members()) names.push_back(letters_and_digits(key));
  }

  const Item::object_t& members() const { return item.get_ref<const Item::object_t&>(); }

  /// The key of that name; null: none has it.
  const std::string* key_named(std::string_view name) const {
    const std::string* found = nullptr;
    auto at = names.begin();
    for (const auto& [key, value] : members()) {
      if (*at++ != name) continue;
      if (found != nullptr) sink.fail(fmt::format("has both '{}' and '{}'", *found, key));
      found = &key;
    }
    return found;
  }

  double number(const std::string& key) const {
    const Item& value = item.at(key);
    if (!value.is_number()) sink.fail(fmt::format("{} is not a number", key));
    return value.get<double>();
  }
};

/// A key of a line and which name it has.
struct NamedKey {
  std::string_view name;
  const std::string& key;
};

/// That of a quantity; `missing`: the name that the line lacks.
NamedKey key_of(const LogLine& line, Quantity quantity, const char* missing) {
  for (const std::string_view name : column_names[quantity]) {
    if (const std::string* key = line.key_named(name)) return {name, *key};
  }
  line.sink.fail(fmt::format("has no {}", missing));
}

/// Seconds. Two times of a line may have different units and beginnings: which one counts is not
/// for the reader to say.
double time_of(const LogLine& line, const LogForm& form) {
  const NamedKey time = key_of(line, arrival, "timestamp");
  for (const std::string_view name : column_names[arrival]) {
    const std::string* other = name == time.name ? nullptr : line.key_named(name);
    if (other == nullptr) continue;
    line.sink.fail(fmt::format("has two times, '{}' and '{}'", time.key, *other),
                   "leave one of them out; `timestamp` is in milliseconds, others in seconds");
  }
  return line.number(time.key) * (time.name == timestamp_name ? form.unit : 1);
}

void read_json_line(const std::string& text, const LineFile& lines, RequestSink& sink,
                    RequestLog& log) {
  const auto item = parse_json(text, {lines.path(), lines.line_number(), log_hint});
  if (!item.is_object()) sink.fail("is not an object");
  const LogLine line(item, sink);
  const LogForm form = line.key_named("parentchatid") != nullptr ? bailian : mooncake;
  const auto length = [&](Quantity quantity, const char* name) {
    return line.number(key_of(line, quantity, name).key);
  };
  sink.add(time_of(line, form), length(input, "input_length"), length(output, "output_length"));
  std::vector<std::uint64_t> hashes;
  if (const std::string* key = line.key_named("hashids")) {
    const Item& list = item.at(*key);
    if (!list.is_array()) sink.fail("hash_ids is not a list");
    for (const auto& hash : list) {
      if (!hash.is_number_integer()) sink.fail("hash_ids holds what is not a whole number");
      hashes.push_back(static_cast<std::uint64_t>(hash.get<std::int64_t>()));
    }
    const std::int64_t input = log.requests.back().input;
    if (std::ssize(hashes) > (input + form.block - 1) / form.block) {
      sink.fail(fmt::format("has {} hash_ids of {} tokens each, but {} tokens of input",
                            hashes.size(), form.block, input));
    }
    log.prefix_tokens = form.block;
  }
  log.prefixes.add_row(hashes);
}

/// Where time, input and output are among the columns.
using RequestColumns = std::array<std::size_t, 3>;

/// "; it has a, b" of a line between separators; others may be what somebody wrote.
std::string shown_columns(const std::string& heading) {
  constexpr std::size_t longest = 40;
  const char separator = separator_of(heading);
  if (separator == '\0') return "";
  std::string shown;
  for (const std::string& cell : cells_of(heading, separator)) {
    shown += (shown.empty() ? "; it has " : ", ") + printable(cell.substr(0, longest));
  }
  return separator == ',' ? shown
                          : fmt::format("{} between '{}'", shown, printable({&separator, 1}));
}

RequestColumns columns_of(const std::string& heading, const RequestSink& sink) {
  const auto fields = cells_of(heading, ',');
  RequestColumns columns{};
  for (std::size_t i = 0; i < column_names.size(); ++i) {
    auto found = fields.end();
    for (const std::string_view name : column_names[i]) {
      if (found == fields.end()) found = std::ranges::find(fields, name, letters_and_digits);
    }
    if (found == fields.end()) {
      sink.fail(fmt::format("names no column {}{}", column_names[i][0], shown_columns(heading)),
                fmt::format("between commas, one of {}; case and marks do not matter",
                            fmt::join(column_names[i], ", ")));
    }
    columns[i] = static_cast<std::size_t>(found - fields.begin());
  }
  return columns;
}

void read_row(const std::string& line, const RequestColumns& columns, RequestSink& sink) {
  const auto fields = cells_of(line, ',');
  std::array<double, 3> values{};
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (columns[i] >= fields.size()) sink.fail("has too few columns");
    const auto value = seconds_in(fields[columns[i]]);
    if (!value) sink.fail(fmt::format("column {} is not a number", columns[i] + 1));
    values[i] = *value;
  }
  sink.add(values[0], values[1], values[2]);
}

}  // namespace

RequestLog read_request_log(const std::string& path, std::int64_t most) {
  LineFile lines(path);
  RequestLog log;
  RequestSink sink(lines, log);
  std::optional<RequestColumns> columns;
  std::string line;
  while ((most == 0 || std::ssize(log.requests) < most) && lines.next(line)) {
    if (columns) {
      read_row(line, *columns, sink);
    } else if (line.find_first_not_of(" \t") == line.find('{')) {
      read_json_line(line, lines, sink, log);
    } else if (log.requests.empty()) {
      columns = columns_of(line, sink);
    } else {
      sink.fail("is not an object");
    }
  }
  if (log.requests.empty()) throw error_in(path, "has no requests", log_hint);
  return log;
}

}  // namespace moesim
