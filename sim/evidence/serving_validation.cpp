// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/serving_validation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/files.h"
#include "sim/base/lower_case.h"
#include "sim/base/stop_signals.h"
#include "sim/base/temporary_folder.h"
#include "sim/base/text.h"
#include "sim/evidence/served_figures.h"
#include "sim/run/engine_cases.h"
#include "sim/run/engine_views.h"
#include "sim/scenario/engine_run.h"
#include "sim/scenario/scenario.h"

namespace moesim {
namespace {

/// Requests as a benchmark sent them.
RequestLog log_of(const ServedBenchmark& benchmark, const BenchmarkLoad& load) {
  const bool each = !benchmark.inputs.empty();
  RequestDraw draw;
  draw.count = each ? std::ssize(benchmark.inputs) : benchmark.requests;
  draw.seed = 1;
  draw.input.mean = std::round(benchmark.input);
  draw.output.mean = std::round(benchmark.output);
  if (load.in_flight) {
    draw.concurrency = std::llround(load.of);
    draw.client = benchmark.client;
  } else {
    draw.arrivals.rate = load.of;
    draw.arrivals.kind = ArrivalLaw::Kind::gamma;
    draw.arrivals.variation = 1 / std::sqrt(benchmark.burstiness);
    if (benchmark.burstiness == 1) draw.arrivals.kind = ArrivalLaw::Kind::poisson;
  }
  RequestLog log = draw_requests(draw);
  for (std::size_t i = 0; each && i < log.requests.size(); ++i) {
    log.requests[i].input = benchmark.inputs[i];
    log.requests[i].output = benchmark.outputs[i];
  }
  return log;
}

/// As `serving.requests` of a scenario; the file is written.
std::string requests_key(const RequestLog& log, const std::string& file) {
  std::string text = "arrival,input,output\n";
  for (const ServingRequest& r : log.requests) {
    text += fmt::format("{},{},{}\n", r.arrival.value, r.input, r.output);
  }
  write_file(file, text);
  nlohmann::ordered_json key = {{"file", file}};
  if (log.concurrency > 0) key["concurrency"] = log.concurrency;
  if (log.client.prepare > Seconds{}) key["client"] = "benchmark";
  return key.dump();
}

std::string place_of(const ServedBenchmark& b) {
  return b.line > 0 ? fmt::format("{}:{}", b.file, b.line) : b.file;
}

/// One of the presets that the name of a benchmark's backend begins with, as "sglang-oai" does;
/// empty: an API that any engine may have.
std::string engine_of_backend(const std::string& backend) {
  const std::string name = letters_and_digits(backend);
  for (const char* engine : {"vllm", "sglang", "trtllm"}) {
    if (name.starts_with(engine)) return engine;
  }
  return name.starts_with("tensorrtllm") ? "trtllm" : "";
}

void add_notes(const ServedComparison& run, const BenchmarkLoad& load, const Scenario& scenario,
               const std::string& model, ServingValidation& validation) {
  const ServedBenchmark& b = run.measured;
  const auto add = [&](const std::string& note) {
    const std::string text = fmt::format("{}: {}", place_of(b), note);
    const auto& notes = validation.notes;
    if (std::ranges::find(notes, text) == notes.end()) validation.notes.push_back(text);
  };
  const std::string its = letters_and_digits(b.model), ours = letters_and_digits(model);
  if (!its.empty() && its.find(ours) == its.npos && ours.find(its) == ours.npos) {
    add(fmt::format("is of {}, the scenario of {}", printable(b.model), model));
  }
  const std::string engine = engine_of_backend(b.backend);
  const std::string preset = scenario.engine_run->engine.options.name;
  if (!engine.empty() && !preset.empty() && !preset.starts_with(engine)) {
    add(fmt::format("is of {}, the scenario of the engine {}", printable(b.backend), preset));
  }
  if (b.gpus > 0 && b.gpus != run.simulated.gpus) {
    add(fmt::format("ran on {}, the scenario has {}", counted(b.gpus, "GPU"), run.simulated.gpus));
  }
  if (!load.note.empty()) add(load.note);
  for (const std::string& note : b.notes) add(note);
  if (b.failed > 0) {
    add(fmt::format("{} failed, which is not simulated", counted(b.failed, "request")));
  }
  if (b.inputs.empty()) {
    add(
        fmt::format("all requests have its means, {:.0f} tokens in and {:.0f} out: it has no "
                    "lengths of each",
                    b.input, b.output));
  }
}

Cell figure_cell(const ServedFigure& figure, double value) {
  if (figure.is_time) return Cell(Seconds(value));
  return {fmt::format("{:.{}f}", value, value < 10 ? 2 : 0), value};
}

/// Of all runs: the mean absolute error of each figure.
Table error_table(const std::vector<std::pair<std::string, std::vector<double>>>& errors) {
  Table table("errors", 1, {"figure", "benchmarks", "mean absolute error", "mean error"});
  for (const auto& [name, list] : errors) {
    double absolute = 0, sum = 0;
    for (const double error : list) absolute += std::abs(error), sum += error;
    const auto n = static_cast<double>(list.size());
    table.rows.push_back({Cell(name), Cell(std::ssize(list)), percent_cell(absolute / n, 1),
                          Cell(signed_percent(sum / n), sum / n)});
  }
  return table;
}

nlohmann::ordered_json run_json(const ServedComparison& run) {
  const ServedBenchmark& b = run.measured;
  nlohmann::ordered_json figures = nlohmann::ordered_json::object();
  for (const ServedFigure& f : figures_of(run)) {
    figures[f.name] = {{"measured", f.measured}, {"simulated", f.simulated}, {"error", f.error()}};
  }
  return {{"file", b.file},     {"line", b.line},
          {"tool", b.tool},     {"model", b.model},
          {"load", run.load},   {"requests", b.requests},
          {"failed", b.failed}, {"input", b.input},
          {"output", b.output}, {"gpus", run.simulated.gpus},
          {"figures", figures}};
}

}  // namespace

BenchmarkLoad load_of(const ServedBenchmark& benchmark) {
  const auto all = static_cast<double>(benchmark.requests);
  const double most = std::min(all, std::max(1.0, benchmark.in_flight.value_or(all)));
  if (!benchmark.rate) {
    BenchmarkLoad load{true, std::round(most), ""};
    if (benchmark.in_flight_is_mean) {
      load.note =
          fmt::format("{:.0f} requests in flight are its mean: it does not say what was set", most);
    }
    return load;
  }
  if (!benchmark.in_flight) return {false, *benchmark.rate, ""};
  // Little's law: so many were in flight on average.
  const double mean = benchmark.latency.mean.value_or(0) * all / benchmark.duration.value_or(all);
  const bool at_most = mean > 0.9 * most;
  return {
      at_most, at_most ? std::round(most) : *benchmark.rate,
      fmt::format("has {} requests per second and at most {:.0f} in flight: simulated by the {}",
                  *benchmark.rate, most, at_most ? "latter" : "former")};
}

ServingValidation validate_serving(const std::string& file, const std::vector<Override>& flags,
                                   const std::vector<ServedBenchmark>& benchmarks,
                                   const std::string& version, const ComparisonOptions& options) {
  if (!read_scenario(file, flags).engine_run) {
    throw Error(
        "a benchmark of a serving engine is compared with an engine; the scenario has none",
        "'serving.engine' and 'serving.requests' describe one: scenarios/serving-engine.yaml");
  }
  const TemporaryFolder folder;
  ServingValidation validation;
  validation.scenario = std::filesystem::path(file).filename();
  for (std::size_t i = 0; i < benchmarks.size(); ++i) {
    const ServedBenchmark& benchmark = benchmarks[i];
    const BenchmarkLoad load = load_of(benchmark);
    const std::string key =
        requests_key(log_of(benchmark, load), fmt::format("{}/requests{}.csv", folder.path(), i));
    std::vector<Override> changes = flags;
    changes.push_back({"serving.requests", key, "the requests of " + place_of(benchmark)});
    changes.push_back({"serving.warmup_requests", "0", "the requests of " + place_of(benchmark)});
    const Scenario scenario = read_scenario(file, changes);
    const Inputs inputs = open_inputs(scenario);
    if (i == 0) {
      for (const Diagnostic& w : inputs.warnings) fmt::print(stderr, "{}", w.str());
      validation.assumptions = engine_assumptions(scenario, inputs, version);
    }
    const EngineResult result = run_engines(scenario, inputs, options);
    if (result.signal != 0) {
      throw Interrupted(result.signal, fmt::format("interrupted after {} of {}", i,
                                                   counted(std::ssize(benchmarks), "benchmark")));
    }
    if (result.cases.size() != 1) {
      throw Error("the scenario has several cases",
                  "--set policy=NAME and --set routing=recorded leave one");
    }
    validation.runs.push_back(
        {benchmark,
         load.in_flight ? fmt::format("{:.0f} in flight", load.of) : fmt::format("{}/s", load.of),
         result.cases.front().outcome});
    add_notes(validation.runs.back(), load, scenario, inputs.model.name, validation);
  }
  return validation;
}

Printout serving_validation_text(const ServingValidation& validation) {
  Table table("figures", {{"benchmark", TableColumn::Kind::key},
                          {"load", TableColumn::Kind::key},
                          {"figure", TableColumn::Kind::key},
                          {"measured"},
                          {"simulated"},
                          {"error"}});
  std::vector<std::pair<std::string, std::vector<double>>> errors;
  for (const ServedComparison& run : validation.runs) {
    for (const ServedFigure& figure : figures_of(run)) {
      table.rows.push_back({Cell(place_of(run.measured)), Cell(run.load), Cell(figure.name),
                            figure_cell(figure, figure.measured),
                            figure_cell(figure, figure.simulated),
                            Cell(signed_percent(figure.error()), figure.error())});
      auto at = std::ranges::find(errors, figure.name, &decltype(errors)::value_type::first);
      if (at == errors.end()) at = errors.insert(at, {figure.name, {}});
      at->second.push_back(figure.error());
    }
  }
  Printout out;
  out.add(validation.assumptions)
      .add("# measured by clients, with their network; gap: between tokens (ITL)\n");
  for (const std::string& note : validation.notes) out.add("# " + note + "\n");
  out.add(table);
  if (validation.runs.size() > 1) out.add("\n").add(error_table(errors));
  return out;
}

std::string serving_validation_json(const ServingValidation& validation,
                                    const std::string& version) {
  nlohmann::ordered_json out = {{"format", "moesim-serving-validation"},
                                {"format_version", 1},
                                {"moesim", version},
                                {"scenario", validation.scenario},
                                {"notes", validation.notes},
                                {"runs", nlohmann::ordered_json::array()}};
  for (const ServedComparison& run : validation.runs) out["runs"].push_back(run_json(run));
  return out.dump(2) + "\n";
}

}  // namespace moesim
