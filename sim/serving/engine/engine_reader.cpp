// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/engine_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/base/data_files.h"

namespace moesim {
namespace {

constexpr Range counted{1, 1 << 30};
constexpr Range shares{0, 1};
constexpr std::size_t most_sizes = 4096;

void read_count(const YamlMap& map, const char* key, std::int64_t& count) {
  if (const auto value = map.find(key)) count = value->integer(counted);
}

void read_share(const YamlMap& map, const char* key, double& share) {
  if (const auto value = map.find(key)) share = value->number(shares);
}

/// Numbers and ranges {from, to, step}, both ends included.
std::vector<std::int64_t> read_sizes(const YamlValue& value) {
  std::vector<std::int64_t> sizes;
  for (const YamlValue& item : value.list()) {
    if (!item.is_map()) {
      sizes.push_back(item.integer(counted));
      continue;
    }
    const YamlMap range = item.map();
    const std::int64_t from = range.integer("from", counted), to = range.integer("to", counted);
    const std::int64_t step = range.integer("step", counted);
    if (!range.good({"from", "to", "step"})) return {};
    if (from > to) {
      item.error(fmt::format("'{}' falls from {} to {}", item.path(), from, to),
                 "{from: 8, to: 256, step: 8}");
    }
    for (std::int64_t size = from; size <= to && sizes.size() <= most_sizes; size += step) {
      sizes.push_back(size);
    }
  }
  if (sizes.size() > most_sizes) {
    value.error(fmt::format("'{}' has more than {} sizes", value.path(), most_sizes),
                "engines capture a graph for each");
  }
  if (!std::ranges::is_sorted(sizes)) {
    value.error(fmt::format("'{}' does not ascend", value.path()), "[1, 2, 4, 8, 16]");
  }
  return sizes;
}

void read_reserve(const YamlMap& map, EngineModel& model) {
  ReserveOptions& reserve = model.options.kv.reserve;
  reserve.initial = map.number("initial", shares);
  reserve.least = map.number("least", shares, reserve.initial);
  reserve.passes = map.integer("passes", {0, 1 << 30}, 0);
  model.reserve_of_many_ranks = map.number("of_many_ranks", shares, model.reserve_of_many_ranks);
  if (reserve.least > reserve.initial && map.good({"initial", "least"})) {
    map.value().error(
        fmt::format("'{}' rises from {} to {}", map.value().path(), reserve.initial, reserve.least),
        "what is reserved falls from initial to least");
  }
}

void read_kv(const YamlMap& map, EngineModel& model) {
  KvOptions& kv = model.options.kv;
  read_count(map, "block", kv.block);
  read_count(map, "tokens", kv.capacity);
  kv.prefix_cache = map.boolean("prefix_cache", kv.prefix_cache);
  if (const auto reserve = map.find("reserve")) read_reserve(reserve->map(), model);
}

void read_memory(const YamlMap& map, EngineMemory& memory) {
  memory.share = map.number("share", {0.05, 1});
  memory.of_free = map.choice("of", {"all", "free"}, 0) == 1;
}

void read_drafts(const YamlMap& map, EngineOptions& options) {
  options.drafts = static_cast<int>(map.integer("tokens", {0, 15}));
  options.gained.clear();
  const auto gained = map.get("gained");
  if (!gained) return;
  for (const YamlValue& share : gained->list()) options.gained.push_back(share.number(shares));
  const double sum = std::accumulate(options.gained.begin(), options.gained.end(), 0.0);
  if (std::ssize(options.gained) != options.drafts + 1 || std::abs(sum - 1) > 1e-6) {
    gained->error(fmt::format("'{}' has {} shares that sum to {}", gained->path(),
                              options.gained.size(), sum),
                  fmt::format("{} shares that sum to 1: of passes that give 1, 2, ... tokens",
                              options.drafts + 1));
  }
}

void read_rebalance(const YamlMap& map, RebalanceOptions& rebalance) {
  rebalance.interval = map.integer("interval", {0, 1 << 30}, rebalance.interval);
  if (const auto stall = map.find("stall")) rebalance.stall = stall->seconds();
  rebalance.movement = map.seconds("movement", Seconds(0));
  rebalance.slowdown = map.number("slowdown", non_negative, 0);
}

void read_texts(const YamlMap& map, const char* key,
                std::vector<std::pair<std::string, std::string>>& texts) {
  const auto value = map.find(key);
  if (!value) return;
  const YamlMap kinds = value->map();
  for (const std::string& kind : kinds.keys()) texts.emplace_back(kind, kinds.string(kind));
}

void read_launch(const YamlMap& map, LaunchTexts& launch) {
  launch.source = map.string("source");
  launch.line = map.string("line");
  launch.spread = map.string("spread", "");
  launch.experts = map.string("experts", "");
  launch.prompts = map.string("prompts", "");
  launch.decode = map.string("decode", "");
  launch.dcp = map.string("dcp", "");
  launch.drafts = map.string("drafts", "");
  if (const auto value = map.find("file")) {
    const YamlMap file = value->map();
    const auto lines = [&file](const char* key) {
      std::vector<std::string> list;
      if (const auto of = file.find(key)) {
        for (const YamlValue& line : of->list()) list.push_back(line.string());
      }
      return list;
    };
    launch.file = {file.string("flag"), lines("spread"), lines("prompts"), lines("decode"),
                   lines("drafts")};
    read_texts(file, "settings", launch.file.settings);
  }
  read_texts(map, "dispatch", launch.dispatch);
  read_texts(map, "overlap", launch.overlaps);
  read_texts(map, "settings", launch.settings);
}

}  // namespace

OverlapFrom read_overlap_from(const YamlMap& map) {
  constexpr Range tokens{0, 1 << 30};
  return {map.integer("decode", tokens, 0), map.integer("prompts", tokens, 0)};
}

RouterOptions read_router(const YamlValue& value, RouterOptions absent) {
  RouterOptions router = absent;
  if (value.is_scalar()) {
    router.kind = static_cast<RouterOptions::Kind>(value.choice(router_names));
    return router;
  }
  const YamlMap map = value.map();
  router.kind = static_cast<RouterOptions::Kind>(map.choice("kind", router_names));
  router.waiting_weight = map.number("waiting_weight", non_negative, router.waiting_weight);
  router.front_ends = static_cast<int>(map.integer("front_ends", {1, 4096}, router.front_ends));
  read_share(map, "match", router.match);
  router.imbalance = map.integer("imbalance", {0, 1 << 30}, router.imbalance);
  router.imbalance_ratio = map.number("imbalance_ratio", non_negative, router.imbalance_ratio);
  return router;
}

void read_engine_keys(const YamlMap& map, const HostModel& software, EngineModel& model) {
  EngineOptions& options = model.options;
  read_count(map, "max_sequences", options.max_sequences);
  read_count(map, "max_tokens", options.max_tokens);
  read_count(map, "max_tokens_of_all_ranks", model.tokens_of_all_ranks);
  read_count(map, "chunk", options.chunk);
  options.chunked_prefill = map.boolean("chunked_prefill", options.chunked_prefill);
  options.mixed = map.boolean("mixed", options.mixed);
  options.cadence = map.integer("cadence", {0, 1 << 30}, options.cadence);
  options.idle_passes = map.boolean("idle_passes", options.idle_passes);
  if (const auto sizes = map.find("graph_sizes")) options.graph_sizes = read_sizes(*sizes);
  options.graphs_alike = map.boolean("graphs_alike", options.graphs_alike);
  if (const auto value = map.find("graph_prompt_tokens")) {
    options.graph_prompt_tokens = value->integer({0, 1 << 30});
  }
  read_count(map, "look_every", options.look_every);
  options.plans_ahead = map.boolean("plans_ahead", options.plans_ahead);
  options.one_thread = map.boolean("one_thread", options.one_thread);
  options.holds_places = map.boolean("holds_places", options.holds_places);
  options.balance_wait = map.integer("balance_wait", {0, 1 << 30}, options.balance_wait);
  options.intake = map.seconds("intake", options.intake);
  if (const auto value = map.find("router")) {
    options.router = read_router(*value, options.router);
    options.prompts_router.reset();
  }
  if (const auto value = map.find("prompts_router")) {
    options.prompts_router = read_router(*value, options.router);
  }
  if (const auto value = map.find("kv")) read_kv(value->map(), model);
  if (const auto value = map.find("memory")) read_memory(value->map(), model.memory);
  if (const auto value = map.find("overlap_from")) {
    model.overlap_from = read_overlap_from(value->map());
  }
  if (const auto value = map.find("host")) {
    model.host = read_host_model(*value, model.host.value_or(software));
  }
  if (const auto value = map.find("drafts")) read_drafts(value->map(), options);
  if (const auto value = map.find("rebalance")) {
    read_rebalance(value->map(), options.rebalance);
  }
}

EngineOptions EngineModel::for_ranks(int ranks) const {
  EngineOptions of = options;
  of.ranks = ranks;
  if (tokens_of_all_ranks != no_limit) {
    const std::int64_t share = std::max<std::int64_t>(tokens_of_all_ranks / ranks, 1);
    of.max_tokens = std::min(of.max_tokens, std::max<std::int64_t>(share, 1 + of.drafts));
  }
  if (ranks > 1) {
    of.kv.reserve.initial *= reserve_of_many_ranks;
    of.kv.reserve.least *= reserve_of_many_ranks;
  }
  return of;
}

EngineModel read_engine(const std::string& path, const HostModel& software) {
  const auto document = YamlDocument::from_file(path);
  EngineModel model;
  {
    const YamlMap map = document->root().map();
    model.name = map.string("name");
    model.description = map.string("description");
    model.source = map.string("source");
    model.options.name = model.name;
    model.options.version = map.string("version");
    if (const auto launch = map.find("launch")) read_launch(launch->map(), model.launch);
    read_engine_keys(map, software, model);
  }
  document->finish();
  return model;
}

EngineModel engine_named(const std::string& name, const HostModel& software) {
  return read_engine(data_file("models/engine", name), software);
}

}  // namespace moesim
