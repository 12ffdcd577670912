// SPDX-License-Identifier: Apache-2.0
#include "realhw/calibrate/times_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/base/error.h"
#include "sim/base/files.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* format = "moesim-hw-times";

std::int64_t nanoseconds(Seconds s) { return std::llround(s.value * 1e9); }

Json json_of(const Timeline& timeline) {
  Json ops = Json::array();
  for (const auto& intervals : timeline.ops) {
    Json& op = ops.emplace_back(Json::array());
    for (const Interval& i : intervals) {
      op.push_back(nanoseconds(i.start));
      op.push_back(nanoseconds(i.end));
    }
  }
  return ops;
}

Timeline timeline_of(const Json& ops) {
  Timeline timeline;
  for (const Json& op : ops) {
    auto& intervals = timeline.ops.emplace_back();
    for (std::size_t i = 0; i + 1 < op.size(); i += 2) {
      const auto seconds = [&](std::size_t at) {
        return Seconds(static_cast<double>(op.at(at).get<std::int64_t>()) * 1e-9);
      };
      intervals.push_back({seconds(i), seconds(i + 1)});
      timeline.makespan = std::max(timeline.makespan, intervals.back().end);
    }
  }
  return timeline;
}

void add_line(const Json& line, Times& times) {
  auto& timelines = times[line.at("plan").get<std::string>()][line.at("round").get<int>()];
  timelines.clear();
  for (const Json& timeline : line.at("ns")) timelines.push_back(timeline_of(timeline));
}

std::string first_line(const std::string& plans) {
  return Json{{"format", format}, {"format_version", 1}, {"plans", plans}}.dump() + "\n";
}

}  // namespace

Times parse_times(const std::string& text, const std::string& file, const std::string& plans) {
  const std::string head = first_line(plans);
  if (!text.starts_with(head)) {
    const bool known = text.find(format) != std::string::npos;
    throw error_in(file, known ? "these times are of other plans" : "this is no file of times",
                   known ? "resume with the same topology, model and flags, or leave --resume out"
                         : "leave --resume out to write it anew");
  }
  Times times;
  int number = 1;
  for (std::size_t at = head.size(), end = 0; at < text.size(); at = end + 1) {
    end = text.find('\n', at);
    ++number;
    if (end == std::string::npos) break;
    try {
      add_line(Json::parse(text.substr(at, end - at)), times);
    } catch (const Json::exception&) {
      throw Error({{Severity::error, file, number, 1, "this line is no measured time", "",
                    "leave --resume out to measure anew"}});
    }
  }
  return times;
}

TimesFile::TimesFile(std::string path, const std::string& plans, bool resumed)
    : path_(std::move(path)) {
  std::string text = first_line(plans);
  if (resumed) {
    text = read_file(path_);
    text.resize(text.rfind('\n') + 1);  // without a last line that was cut short
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
