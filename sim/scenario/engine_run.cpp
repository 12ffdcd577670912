// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/engine_run.h"

#include <fmt/format.h>

#include <cmath>
#include <filesystem>

#include "sim/base/data_files.h"
#include "sim/base/files.h"
#include "sim/planner/iteration/iteration_spec.h"
#include "sim/scenario/deployment_reader.h"

namespace moesim {
namespace {

const std::vector<std::string> run_keys = {"engine",    "requests",  "sla",    "warmup_requests",
                                           "instances", "transfer",  "losses", "prices",
                                           "router",    "kv_tokens", "decode"};
const std::vector<std::string> arrival_names = {"poisson", "gamma", "even"};
const std::vector<std::string> length_laws = {"fixed", "uniform", "lognormal"};
constexpr Range whole{1, 1 << 30};

/// A number of tokens, or {mean, spread, law, least, most}.
LengthLaw read_lengths(const YamlMap& map, const std::string& key) {
  LengthLaw law;
  const auto value = map.get(key);
  if (!value) return law;
  if (value->is_scalar()) {
    law.mean = static_cast<double>(value->integer(whole));
    return law;
  }
  const YamlMap of = value->map();
  law.mean = of.number("mean", {1, 1e9});
  law.spread = of.number("spread", non_negative, 0);
  law.kind = static_cast<LengthLaw::Kind>(
      of.choice("law", length_laws, static_cast<int>(LengthLaw::Kind::lognormal)));
  const auto spread = of.find("spread");
  if (spread && law.kind == LengthLaw::Kind::fixed && of.good({"law"})) {
    spread->error(fmt::format("'{}' has no effect: the law is fixed", spread->path()),
                  "law: lognormal or uniform, or take it away");
  }
  law.least = of.integer("least", whole, law.least);
  law.most = of.integer("most", whole, law.most);
  if (law.least > law.most && of.good({"least", "most"})) {
    value->error(
        fmt::format("'{}' has least {} above most {}", value->path(), law.least, law.most));
  }
  return law;
}

void read_draw(const YamlMap& map, RequestDraw& draw) {
  draw.count = map.integer("count", {1, 1 << 24});
  draw.seed = static_cast<std::uint64_t>(map.integer("seed", {0, 9e15}, 0));
  draw.input = read_lengths(map, "input");
  draw.output = read_lengths(map, "output");
  draw.shared_prefix = map.integer("shared_prefix", {0, 1 << 30}, 0);
  const auto rate = map.find("rate");
  const auto arrivals = map.find("arrivals");
  if (rate) {
    draw.arrivals.rate = rate->number(positive);
    draw.arrivals.kind = static_cast<ArrivalLaw::Kind>(map.choice("arrivals", arrival_names, 0));
    draw.arrivals.variation = map.number("variation", positive, 1);
    const auto variation = map.find("variation");
    if (variation && draw.arrivals.kind != ArrivalLaw::Kind::gamma && map.good({"arrivals"})) {
      variation->error(fmt::format("'{}' has no effect: arrivals are {}", variation->path(),
                                   arrival_names[static_cast<std::size_t>(draw.arrivals.kind)]),
                       "arrivals: gamma, or take it away");
    }
  } else if (arrivals) {
    arrivals->error(fmt::format("'{}' without a rate", arrivals->path()), "rate: 10 (per second)");
  } else if (draw.concurrency == 0 && map.good({"concurrency"})) {
    map.value().error(fmt::format("'{}' says neither rate nor concurrency", map.value().path()),
                      "rate: 10 (requests per second), or concurrency: 256 (in flight)");
  }
  if (rate && draw.concurrency > 0) {
    rate->error(fmt::format("'{}' together with concurrency", rate->path()),
                "in a closed loop the next request comes when one ends");
  }
}

/// The path of a log, next to the scenario's file if it is there.
std::string log_path(const std::string& given, const std::string& file) {
  const std::filesystem::path beside = std::filesystem::path(file).parent_path() / given;
  return !file.empty() && is_there(beside.string()) ? beside.string() : given;
}

/// Of a closed loop: `benchmark`, or its times.
void read_client(const YamlMap& map, RequestDraw& draw) {
  const auto value = map.find("client");
  if (!value) return;
  if (draw.concurrency == 0) {
    value->error(fmt::format("'{}' without concurrency", value->path()),
                 "concurrency: 64 (in flight); clients that send at a rate are not simulated");
  }
  if (value->is_scalar()) {
    value->choice({"benchmark"});
    draw.client = benchmark_client;
    return;
  }
  const YamlMap times = value->map();
  draw.client = {times.seconds("prepare", Seconds{}), times.seconds("send", Seconds{})};
}

void read_requests(const YamlMap& map, const std::string& file, EngineRun& run) {
  run.draw.concurrency = map.integer("concurrency", whole, 0);
  read_client(map, run.draw);
  const auto log = map.find("file");
  if (!log) return read_draw(map, run.draw);
  run.request_file = log_path(log->string(), file);
  if (!is_there(run.request_file)) {
    log->error(fmt::format("there is no request log '{}'", log->string()),
               "a file of JSON lines (timestamp, input_length, output_length), or a table with "
               "the columns arrival, input, output");
  }
  run.most_requests = map.integer("count", {1, 1 << 24}, 0);
}

/// Two neighbouring numbers of tokens whose mean is 1 + accepted.
std::vector<double> gained_on_average(int drafts, double accepted) {
  std::vector<double> gained(static_cast<std::size_t>(drafts) + 1, 0);
  const double below = std::floor(accepted);
  const auto at = static_cast<std::size_t>(below);
  gained[at] = 1 - (accepted - below);
  if (at + 1 < gained.size()) gained[at + 1] = accepted - below;
  return gained;
}

void read_engine_of(const YamlMap& serving, const ServingSpec& pass, const std::string& file,
                    const HostModel& software, EngineRun& run) {
  const auto value = serving.get("engine");
  run.engine.options.drafts = pass.drafts;
  if (!value) return;
  const std::string preset =
      value->is_scalar() ? value->string() : value->map().string("preset", "");
  try {
    if (!preset.empty()) {
      run.engine_file = data_file("models/engine", preset, file);
      run.engine = read_engine(run.engine_file, software);
    }
  } catch (const Error& e) {
    value->error(e.diagnostics().front().message, e.diagnostics().front().hint);
  }
  EngineOptions& options = run.engine.options;
  options.drafts = pass.drafts;
  options.gained = gained_on_average(pass.drafts, pass.accepted);
  run.states_memory = serving.find("memory_fraction").has_value();
  if (run.states_memory) run.engine.memory = {pass.kv_fraction, false};
  if (!pass.pad.empty()) options.graph_sizes = pass.pad;
  if (!pass.graphs) options.graph_sizes.clear();
  if (value->is_map()) {
    read_engine_keys(value->map(), software, run.engine);
    run.states_gained = value->map().find("drafts").has_value();
    run.states_rebalance = value->map().find("rebalance").has_value();
  }
  if (options.drafts != pass.drafts) {
    value->error(fmt::format("'{}' has {} drafts, 'serving.drafts' is {}", value->path(),
                             options.drafts, pass.drafts),
                 "serving.drafts says how many tokens a pass verifies");
  }
}

void read_prices(const YamlValue& value, EngineRun& run) {
  if (value.is_scalar()) {
    run.exact_prices = value.choice({"exact", "reused"}) == 0;
    return;
  }
  const YamlMap map = value.map();
  run.prices.per_octave =
      static_cast<int>(map.integer("per_octave", {1, 64}, run.prices.per_octave));
  run.prices.check_every = map.integer("check_every", {0, 1 << 30}, run.prices.check_every);
  run.prices.exact_passes = map.integer("exact_passes", {0, 1 << 30}, run.prices.exact_passes);
}

}  // namespace

const std::vector<std::string>& engine_run_keys() {
  static const std::vector<std::string> keys = [] {
    std::vector<std::string> all = run_keys;
    std::erase(all, "requests");
    return all;
  }();
  return keys;
}

bool has_requests(const YamlMap& serving) { return serving.find("requests").has_value(); }

EngineRun read_engine_run(const YamlMap& scenario, const ServingSpec& pass, const std::string& file,
                          const HostModel& software) {
  const YamlMap serving = scenario.find("serving")->map();
  EngineRun run;
  run.router.kind = RouterOptions::Kind::least_requests;
  run.prices.decode_tokens = 1 + pass.drafts;
  run.prices.exact_passes = 256;
  read_engine_of(serving, pass, file, software, run);
  read_requests(serving.find("requests")->map(), file, run);
  if (const auto value = serving.find("router")) {
    run.engine.options.router = read_router(*value, run.engine.options.router);
  }
  if (const auto value = serving.find("kv_tokens")) {
    run.engine.options.kv.capacity = value->integer(whole);
  }
  if (const auto value = serving.find("sla")) {
    const YamlMap map = value->map();
    if (const auto ttft = map.find("ttft")) run.sla.ttft = ttft->seconds();
    if (const auto tpot = map.find("tpot")) run.sla.tpot = tpot->seconds();
  }
  run.warmup = serving.integer("warmup_requests", {0, 1 << 24}, 0);
  read_deployment(scenario, serving, run);
  if (const auto value = serving.find("prices")) read_prices(*value, run);
  for (const std::string& key : run_keys) {
    if (const auto value = serving.find(key)) run.text.emplace_back(key, value->json());
  }
  return run;
}

void take_from_engine(const EngineRun& run, IterationSpec& spec) {
  ServingSpec& serving = *spec.serving;
  const bool splits = serving.parts_of_overlap() > 1;
  if (splits && serving.overlap_from == OverlapFrom{}) {
    serving.overlap_from = run.engine.overlap_from;
  }
  if (!spec.host) spec.host = run.engine.host;
}

}  // namespace moesim
