// SPDX-License-Identifier: Apache-2.0
#include "sim/run/engine_views.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "sim/base/figures.h"
#include "sim/base/json.h"
#include "sim/base/units.h"
#include "sim/run/result_file.h"
#include "sim/run/serving_views.h"
#include "sim/scenario/engine_run.h"
#include "sim/scenario/scenario_text.h"
#include "sim/serving/requests/request_log.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

/// "500 (lognormal, standard deviation 200, at most 400)".
std::string lengths_text(const LengthLaw& law) {
  const LengthLaw unbound;
  std::string text;
  if (law.kind == LengthLaw::Kind::lognormal) {
    text = fmt::format("lognormal, standard deviation {:.0f}", law.spread);
  } else if (law.kind == LengthLaw::Kind::uniform) {
    text = fmt::format("uniform, {:.0f} to {:.0f}", law.mean - law.spread, law.mean + law.spread);
  }
  const auto add = [&text](const std::string& bound) {
    text += (text.empty() ? "" : ", ") + bound;
  };
  if (law.least != unbound.least) add(fmt::format("at least {}", law.least));
  if (law.most != unbound.most) add(fmt::format("at most {}", law.most));
  return text.empty() ? fmt::format("{:.0f}", law.mean)
                      : fmt::format("{:.0f} ({})", law.mean, text);
}

/// What the scenario asks of a log, if that has as many.
std::string first_text(const EngineRun& run, std::int64_t there) {
  if (run.most_requests == 0) return "";
  return there < run.most_requests
             ? fmt::format(", all {}: fewer than the {} asked for", there, run.most_requests)
             : fmt::format(", the first {}", there);
}

std::string client_text(const RequestDraw& draw) {
  const ClientTimes& client = draw.client;
  if (client.prepare + client.send == Seconds{}) return "";
  return fmt::format(", their client takes {} to prepare and {} to send each",
                     to_string(client.prepare), to_string(client.send));
}

std::string requests_text(const EngineRun& run, std::int64_t there) {
  if (!run.request_file.empty()) {
    return fmt::format(
        "# requests of {}{}{}\n", run.request_file, first_text(run, there),
        run.draw.concurrency > 0
            ? fmt::format(", {} in flight{}", run.draw.concurrency, client_text(run.draw))
            : ", as they came");
  }
  const RequestDraw& draw = run.draw;
  const char* law = draw.arrivals.kind == ArrivalLaw::Kind::poisson ? "Poisson"
                    : draw.arrivals.kind == ArrivalLaw::Kind::gamma ? "gamma"
                                                                    : "evenly";
  return fmt::format(
      "# {} drawn (seed {}): {} tokens in, {} out, {}\n", counted(draw.count, "request"), draw.seed,
      lengths_text(draw.input), lengths_text(draw.output),
      draw.concurrency > draw.count
          ? fmt::format("all at once: {} may be in flight", draw.concurrency)
      : draw.concurrency > 0 ? fmt::format("{} in flight{}", draw.concurrency, client_text(draw))
                             : fmt::format("{} per second ({})", draw.arrivals.rate, law));
}

std::string limit_text(std::int64_t limit) {
  return limit == no_limit ? "any number of" : fmt::format("{}", limit);
}

/// "7 sequences and 512 tokens per pass and rank", "…, 8192 tokens of all ranks".
std::string limits_text(const EngineRun& run) {
  const EngineOptions& engine = run.engine.options;
  std::string text = fmt::format("{} sequences and {} tokens per pass and rank",
                                 limit_text(engine.max_sequences), limit_text(engine.max_tokens));
  if (run.engine.tokens_of_all_ranks == no_limit) return text;
  return text + fmt::format(", {} tokens of all ranks", run.engine.tokens_of_all_ranks);
}

std::string transfer_text(const EngineRun& run) {
  return (run.transfer_bandwidth ? fmt::format("at {} per GPU", to_string(*run.transfer_bandwidth))
                                 : "over the cluster's links") +
         (run.transfer_latency ? fmt::format(" after {}", to_string(*run.transfer_latency)) : "");
}

/// What the second pool has of its own.
std::string decode_keys_text(const EngineRun& run) {
  std::vector<std::string> keys;
  for (const Override& key : run.decode_keys) keys.push_back(key.path + "=" + key.value);
  return keys.empty() ? "" : fmt::format(" with {}", fmt::join(keys, ", "));
}

std::string engine_text(const EngineRun& run, const EngineOptions& engine) {
  std::string text =
      fmt::format("# engine {}{}: {}, {}, {}, router {}\n",
                  engine.name.empty() ? "of the scenario" : engine.name,
                  engine.version.empty() ? "" : fmt::format(" ({})", engine.version),
                  limits_text(run), engine.chunked_prefill ? "chunked prefill" : "whole prompts",
                  engine.mixed ? "prompts with answers" : "passes of prompts first",
                  router_names[static_cast<std::size_t>(engine.router.kind)]);
  if (run.decode_instances > 0) {
    text += fmt::format("# {} compute{} prompts, {} decode{}{}; keys and values move {}\n",
                        counted(run.instances, "instance"), run.instances == 1 ? "s" : "",
                        run.decode_instances, run.decode_instances == 1 ? "s" : "",
                        decode_keys_text(run), transfer_text(run));
  } else if (run.instances > 1) {
    text += fmt::format("# {} behind a router ({})\n", counted(run.instances, "instance"),
                        router_names[static_cast<std::size_t>(run.router.kind)]);
  }
  return text;
}

/// Of a router that looks for prefixes where there are none.
std::string prefix_text(const EngineRun& run, const RequestLog& log) {
  const bool by_prefix = run.router.kind == RouterOptions::Kind::prefix ||
                         run.engine.options.router.kind == RouterOptions::Kind::prefix;
  if (!by_prefix || log.prefix_tokens > 0) return "";
  return "# router prefix has no effect: no request has a prefix, so the fewest requests decide\n";
}

std::string sla_text(const EngineRun& run) {
  std::string text;
  if (run.sla.ttft) text += fmt::format("TTFT {}", to_string(*run.sla.ttft));
  if (run.sla.tpot) {
    text += fmt::format("{}TPOT {}", text.empty() ? "" : ", ", to_string(*run.sla.tpot));
  }
  return text.empty() ? "" : fmt::format("# SLA of a request: {}\n", text);
}

Json latency_json(const LatencyFigures& f) {
  if (f.count == 0) {
    Json none = {{"count", 0}};
    for (const char* key : {"mean_s", "p50_s", "p90_s", "p95_s", "p99_s", "max_s"}) {
      none[key] = nullptr;
    }
    return none;
  }
  return {{"count", f.count}, {"mean_s", f.mean}, {"p50_s", f.p50}, {"p90_s", f.p90},
          {"p95_s", f.p95},   {"p99_s", f.p99},   {"max_s", f.most}};
}

Json parts_json(const ServingMetrics& m) {
  Json parts = Json::object();
  for (std::size_t part = 0; part < pass_parts; ++part) {
    parts[pass_part_names[part]] = m.passes.part_shares[part];
  }
  return parts;
}

Json samples_json(const std::vector<ServingSample>& samples) {
  Json list = Json::array();
  for (const ServingSample& s : samples) {
    list.push_back({s.time.value, s.instance, s.kv_tokens, s.waiting, s.running});
  }
  return list;
}

}  // namespace

std::string engine_assumptions(const Scenario& scenario, const Inputs& inputs,
                               const std::string& version) {
  const EngineRun& run = *scenario.engine_run;
  return serving_header(scenario, inputs, version) + engine_text(run, run.engine.options);
}

std::string engine_header(const Scenario& scenario, const Inputs& inputs,
                          const std::string& version) {
  const EngineRun& run = *scenario.engine_run;
  const RequestLog log = requests_of(run);
  std::int64_t longest = 0;
  for (const ServingRequest& each : log.requests) {
    longest = std::max(longest, each.input + each.output);
  }
  std::string text = engine_assumptions(scenario, inputs, version) +
                     requests_text(run, std::ssize(log.requests)) + prefix_text(run, log) +
                     longest_text(inputs.model, longest, true) + sla_text(run);
  if (run.warmup > 0) {
    text += fmt::format("# the first {} requests are left out of percentiles\n", run.warmup);
  }
  return text;
}

void add_pass_keys(Json& document, const Scenario& scenario) {
  const Json asked = own_json(scenario_line(scenario));
  for (const char* key : {"parallel", "steps", "warmup"}) {
    if (asked.contains(key)) document[key] = asked[key];
  }
}

Json engine_case_json(const EngineCase& c) {
  Json json = {{"topology", c.name.topology},
               {"policy", c.name.policy},
               {"fidelity", c.name.fidelity},
               {"routing", c.name.routing}};
  if (!c.ran()) {
    json["not_run"] = c.outcome.unsuitable;
    return json;
  }
  const EngineOutcome& o = c.outcome;
  const ServingMetrics& m = o.metrics;
  json["gpus"] = o.gpus;
  json["ranks"] = o.ranks;
  json["run_s"] = m.time.value;
  if (!o.cannot_run.empty()) json["cannot_run"] = o.cannot_run;
  if (o.balancing.never_planned()) json["never_planned"] = true;
  if (o.balancing.interval > 0) {
    json["rebalances"] = o.balancing.plans;
    json["rebalances_that_moved"] = o.balancing.moves;
    json["rebalance_stall_s"] = o.balancing.stall.value;
  }
  json["requests"] = m.requests;
  json["warmup_requests"] = m.warmup;
  json["ttft"] = latency_json(m.ttft);
  json["tpot"] = latency_json(m.tpot);
  json["gap"] = latency_json(m.gap);
  json["latency"] = latency_json(m.latency);
  json["output_tokens_per_s"] = m.rates.output;
  json["input_tokens_per_s"] = m.rates.input;
  json["tokens_per_s_per_gpu"] = m.rates.output_per_gpu;
  json["tokens_per_s_per_user"] = m.rates.output_per_user;
  add_costs(json, o.costs);
  json["requests_per_s"] = m.rates.requests;
  json["goodput_per_s"] = m.rates.goodput;
  json["sla_met"] = m.rates.good_share;
  json["kv"] = {{"tokens_per_rank", o.kv_tokens == no_limit ? Json(nullptr) : Json(o.kv_tokens)},
                {"mean", m.load.kv_mean},
                {"max", m.load.kv_most},
                {"cached_share", m.load.cached_share},
                {"preemptions", m.load.preemptions}};
  json["waiting"] = {{"mean", m.load.waiting_mean}, {"max", m.load.waiting_most}};
  json["running_mean"] = m.load.running_mean;
  json["busy"] = m.passes.busy;
  json["parts"] = parts_json(m);
  json["stalls"] = m.passes.stall_share;
  json["padding"] = m.passes.padding_share;
  json["passes"] = m.passes.passes;
  const PriceErrors errors = o.errors.all();
  json["prices"] = {{"simulated", o.simulated},
                    {"checked", errors.checks},
                    {"mean_error", errors.mean()},
                    {"mean_error_of_prompts", o.errors.prompts.mean()},
                    {"mean_error_of_decodes", o.errors.decodes.mean()},
                    {"max_error", errors.most},
                    {"error_of_sum", errors.of_sum()}};
  if (o.moved_requests > 0) {
    json["moved"] = {{"requests", o.moved_requests}, {"bytes", o.moved.value}};
  }
  if (o.losses.losses > 0) {
    const double hours = m.time.value / 3600;
    json["losses"] = {{"count", o.losses.losses},
                      {"restarted_requests", o.losses.restarted},
                      {"kv_tokens", o.losses.kv_tokens},
                      {"lost_s_per_hour", o.losses.time.value / hours}};
    if (o.losses.kv_left != no_limit) json["losses"]["kv_tokens_left"] = o.losses.kv_left;
    json["lost_s"] = o.losses.time.value;
  }
  json["samples"] = samples_json(o.samples);
  return json;
}

std::string engine_json(const Scenario& scenario, const Inputs& inputs,
                        const std::vector<EngineCase>& cases, const std::string& version) {
  Json document = document_of_cases("moesim-result", scenario, inputs, version);
  document["format_version"] = 2;
  document["step"] = "engine";
  add_pass_keys(document, scenario);
  Json keys = Json::object();
  for (const auto& [key, json] : scenario.engine_run->text) keys[key] = own_json(json);
  document["serving"] = std::move(keys);
  Json list = Json::array();
  int done = 0;
  for (const EngineCase& c : cases) {
    list.push_back(engine_case_json(c));
    done += c.interrupted ? 0 : 1;
  }
  document["cases"] = std::move(list);
  add_interruption(document, {done, static_cast<int>(cases.size())});
  return document.dump(1) + "\n";
}

}  // namespace moesim
