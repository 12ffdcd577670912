// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/measured/benchmark_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/base/json.h"
#include "sim/base/pasted_text.h"
#include "sim/base/text.h"
#include "sim/serving/measured/benchmark_figures.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* forms_hint =
    "results of vllm bench serve --save-result, SGLang's bench_serving --output-file, "
    "trtllm-bench --report_json and AIPerf (profile_export_aiperf.json), or what the first two "
    "print";
constexpr double ms = 1e-3;

/// How names of a latency are made: `before`, the statistic, `after`.
struct LatencyName {
  const char *before, *after;
  double unit;  // s
};
/// The statistics as tools name them, and where they go.
struct StatisticName {
  std::optional<double> StatedLatency::*statistic;
  std::vector<const char*> names;
};

const std::vector<StatisticName>& statistic_names() {
  static const std::vector<StatisticName> names = {
      {&StatedLatency::mean, {"mean", "avg", "average"}},
      {&StatedLatency::p50, {"median", "p50"}},
      {&StatedLatency::p90, {"p90"}},
      {&StatedLatency::p95, {"p95"}},
      {&StatedLatency::p99, {"p99"}}};
  return names;
}

// AIPerf's and TensorRT-LLM's gaps are means over each request: others call these TPOT.
constexpr LatencyName ttft_names[] = {{"", "ttftms", ms},
                                      {"timetofirsttoken.", "", 1},
                                      {"streamingmetrics.ttftpercentiles.", "", ms},
                                      {"streamingmetrics.", "ttftms", ms}};
constexpr LatencyName tpot_names[] = {{"", "tpotms", ms},
                                      {"intertokenlatency.", "", 1},
                                      {"streamingmetrics.tpotpercentiles.", "", ms},
                                      {"streamingmetrics.", "tpotms", ms}};
constexpr LatencyName gap_names[] = {{"", "itlms", ms}};
constexpr LatencyName latency_names[] = {{"", "e2elms", ms},
                                         {"", "e2elatencyms", ms},
                                         {"requestlatency.", "", 1},
                                         {"performance.requestlatencypercentilesms.", "", ms},
                                         {"performance.", "requestlatencyms", ms}};

/// The first of all names that the statistic may have. Without a streamed answer tools state zeros.
std::optional<double> statistic_of(BenchmarkFigures& figures, std::span<const LatencyName> names,
                                   const std::vector<const char*>& words) {
  for (const LatencyName& name : names) {
    for (const char* word : words) {
      const auto value = figures.figure({fmt::format("{}{}{}", name.before, word, name.after)});
      if (value && *value > 0) return *value * name.unit;
    }
  }
  return std::nullopt;
}

StatedLatency latency_of(BenchmarkFigures& figures, std::span<const LatencyName> names) {
  StatedLatency latency;
  for (const auto& [statistic, words] : statistic_names()) {
    latency.*statistic = statistic_of(figures, names, words);
  }
  return latency;
}

std::string tool_of(const BenchmarkFigures& figures) {
  if (figures.number({"requestinfo.numrequests"})) return "trtllm-bench";
  if (figures.number({"requestlatency.avg"})) return "AIPerf";
  const bool sglang = figures.number({"meane2elatencyms"}) || figures.number({"concurrency"});
  return sglang ? "SGLang bench_serving" : "vllm bench serve";
}

/// Those of vLLM and SGLang are one process.
ClientTimes client_of(const std::string& tool) {
  return tool == "trtllm-bench" || tool == "AIPerf" ? ClientTimes{} : benchmark_client;
}

/// A place that errors name.
struct ResultPlace {
  const std::string& file;
  int line;

  [[noreturn]] void fail(const std::string& message, const std::string& hint = forms_hint) const {
    throw error_in(file, message, hint, line);
  }
};

/// Tokens per request: of a mean, or of a sum over all.
double mean_tokens(std::optional<double> mean, std::optional<double> sum, const char* what,
                   const ServedBenchmark& result, const ResultPlace& place) {
  const double tokens =
      mean ? *mean : sum.value_or(0) / std::max(1.0, static_cast<double>(result.requests));
  if (tokens >= 1) return tokens;
  place.fail(fmt::format("says nothing of how long {} are", what));
}

/// Those of requests that were answered: the others gave no token.
void add_lengths(const BenchmarkFigures& figures, ServedBenchmark& result,
                 const ResultPlace& place) {
  const auto inputs = figures.lists.find("inputlens"), outputs = figures.lists.find("outputlens");
  if (inputs == figures.lists.end() || outputs == figures.lists.end()) return;
  if (inputs->second.size() != outputs->second.size()) {
    place.fail(fmt::format("has {} input_lens and {} output_lens", inputs->second.size(),
                           outputs->second.size()),
               "each request has one of both");
  }
  for (std::size_t i = 0; i < inputs->second.size(); ++i) {
    if (inputs->second[i] < 1 || outputs->second[i] < 1) continue;
    result.inputs.push_back(std::llround(inputs->second[i]));
    result.outputs.push_back(std::llround(outputs->second[i]));
  }
}

/// Of requests per second or in flight: "inf" is a text, and 0 is none.
std::optional<double> stated(std::optional<double> load) {
  return load && *load > 0 && std::isfinite(*load) ? load : std::nullopt;
}

void add_load(const BenchmarkFigures& figures, ServedBenchmark& result, const ResultPlace& place) {
  result.rate =
      stated(figures.number({"requestrate", "trafficrequestrate", "requestrateconfiguredrps",
                             "inputconfig.loadgen.requestrate", "inputconfig.requestrate",
                             "inputconfig.perfanalyzer.stimulus.requestrate"}));
  result.in_flight =
      stated(figures.number({"maxconcurrency", "maxrequestconcurrency", "maximumrequestconcurrency",
                             "inputconfig.loadgen.concurrency", "inputconfig.concurrency",
                             "inputconfig.perfanalyzer.stimulus.concurrency"}));
  if (!result.in_flight) {
    result.in_flight = stated(figures.number({"requestinfo.avgnumconcurrentrequests"}));
    result.in_flight_is_mean = result.in_flight.has_value();
  }
  result.burstiness = figures.number({"burstiness"}).value_or(1);
  if (!figures.text({"rampupstrategy"}).empty()) {
    place.fail("its rate rises while it runs (ramp_up_strategy)",
               "a steady --request-rate or --max-concurrency can be compared");
  }
}

ServedBenchmark result_of(BenchmarkFigures figures, const ResultPlace& place) {
  ServedBenchmark result;
  result.file = place.file;
  result.line = place.line;
  const auto answered = figures.number(
      {"completed", "successfulrequests", "requestcount.avg", "requestinfo.numrequests"});
  if (!answered) place.fail("is not a result of a benchmark: it does not say how many requests");
  if (*answered < 1 || *answered > 1 << 24) {
    place.fail(fmt::format("{} requests were answered", *answered),
               "run the benchmark again: nothing can be compared");
  }
  result.requests = std::llround(*answered);
  result.failed = std::llround(
      figures.number({"failed", "failedrequests", "errorrequestcount.avg"}).value_or(0));
  result.tool = tool_of(figures);
  result.client = client_of(result.tool);
  result.model = figures.text({"modelid", "inputconfig.endpoint.modelnames",
                               "inputconfig.modelnames", "engine.model", "model"});
  result.backend = figures.text({"backend", "endpointtype"});
  add_load(figures, result, place);
  add_lengths(figures, result, place);
  result.input =
      mean_tokens(figures.number({"inputsequencelength.avg", "requestinfo.avginputlength"}),
                  figures.number({"totalinputtokens"}), "prompts", result, place);
  result.output = mean_tokens(
      figures.number({"outputsequencelength.avg", "requestinfo.avgoutputlength"}),
      figures.number({"totaloutputtokens", "totalgeneratedtokens"}), "answers", result, place);
  result.ttft = latency_of(figures, ttft_names);
  result.tpot = latency_of(figures, tpot_names);
  result.gap = latency_of(figures, gap_names);
  result.latency = latency_of(figures, latency_names);
  result.output_rate =
      figures.figure({"outputthroughput", "outputtokenthroughputtoks", "outputtokenthroughput.avg",
                      "performance.systemoutputthroughputtoks"});
  result.request_rate =
      figures.figure({"requestthroughput", "requestthroughputreqs", "requestthroughput.avg",
                      "performance.requestthroughputreqs"});
  result.duration = figures.figure({"duration", "benchmarkdurations", "benchmarkduration.avg"});
  result.gpus = static_cast<int>(figures.number({"worldinfo.worldsize"}).value_or(0));
  if (!result.output_rate && !result.ttft.mean && !result.ttft.p50 && !result.latency.mean) {
    place.fail("states neither times nor rates of tokens");
  }
  for (const std::string& name : figures.left_out) {
    result.notes.push_back(
        fmt::format("'{}' is not a number of 0 or more: left out", printable(name)));
  }
  return result;
}

/// Whether each line is an object of its own.
bool has_json_lines(std::string_view text) {
  const std::string_view first = text.substr(0, text.find('\n'));
  const auto end = first.find_last_not_of(" \r\t");
  return first.size() < text.size() && end != first.npos && first[end] == '}';
}

void add_json_results(const std::string& file, std::string_view text, int line,
                      std::vector<ServedBenchmark>& results) {
  const Json json =
      parse_json(without_infinities(std::string(text)), {file, std::max(1, line), forms_hint});
  const ResultPlace place{file, line};
  const auto add = [&](const Json& object) {
    if (!object.is_object()) place.fail("is not a result of a benchmark");
    results.push_back(result_of(figures_of_json(object), place));
  };
  if (json.is_array()) {
    for (const Json& object : json) add(object);
  } else {
    add(json);
  }
}

/// Each from its heading to a line of "=" alone.
void add_printed_results(const std::string& file, const std::string& text,
                         std::vector<ServedBenchmark>& results) {
  const std::string printed = as_printed(text);
  BenchmarkFigures figures;
  int line_number = 0, first = 0;  // 0: in no result
  const auto finish = [&](bool whole) {
    if (first > 0) results.push_back(result_of(figures, {file, first}));
    if (first > 0 && !whole) {
      results.back().notes.emplace_back(
          "ends without its last line of '=': figures may be missing");
    }
    figures = {};
    first = 0;
  };
  for (std::size_t at = 0; at < printed.size();) {
    const auto end = std::min(printed.find('\n', at), printed.size());
    const std::string_view line = std::string_view(printed).substr(at, end - at);
    at = end + 1;
    ++line_number;
    if (line.find("Serving Benchmark Result") != line.npos) {
      finish(false);
      first = line_number;
    } else if (!line.empty() && line.find_first_not_of("= \r") == line.npos) {
      finish(true);
    } else if (first > 0) {
      add_printed_figure(line, figures);
    }
  }
  finish(false);
}

}  // namespace

std::vector<ServedBenchmark> read_served_benchmarks(const std::string& file) {
  return read_served_benchmarks(file, read_file(file));
}

std::vector<ServedBenchmark> read_served_benchmarks(const std::string& file,
                                                    const std::string& text) {
  std::vector<ServedBenchmark> results;
  const std::size_t begin = text.find_first_not_of(" \r\n\t");
  const bool json = begin != text.npos && (text[begin] == '{' || text[begin] == '[');
  const std::string_view content = json ? std::string_view(text).substr(begin) : text;
  if (json && has_json_lines(content)) {
    int line = static_cast<int>(std::count(text.begin(), text.begin() + begin, '\n'));
    for (std::size_t at = 0; at < content.size();) {
      const auto end = std::min(content.find('\n', at), content.size());
      const std::string_view of = content.substr(at, end - at);
      at = end + 1;
      ++line;
      if (of.find_first_not_of(" \r\t") == of.npos) continue;
      add_json_results(file, of, line, results);
    }
  } else if (json) {
    add_json_results(file, text, 0, results);
  } else {
    add_printed_results(file, text, results);
  }
  if (results.empty()) throw error_in(file, "has no result of a benchmark", forms_hint);
  if (results.size() == 1) results.front().line = 0;
  return results;
}

}  // namespace moesim
