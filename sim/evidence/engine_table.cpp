// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/engine_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/data_files.h"

namespace moesim {
namespace {

const std::vector<std::string> condition_names = {"backend", "version",   "model", "system",
                                                  "layout",  "precision", "input", "output",
                                                  "pool",    "in_flight"};

std::vector<std::string> strings_of(const YamlMap& map, const std::string& key) {
  std::vector<std::string> list;
  if (const auto value = map.find(key)) {
    if (value->is_scalar()) return {value->string()};
    for (const YamlValue& item : value->list()) list.push_back(item.string());
  }
  return list;
}

void read_conditions(const YamlMap& map, EngineRule& rule) {
  for (const std::string& name : condition_names) {
    const auto values = strings_of(map, name);
    if (!values.empty()) rule.conditions.emplace_back(name, values);
  }
}

/// {of: {...}, tp: 8, moe_ep: 8}; degrees that are not stated are 1.
StartedDegrees read_started(const YamlMap& map) {
  StartedDegrees started;
  if (const auto of = map.find("of")) read_conditions(of->map(), started.of);
  const auto degree = [&map](const char* key) {
    return static_cast<int>(map.integer(key, {1, 4096}, 1));
  };
  started.degrees = {degree("tp"), degree("dp"), degree("moe_tp"), degree("moe_ep")};
  return started;
}

EngineRule read_rule(const YamlMap& map) {
  EngineRule rule;
  if (const auto of = map.find("of")) read_conditions(of->map(), rule);
  rule.gpus_per_node = static_cast<int>(map.integer("gpus_per_node", {1, 1 << 20}, 0));
  for (const std::string& key : map.keys()) {
    if (key == "of" || key == "gpus_per_node") continue;
    if (const auto value = map.find(key)) rule.flags.merge(key, *value);
  }
  return rule;
}

void read_known(const YamlMap& map, KnownEngineErrors& known) {
  known.runs = static_cast<int>(map.integer("runs", {1, 1 << 30}));
  const auto pair = [&map](const char* key) {
    std::vector<double> values;
    if (const auto list = map.get(key)) {
      for (const YamlValue& item : list->list()) values.push_back(item.number({0, 100}));
      if (values.size() != 2)
        list->error(fmt::format("'{}' is not a pair", list->path()), "[median, 90th percentile]");
    }
    return values;
  };
  known.tpot = pair("tpot");
  known.ttft = pair("ttft");
  known.rate = pair("rate");
}

/// - spread: each rank of attention has experts of its own;
/// - shared: the tensor group has whole experts; sliced: parts of all of them.
std::string layout_of(const EngineDegrees& degrees) {
  if (degrees.dp > 1) return degrees.tp > 1 ? "both" : "spread";
  return degrees.moe_ep > 1 ? "shared" : "sliced";
}

std::string value_of(const EngineRow& row, const std::string& condition, bool decode) {
  if (condition == "backend") return row.backend;
  if (condition == "version") return row.version;
  if (condition == "model") return row.model;
  if (condition == "system") return row.system;
  if (condition == "precision") return row.precision;
  if (condition == "input") return std::to_string(row.input);
  if (condition == "output") return std::to_string(row.output);
  if (condition == "in_flight") return std::to_string(row.concurrency);
  if (condition == "layout") return layout_of(decode ? *row.decode : row.prompts);
  return !row.decode ? "all" : decode ? "decode" : "prompts";
}

bool means(const EngineRule& rule, const EngineRow& row, bool decode) {
  return std::ranges::all_of(rule.conditions, [&](const auto& condition) {
    return std::ranges::find(condition.second, value_of(row, condition.first, decode)) !=
           condition.second.end();
  });
}

void add_degrees(const EngineDegrees& degrees, PaperFlags& flags) {
  flags.take({"parallel.tp", std::to_string(degrees.tp), ""});
  flags.take({"parallel.ep", std::to_string(degrees.moe_ep), ""});
  flags.take({"parallel.etp", std::to_string(degrees.moe_tp), ""});
}

void add_nodes(int gpus, int gpus_per_node, PaperFlags& flags) {
  const int of_node = std::min(gpus, gpus_per_node);
  flags.change(fmt::format("topology.nodes={}", (gpus + of_node - 1) / of_node));
  flags.change(fmt::format("topology.node.gpus={}", of_node));
  flags.change(fmt::format("topology.node.nics.count={}", of_node));
}

}  // namespace

std::string engine_errors_line(const KnownEngineErrors& errors) {
  if (errors.runs == 0) return "";
  const auto pair = [](const std::vector<double>& of) {
    return fmt::format("{:.1f}, {:.1f} %", 100 * of.at(0), 100 * of.at(1));
  };
  return fmt::format(
      "# error bars, median and 90 % of {} published runs of engines: TPOT {}, TTFT {}, "
      "tokens/s/GPU {}\n",
      errors.runs, pair(errors.tpot), pair(errors.ttft), pair(errors.rate));
}

EngineTable read_engine_table(const std::string& name) {
  const auto document = YamlDocument::from_file(data_file("papers/engines", name));
  EngineTable table;
  {
    const YamlMap map = document->root().map();
    table.title = map.string("title");
    table.source = map.string("source");
    table.assumed = strings_of(map, "assumed");
    table.misses = strings_of(map, "misses");
    if (const auto known = map.find("known")) read_known(known->map(), table.known);
    table.least_share = map.number("least_share", {0.01, 1}, table.least_share);
    const auto read_rows = [&map](const char* key, std::vector<EngineRule>& rows) {
      const auto list = map.find(key);
      if (!list) return;
      for (const YamlValue& of : list->list()) read_conditions(of.map(), rows.emplace_back());
    };
    read_rows("without_dp", table.without_dp);
    read_rows("dp_for_tp", table.dp_for_tp);
    if (const auto list = map.find("prompts")) {
      for (const YamlValue& of : list->list()) table.prompts.push_back(read_started(of.map()));
    }
    if (const auto rules = map.get("rules")) {
      for (const YamlValue& rule : rules->list()) table.rules.push_back(read_rule(rule.map()));
    }
  }
  document->finish();
  return table;
}

EngineRow as_started(EngineRow row, const EngineTable& table) {
  const auto is_among = [&](const std::vector<EngineRule>& rules) {
    return std::ranges::any_of(rules,
                               [&](const EngineRule& rule) { return means(rule, row, false); });
  };
  if (row.decode) {
    for (const StartedDegrees& started : table.prompts) {
      if (means(started.of, row, false)) row.prompts = started.degrees;
    }
  }
  if (row.decode || row.prompts.dp == 1) return row;
  EngineDegrees& degrees = row.prompts;
  if (is_among(table.dp_for_tp)) {
    degrees = {1, degrees.tp, 1, degrees.tp};
    return row;
  }
  if (!is_among(table.without_dp)) return row;
  degrees.dp = 1;
  if (degrees.moe_ep > 1) {
    degrees.moe_ep = degrees.tp;
    degrees.moe_tp = 1;
  }
  return row;
}

std::optional<EnginePool> pool_of(const EngineRow& row, const EngineTable& table, bool decode,
                                  std::string& why) {
  PaperFlags flags;
  int gpus_per_node = 0;
  for (const EngineRule& rule : table.rules) {
    if (!means(rule, row, decode)) continue;
    flags.take(rule.flags);
    if (rule.gpus_per_node > 0) gpus_per_node = rule.gpus_per_node;
  }
  const std::pair<const char*, const std::string*> needed[] = {
      {"topology", &row.system}, {"model", &row.model}, {"policy", &row.backend}};
  for (const auto& [key, of] : needed) {
    if (flags.find(key) != nullptr) continue;
    why = fmt::format("no {} for {}", key, *of);
    return std::nullopt;
  }
  const EngineDegrees& degrees = decode ? *row.decode : row.prompts;
  add_degrees(degrees, flags);
  add_nodes(degrees.gpus(), std::max(1, gpus_per_node), flags);
  flags.take(
      {"serving.requests", R"({"count": 1, "concurrency": 1, "input": 1, "output": 1})", ""});
  EnginePool pool{flags.list(), ""};
  for (const Override& flag : pool.flags) pool.key += flag.path + "=" + flag.value + "\n";
  return pool;
}

}  // namespace moesim
