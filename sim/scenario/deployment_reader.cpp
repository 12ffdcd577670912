// SPDX-License-Identifier: Apache-2.0
#include "sim/scenario/deployment_reader.h"

#include <fmt/format.h>

namespace moesim {
namespace {

void read_instances(const YamlValue& value, EngineRun& run) {
  if (value.is_scalar()) {
    run.instances = static_cast<int>(value.integer({1, 4096}));
    return;
  }
  const YamlMap map = value.map();
  const auto prompts = map.find("prefill"), decode = map.find("decode");
  if (prompts.has_value() != decode.has_value()) {
    (prompts ? prompts : decode)
        ->error(fmt::format("'{}' has '{}' without '{}'", value.path(),
                            prompts ? "prefill" : "decode", prompts ? "decode" : "prefill"),
                "{prefill: 1, decode: 1}; a number of instances that do both: {count: 2}");
  }
  if (map.find("count") && (prompts || decode)) {
    map.find("count")->error(
        fmt::format("'{}' has 'count' together with 'prefill' and 'decode'", value.path()),
        "{prefill: 1, decode: 1} or {count: 2}");
  }
  run.decode_instances = static_cast<int>(map.integer("decode", {1, 4096}, 0));
  const bool pools = prompts || decode;
  const auto router = map.find("router"), count = map.find("count");
  // Without a count an unknown key, perhaps a misspelt one of these, is the mistake to report.
  const bool misspelt = !count && map.keys().size() > (router ? 1 : 0);
  std::int64_t instances = 1;
  if (prompts) {
    instances = prompts->integer({1, 4096});
  } else if (!pools && !misspelt) {
    instances = map.integer("count", {1, 4096});
  }
  run.instances = static_cast<int>(instances);
  if (router) run.router = read_router(*router, run.router);
}

/// Failures of ranks: a list of them, or how often they occur.
void read_losses(const YamlValue& value, EngineRun& run) {
  constexpr Range ranks{1, 1 << 20};
  if (value.is_map()) {
    const YamlMap map = value.map();
    run.loss_rate = LossRate{map.seconds("every"), map.seconds("recovery"), map.seconds("back"),
                             static_cast<int>(map.integer("ranks", ranks, 1)),
                             static_cast<std::uint64_t>(map.integer("seed", {0, 1 << 30}, 1))};
    return;
  }
  for (const YamlValue& item : value.list()) {
    const YamlMap map = item.map();
    RankLoss loss{map.seconds("at"),
                  static_cast<int>(map.integer("instance", {0, 4096}, 0)),
                  static_cast<int>(map.integer("rank", {0, 1 << 20})),
                  map.seconds("recovery"),
                  {},
                  static_cast<int>(map.integer("ranks", ranks, 1)),
                  map.choice("pool", {"prefill", "decode"}, 0) == 1};
    if (const auto back = map.find("back")) loss.back = back->seconds();
    run.losses.push_back(loss);
  }
}

/// Adds a change for every value in nested mappings, with the path of its key. Each item of `set`
/// becomes a change of an input.
void add_changes(const YamlMap& map, const std::string& of, std::vector<Override>& changes) {
  for (const std::string& key : map.keys()) {
    const auto value = map.find(key);
    const std::string path = of + key;
    if (!value) continue;
    if (value->is_map()) {
      add_changes(value->map(), path + ".", changes);
    } else if (path == "set") {
      for (const YamlValue& item : value->list()) {
        changes.push_back({"set", item.string(), "serving.decode.set: " + item.string()});
      }
    } else {
      const std::string text = value->is_scalar() ? value->string() : value->json();
      changes.push_back(
          {.path = path, .value = text, .flag = "serving.decode." + path, .of_mapping = true});
    }
  }
}

/// The KV cache of one model is of no use to another.
void refuse_other_model(const YamlMap& decode, const std::string& model) {
  constexpr auto hint = "leave it out: both pools serve the scenario's model";
  const auto other = decode.find("model");
  if (other && (!other->is_scalar() || other->string() != model)) {
    other->error(
        fmt::format("'serving.decode' has another model than '{}', whose KV cache it receives",
                    model),
        hint);
  }
  const auto set = decode.find("set");
  if (!set || !set->is_list()) return;
  for (const YamlValue& item : set->list()) {
    if (!item.is_scalar()) continue;
    const std::string change = item.string();
    if (!change.starts_with("model.") && !change.starts_with("model:")) continue;
    item.error(
        fmt::format("'{}' changes the model, whose KV cache comes from the other pool", change),
        hint);
  }
}

/// If `decode` changes keys of an engine that `serving` only names, adds that name as their preset.
void keep_preset(const YamlMap& serving, const YamlMap& decode, EngineRun& run) {
  const auto engine = serving.find("engine"), of_decode = decode.find("serving");
  if (!engine || !engine->is_scalar() || !of_decode || !of_decode->is_map()) return;
  const auto changed = of_decode->map().find("engine");
  if (!changed || !changed->is_map() || changed->map().find("preset")) return;
  run.decode_keys.push_back({.path = "serving.engine.preset",
                             .value = engine->string(),
                             .flag = "serving.decode.serving.engine",
                             .of_mapping = true});
}

void need_decoding_instances(const YamlValue& value, const EngineRun& run) {
  if (run.decode_instances > 0) return;
  value.error(fmt::format("'{}' needs instances that only decode: serving.instances has none",
                          value.path()),
              "serving.instances: {prefill: 1, decode: 1}");
}

/// `decode: {parallel: {ep: 32}, policy: deepep-low-latency, set: [topology.nodes=4]}`.
void read_decode_keys(const YamlMap& scenario, const YamlValue& value, EngineRun& run) {
  const YamlMap decode = value.map();
  const auto model = scenario.find("model");
  refuse_other_model(decode, model && model->is_scalar() ? model->string() : "");
  keep_preset(scenario.find("serving")->map(), decode, run);
  add_changes(decode, "", run.decode_keys);
  need_decoding_instances(value, run);
}

}  // namespace

void read_deployment(const YamlMap& scenario, const YamlMap& serving, EngineRun& run) {
  if (const auto value = serving.find("instances")) read_instances(*value, run);
  if (const auto value = serving.find("decode")) read_decode_keys(scenario, *value, run);
  if (const auto value = serving.find("transfer")) {
    const YamlMap map = value->map();
    if (const auto of = map.find("bandwidth")) run.transfer_bandwidth = of->bandwidth();
    if (const auto of = map.find("latency")) run.transfer_latency = of->seconds();
    need_decoding_instances(*value, run);
  }
  if (const auto value = serving.find("losses")) read_losses(*value, run);
}

}  // namespace moesim
