// SPDX-License-Identifier: Apache-2.0
#include "sim/report/trace_events.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

namespace moesim {
namespace {

std::string json_text(const std::string& text) { return nlohmann::json(text).dump(); }

/// The format counts microseconds; six digits behind the point are picoseconds.
std::string microseconds(Picoseconds time) {
  return fmt::format("{}.{:06d}", time / 1'000'000, time % 1'000'000);
}

}  // namespace

Picoseconds picoseconds(Seconds time) { return std::llround(time.value * 1e12); }

void TraceEvents::name_process(int process, const std::string& name) {
  put(fmt::format(R"({{"ph":"M","name":"process_name","pid":{},"args":{{"name":{}}}}})", process,
                  json_text(name)));
  put(fmt::format(R"({{"ph":"M","name":"process_sort_index","pid":{},"args":{{"sort_index":{}}}}})",
                  process, process));
}

void TraceEvents::name_thread(TraceThread thread, const std::string& name) {
  put(fmt::format(R"({{"ph":"M","name":"thread_name","pid":{},"tid":{},"args":{{"name":{}}}}})",
                  thread.process, thread.thread, json_text(name)));
  put(fmt::format(
      R"({{"ph":"M","name":"thread_sort_index","pid":{},"tid":{},"args":{{"sort_index":{}}}}})",
      thread.process, thread.thread, thread.thread));
}

void TraceEvents::slice(const TraceSlice& s) {
  put(fmt::format(R"({{"ph":"X","pid":{},"tid":{},"ts":{},"dur":{},"name":{},"cat":{}{}}})",
                  s.on.process, s.on.thread, microseconds(s.begin), microseconds(s.end - s.begin),
                  json_text(s.name), json_text(s.category),
                  s.args.empty() ? "" : fmt::format(R"(,"args":{})", s.args)));
}

void TraceEvents::arrow(TraceThread from, Picoseconds begin, TraceThread to, Picoseconds end,
                        const std::string& name) {
  const std::int64_t first = (std::int64_t{from.process} << 28) + arrows_++;
  const auto point = [&](const char* kind, TraceThread at, Picoseconds when) {
    put(fmt::format(R"({{"ph":{},"id":{},"pid":{},"tid":{},"ts":{},"name":{},"cat":"flow"}})", kind,
                    first, at.process, at.thread, microseconds(when), json_text(name)));
  };
  point(R"("s")", from, begin);
  point(R"("f","bp":"e")", to, end);
}

void TraceEvents::counter(int process, const std::string& name, Picoseconds at,
                          const std::vector<std::pair<std::string, double>>& series) {
  std::string values;
  for (const auto& [what, value] : series) {
    values += fmt::format("{}{}:{}", values.empty() ? "" : ",", json_text(what), value);
  }
  put(fmt::format(R"({{"ph":"C","pid":{},"ts":{},"name":{},"args":{{{}}}}})", process,
                  microseconds(at), json_text(name), values));
}

void TraceEvents::put(std::string_view event) {
  text_ += ",\n";
  text_ += event;
  if (text_.size() > (1 << 20)) flush();
}

void TraceEvents::flush() {
  if (!text_.empty()) out_(text_);
  text_.clear();
}

std::string start_of_events(const std::string& version, const std::string& shown) {
  return fmt::format(
      "{{\"displayTimeUnit\":\"ns\",\"otherData\":{{\"moesim\":{},\"shown\":{}}},\n"
      "\"traceEvents\":[\n{{\"ph\":\"M\",\"name\":\"moesim\",\"pid\":0,\"args\":{{}}}}",
      nlohmann::json(version).dump(), nlohmann::json(shown).dump());
}

}  // namespace moesim
