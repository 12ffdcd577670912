// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/times_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "realhw/calibrate/origin_json.h"
#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/json.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* format = "moesim-hw-times";
constexpr int version = 2;

std::int64_t nanoseconds(Seconds s) { return std::llround(s.value * 1e9); }

Json json_of(const Timeline& timeline) {
  Json ops = Json::array();
  for (std::size_t id = 0; id < timeline.ops.size(); ++id) {
    Json& op = ops.emplace_back(Json::array());
    for (const Interval& i : timeline.ops[id]) {
      op.push_back(nanoseconds(i.start));
      op.push_back(nanoseconds(i.end));
    }
  }
  return ops;
}

Timeline timeline_of(const Json& ops) {
  Timeline timeline;
  for (const Json& op : ops) {
    std::vector<Interval> intervals;
    for (std::size_t i = 0; i < op.size(); i += 2) {
      const auto seconds = [&](std::size_t at) {
        return Seconds(static_cast<double>(op.at(at).get<std::int64_t>()) * 1e-9);
      };
      intervals.push_back({seconds(i), seconds(i + 1)});
      timeline.makespan = std::max(timeline.makespan, intervals.back().end);
    }
    timeline.ops.add_row(intervals);
  }
  return timeline;
}

void add_line(const Json& line, Times& times) {
  auto& timelines = times[line.at("plan").get<std::string>()][line.at("round").get<int>()];
  timelines.clear();
  for (const Json& timeline : line.at("ns")) timelines.push_back(timeline_of(timeline));
}

std::string first_line(const TimesHead& head) {
  Json line = {{"format", format}, {"format_version", version}};
  line.update(origin_json(head.origin));
  line["provenance"] = provenance_json(head.provenance);
  return line.dump() + "\n";
}

Error no_times(const std::string& file) {
  return error_in(file, "this is not a file of times",
                  "moesim-hw calibrate writes PREFIX.times.jsonl", 1);
}

TimesHead read_head(const std::string& text, const std::string& file) {
  Json line;
  try {
    line = parse_json(text, {file});
  } catch (const Error&) {  // another kind of file: told below
  }
  if (!line.is_object() || line.value("format", "") != format) {
    throw no_times(file);
  }
  if (const int found = line.at("format_version").get<int>(); found != version) {
    throw error_in(file,
                   fmt::format("is of version {}; this program reads version {}", found, version),
                   "measure anew, or read it with the release that wrote it", 1);
  }
  TimesHead head{read_calibration_origin(line), {}};
  head.provenance = read_provenance(line.at("provenance"), head.origin);
  return head;
}

/// Does something with a line of the file, and names it if that fails.
template <class Action>
void at_line(int number, const std::string& file, Action action) {
  const auto fail = [&](const std::string& what) {
    throw error_in(file, what, "copy the file again, or measure anew", number);
  };
  try {
    action();
  } catch (const Json::exception& e) {
    fail(fmt::format("this line is not a measured time: {}", e.what()));
  } catch (const Error& e) {
    if (!e.diagnostics().front().file.empty()) throw;
    fail(e.diagnostics().front().message);
  }
}

}  // namespace

TimesRead parse_times(const std::string& text, const std::string& file) {
  TimesRead read;
  int number = 0;
  std::size_t at = 0;
  for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', at)) {
    const std::string line = text.substr(at, end - at);
    at = end + 1;
    at_line(++number, file, [&] {
      if (number == 1) {
        read.head = read_head(line, file);
      } else {
        add_line(parse_json(line, {file, number}), read.times);
      }
    });
  }
  if (number == 0) throw no_times(file);  // not one whole line
  return read;
}

TimesRead read_times(const std::string& file) { return parse_times(read_file(file), file); }

TimesFile::TimesFile(std::string path, const TimesHead& head, const std::string& before)
    : path_(std::move(path)) {
  std::string text = first_line(head);
  if (!before.empty()) {  // without its head, and without a last line that was cut short
    const std::size_t begin = before.find('\n') + 1, end = before.rfind('\n') + 1;
    text += before.substr(begin, end - begin);
  }
  write_file(path_, text);
}

void TimesFile::append(const std::string& line) {
  std::ofstream out(path_, std::ios::app);
  out << line << std::flush;
  if (!out) throw error_in(path_, "cannot be written");
}

void TimesFile::add(const std::string& plan, int round, const std::vector<Timeline>& timelines) {
  Json list = Json::array();
  for (const Timeline& timeline : timelines) list.push_back(json_of(timeline));
  append(Json{{"plan", plan}, {"round", round}, {"ns", list}}.dump() + "\n");
}

std::vector<Timeline> timelines_of(const Times& times, const std::string& plan) {
  std::vector<Timeline> all;
  if (const auto rounds = times.find(plan); rounds != times.end()) {
    for (const auto& [round, list] : rounds->second)
      all.insert(all.end(), list.begin(), list.end());
  }
  return all;
}

}  // namespace moesim
