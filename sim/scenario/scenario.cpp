// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/scenario.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sim/base/data_files.h"
#include "sim/base/files.h"
#include "sim/scenario/changes.h"
#include "sim/scenario/dense_model.h"
#include "sim/scenario/engine_run.h"
#include "sim/scenario/iteration_reader.h"
#include "sim/scenario/policy_keys.h"
#include "sim/scenario/require_flags.h"
#include "sim/scenario/scenario_synth.h"
#include "sim/scenario/serving_reader.h"
#include "sim/scenario/software_inputs.h"
#include "sim/scenario/step_reader.h"

namespace moesim {
namespace {

std::string name(const YamlValue& value) {
  std::string text = value.string();
  if (value.is_scalar() && text.empty()) value.error(fmt::format("'{}' is empty", value.path()));
  return text;
}

std::string name(const YamlMap& map, const std::string& key) {
  const auto value = map.get(key);
  return value ? name(*value) : "";
}

/// No case is run twice.
void check_once(const YamlValue& item, const std::string& key, const std::string& text,
                const std::vector<std::string>& before) {
  if (text.empty() || std::find(before.begin(), before.end(), text) == before.end()) return;
  item.error(fmt::format("'{}' has '{}' twice", key, text), "leave one of them out");
}

std::vector<std::string> names(const std::vector<YamlValue>& items, const std::string& key) {
  std::vector<std::string> result;
  for (const YamlValue& item : items) {
    const std::string text = name(item);
    check_once(item, key, text, result);
    result.push_back(text);
  }
  return result;
}

std::vector<std::string> names(const YamlMap& map, const std::string& key) {
  const auto value = map.get(key);
  return value ? names(one_or_more(*value), key) : std::vector<std::string>();
}

std::vector<Fidelity> fidelities(const YamlMap& map) {
  const auto value = map.find("fidelity");
  if (!value) return {Fidelity::port};
  std::vector<Fidelity> result;
  std::vector<std::string> before;
  for (const YamlValue& item : one_or_more(*value)) {
    result.push_back(static_cast<Fidelity>(item.choice(fidelity_names)));
    check_once(item, "fidelity", item.string(), before);
    before.push_back(item.string());
  }
  return result;
}

P2pOrder p2p_order(const YamlMap& map, const std::vector<Fidelity>& fidelities) {
  const auto value = map.find("p2p_order");
  if (!value) return P2pOrder::all_at_once;
  const auto order = static_cast<P2pOrder>(value->choice({"all-at-once", "nccl"}));
  if (order == P2pOrder::all_at_once || !map.good({"p2p_order", "fidelity"})) return order;
  for (const Fidelity fidelity : fidelities) {
    if (has_flows(fidelity)) continue;
    value->error(fmt::format("'p2p_order: nccl' has no effect at fidelity {}",
                             fidelity_names[static_cast<std::size_t>(fidelity)]),
                 "fidelity: flow");
    break;
  }
  return order;
}

/// Names and paths as they are meant in the scenario's file.
std::vector<std::string> as_named_in(const std::string& file, const std::string& kind,
                                     std::vector<std::string> list) {
  for (std::string& given : list) given = moesim::as_named_in(file, kind, given);
  return list;
}

/// Changes of one input must find it, unless flags have replaced the inputs that they were made
/// for.
void check_reached(const Scenario& s, const std::vector<Override>& changes,
                   const std::vector<Override>& replacing) {
  const std::pair<std::string, std::vector<std::string>> inputs[] = {
      {"topology", s.topologies},
      {"model", {s.model}},
      {"policy", s.policies},
      {"scenario", s.policies}};  // as a policy has it
  std::vector<Diagnostic> lost;
  for (const auto& [input, names] : inputs) {
    const std::string replaced = input == "scenario" ? "policy" : input;
    if (std::ranges::find(replacing, replaced, &Override::path) != replacing.end()) continue;
    for (Diagnostic& d : unreached(changes, input, names)) lost.push_back(std::move(d));
  }
  if (!lost.empty()) throw Error(lost);
}

/// Where the file names its inputs, for errors that show only when these are opened. Call it when
/// the names are read.
std::vector<NamedAt> named_in(const YamlMap& map, const std::vector<Override>& flags,
                              const Scenario& s) {
  const std::pair<std::string, std::vector<std::string>> inputs[] = {{"topology", s.topologies},
                                                                     {"model", {s.model}},
                                                                     {"trace", {s.trace}},
                                                                     {"policy", s.policies},
                                                                     {"transport", {s.transport}},
                                                                     {"software", {s.software}},
                                                                     {"synth", {""}}};
  std::vector<NamedAt> result;
  for (const auto& [key, names] : inputs) {
    const auto value = map.find(key);
    if (!value || std::ranges::find(flags, key, &Override::path) != flags.end()) continue;
    const auto items = value->is_list() ? value->list() : std::vector<YamlValue>{*value};
    for (std::size_t i = 0; i < std::min(items.size(), names.size()); ++i) {
      result.push_back({key, names[i], items[i].line()});
    }
  }
  return result;
}

/// A grid is not a scenario, but for code that knows its keys.
void refuse_grid(const YamlMap& map, const std::vector<std::string>& known) {
  if (!known.empty()) return;
  if (const auto value = map.find("axes")) {
    value->error("'axes' makes this file a grid of scenarios",
                 "moesim sweep runs all of it, moesim advise finds the best of it");
  }
}

struct SortedFlags {
  std::vector<Override> keys, changes;  // of the scenario itself; of inputs, named "set"
};

SortedFlags sorted_out(const std::vector<Override>& flags) {
  SortedFlags sorted;
  const auto is_own_key = [](const std::string& text) {
    return is_iteration_key(text) || is_synth_key(text) || removes_scenario_key(text);
  };
  for (const Override& flag : flags) {
    if (flag.path != "set") {
      sorted.keys.push_back(flag);
    } else if (flag.value.find('=') != std::string::npos && is_own_key(flag.value)) {
      sorted.keys.push_back(parse_override(flag.value));
    } else {
      sorted.changes.push_back(flag);
    }
  }
  return sorted;
}

}  // namespace

std::vector<RoutingSource> Scenario::routings() const {
  return iteration ? iteration->routing : std::vector{RoutingSource::recorded};
}

std::vector<Override> Scenario::overrides_of(const std::string& input,
                                             const std::string& name) const {
  return changes_of(set, input, name);
}

Scenario read_scenario(const std::string& given, const std::vector<Override>& flags) {
  if (given.empty()) require_flags(flags);
  const std::string path = given.empty() ? "" : scenario_file(given);
  return parse_scenario(path.empty() ? "{}" : read_file(path), path, flags);
}

namespace {

/// Null if serving has no requests.
std::shared_ptr<const EngineRun> engine_run_in(const YamlMap& map, const Scenario& s,
                                               const std::string& path, const HostModel& software) {
  if (!s.serves()) return nullptr;
  if (!has_requests(map.find("serving")->map())) return nullptr;
  return std::make_shared<const EngineRun>(
      read_engine_run(map, *s.iteration->serving, path, software));
}

/// The scenario without keys of policies. For one policy (`of_one`) changes of others reach
/// nothing.
Scenario parse_common(const std::string& text, const std::string& path,
                      const std::vector<Override>& flags, const std::vector<std::string>& others,
                      bool of_one) {
  const auto [keys, changes] = sorted_out(flags);
  const auto doc = changed_document(text, path.empty() ? "command line" : path, keys);
  const YamlMap map = doc->root().map();
  for (const std::string& key : others) map.find(key);
  refuse_grid(map, others);
  Scenario s;
  s.file = path;
  s.topologies = as_named_in(path, "topologies", names(map, "topology"));
  s.model = moesim::as_named_in(path, "models", name(map, "model"));
  s.set = changes_in_file(map);
  const std::vector<Override> flagged = changes_by_flags(changes);
  const Software software = read_software_of(s, map, flagged);
  const bool ep_flagged = std::ranges::find(keys, "ep", &Override::path) != keys.end();
  s.iteration = read_iteration(map, ep_flagged, path, software);
  s.engine_run = engine_run_in(map, s, path, software.host);
  if (s.engine_run) take_from_engine(*s.engine_run, *s.iteration);
  s.synth = synth_in(map, keys);
  const bool dense = leaves_out_as_dense(map, s);
  const bool recorded = !dense && std::ranges::count(s.routings(), RoutingSource::recorded) > 0;
  if (!s.synth && (recorded || map.find("trace")))
    s.trace = trace_folder(recorded_trace(map), path);
  if (s.policies.empty()) {
    s.policies = as_named_in(path, "models/system", names(policy_names(map), "policy"));
  }
  if (map.find("transport")) {
    s.transport = name(map, "transport");
    if (s.transport != own_transport) {
      s.transport = moesim::as_named_in(path, "transports", s.transport);
    }
  }
  s.fidelities = fidelities(map);
  s.p2p_order = p2p_order(map, s.fidelities);
  if (const auto ep = map.find("ep")) s.ep = static_cast<int>(ep->integer({1, 1 << 20}));
  if (const auto t = map.find("tokens_per_rank")) s.tokens_per_rank = t->integer({1, 1 << 30});
  s.repeat = static_cast<int>(map.integer("repeat", {1, 1 << 20}, 1));
  s.steps = read_step_range(map);
  s.warmup = read_warmup(map, s.steps);
  read_layers(map, s);
  s.backward = map.choice("pass", {"forward", "forward+backward"}, 1) == 1 && !s.serves();
  s.attention = map.boolean("attention", true);
  s.memory = static_cast<MemoryCheck>(map.choice("memory", memory_checks, 0));
  s.gradient_bytes =
      static_cast<int>(map.integer("gradient_bytes", {0, 1024}, software.gradient_bytes));
  s.optimizer_bytes = static_cast<int>(
      map.integer("optimizer_bytes", {0, 1024}, default_optimizer_bytes(s.iteration, software)));
  s.accumulate = read_accumulate(map);
  if (s.iteration) s.ep = s.iteration->parallel.ep;
  s.named = named_in(map, keys, s);
  doc->finish();
  std::vector<Override> all = own_keys_in(text, path);
  all.insert(all.end(), s.set.begin(), s.set.end());
  if (!of_one) {
    check_reached(s, all, flags);
    check_reached(s, flagged, {});
  }
  all.insert(all.end(), flagged.begin(), flagged.end());
  s.set = std::move(all);
  serve_checkpoint(s);
  return s;
}

/// Reads the scenario once more for instances that decode and have keys of their own.
void add_decode_pool(const std::string& text, const std::string& path,
                     const std::vector<Override>& flags, const std::vector<std::string>& others,
                     Scenario& s) {
  if (!s.engine_run || s.engine_run->decode_keys.empty()) return;
  std::vector<Override> all = flags;
  all.push_back({"serving.decode", "null", "serving.decode"});
  const auto& keys = s.engine_run->decode_keys;
  all.insert(all.end(), keys.begin(), keys.end());
  EngineRun run = *s.engine_run;
  run.decode = std::make_shared<const Scenario>(parse_common(text, path, all, others, true));
  s.engine_run = std::make_shared<const EngineRun>(std::move(run));
}

}  // namespace

Scenario parse_scenario(const std::string& text, const std::string& path,
                        const std::vector<Override>& flags,
                        const std::vector<std::string>& others) {
  Scenario s = parse_common(text, path, flags, others, false);
  add_decode_pool(text, path, flags, others, s);
  std::vector<std::shared_ptr<const Scenario>> own(s.policies.size());
  for (std::size_t p = 0; p < own.size(); ++p) {
    const auto keys = own_keys_of(s.set, s.policies[p], s.iteration.has_value());
    if (keys.empty()) continue;
    std::vector<Override> all = flags;
    all.push_back({"policy", s.policies[p], "policy " + s.policies[p]});
    all.insert(all.end(), keys.begin(), keys.end());
    Scenario read = parse_common(text, path, all, others, true);
    read.set = s.set;
    if (read.iteration.has_value() != s.iteration.has_value()) {
      throw error_in(keys.front().str(), "this makes a whole iteration of a policy's steps",
                     "'parallel' and 'batch' of the scenario make iterations of all");
    }
    if (own.size() == 1) return read;
    own[p] = std::make_shared<const Scenario>(std::move(read));
    s.own = own;
  }
  return s;
}

}  // namespace moesim
