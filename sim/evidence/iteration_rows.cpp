// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/iteration_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/base/figures.h"
#include "sim/base/read_number.h"
#include "sim/base/units.h"
#include "sim/evidence/shared_rows.h"
#include "sim/planner/iteration/iteration_spec.h"

namespace moesim {
namespace {

/// Keys of a row that are its own, whatever row it is like.
const std::vector<std::string> result_keys = {"name",        "release", "like",  "published",
                                              "peak_memory", "fits",    "turns", "note"};

/// What all rows of a table start from.
struct RowSources {
  SharedRows shared;
  RowMachine machine;                  // of no GPUs if the table names none
  std::optional<FlopsPerSecond> peak;  // that percentages are of
  std::string outside;
  RowKeys common;
  std::map<std::string, RowKeys> known = {};  // rows so far
};

RowMachine machine_in(const YamlMap& root, const SharedRows& shared) {
  if (!root.find("machine")) return {};
  std::vector<std::string> names;
  for (const RowMachine& machine : shared.machines) names.push_back(machine.name);
  const auto chosen = static_cast<std::size_t>(root.choice("machine", names));
  return chosen < shared.machines.size() ? shared.machines[chosen] : RowMachine{};
}

/// The flags of the machine, then those of all its rows.
RowKeys common_of(const YamlMap& root, const RowSources& of) {
  RowKeys keys = of.shared.common;
  keys.flags.take(of.machine.flags);
  if (const auto common = root.find("common")) add_row_keys(common->map(), {}, keys);
  return keys;
}

std::int64_t integer_flag(const YamlValue& row, const RowKeys& keys, const std::string& path) {
  constexpr std::int64_t most = 1 << 30;
  const std::string* text = keys.flags.find(path);
  const auto value = text == nullptr ? 0 : parse_integer<std::int64_t>(*text).value_or(0);
  if (value >= 1 && value <= most) return value;
  row.error(fmt::format("a row needs '{}', a whole number from 1 to {}", path, most));
  return 1;
}

/// Seconds; or a rate of a GPU, which tokens or model flop turn into seconds.
void read_time(const YamlValue& value, const RowSources& of, PaperFigure& figure) {
  NumberWithUnit printed;
  PublishedIteration& iteration = *figure.iteration;
  const std::string text = value.is_scalar() ? value.string() : "";
  const bool split = split_unit(text, printed) && printed.number > 0;
  const bool rate = split && (printed.unit == "tokens/s" || printed.unit == "%" ||
                              printed.unit.ends_with("FLOP/s"));
  if (rate && iteration.tokens == 0) {
    value.error("a pass of serving needs a time, not a rate", "published: 25.9 ms");
  } else if (split && printed.unit == "tokens/s") {
    figure.published = static_cast<double>(iteration.tokens) / (iteration.gpus * printed.number);
  } else if (split && printed.unit == "%") {
    if (!of.peak) value.error("a percentage needs the table's 'peak'", "peak: 989.5 TFLOP/s");
    iteration.rate = of.peak.value_or(FlopsPerSecond(1)) * (printed.number / 100);
  } else if (split && printed.unit.ends_with("FLOP/s")) {
    iteration.rate = value.compute_rate();
  } else {
    figure.published = value.seconds(positive).value;
  }
}

void read_turns(const YamlValue& value, PublishedIteration& iteration) {
  const YamlMap map = value.map();
  const std::vector<std::string> names(turn_part_names.begin(), turn_part_names.end());
  for (const std::string& key : map.keys()) {
    const auto found = std::ranges::find(names, key);
    if (found == names.end()) continue;  // which the map reports, as nobody asks for it
    iteration.turns.push_back(
        {static_cast<TurnPart>(found - names.begin()), map.find(key)->seconds(positive)});
  }
}

std::size_t variant_of(const YamlValue& row, const RowKeys& keys, const RowSources& of,
                       PaperTable& table) {
  const auto known = std::ranges::find(table.variants, keys.policy, &PaperVariant::name);
  if (known != table.variants.end()) {
    return static_cast<std::size_t>(known - table.variants.begin());
  }
  if (keys.policy.empty()) row.error("a row needs 'policy'");
  const RowPolicy* policy = of.shared.policy(keys.policy);
  table.variants.push_back(policy == nullptr
                               ? PaperVariant{keys.policy, keys.policy, {}}
                               : PaperVariant{policy->name, policy->policy, policy->flags.list()});
  return table.variants.size() - 1;
}

bool merges(const RowKeys& keys) {
  const std::string* name = keys.flags.find("pipeline");
  if (name == nullptr) return false;
  const auto& names = pipeline_kind_names();
  const auto found = std::ranges::find(names, *name);
  return found != names.end() && merges_passes(static_cast<PipelineKind>(found - names.begin()));
}

/// Whether groups of experts have members on several nodes. Without them only rings cross adapters,
/// at the topology's rate.
bool spans_nodes(const YamlValue& row, const RowKeys& keys, const RowMachine& machine) {
  if (keys.flags.find("parallel.ep") == nullptr) return false;
  const std::int64_t etp =
      keys.flags.find("parallel.etp") ? integer_flag(row, keys, "parallel.etp") : 1;
  return integer_flag(row, keys, "parallel.ep") * etp > machine.gpus_per_node;
}

/// The nodes for its GPUs, and what its policy says of such a row.
void add_placed(const YamlValue& row, const RowSources& of, RowKeys& keys) {
  const int per_node = of.machine.gpus_per_node;
  if (per_node == 0) return;  // no machine: the row says itself how many nodes there are
  keys.flags.change(fmt::format("topology.nodes={}", (keys.gpus + per_node - 1) / per_node));
  const RowPolicy* policy = of.shared.policy(keys.policy);
  if (policy == nullptr) return;
  if (spans_nodes(row, keys, of.machine)) {
    for (const auto& [adapters, rate] : policy->between_nodes) {
      if (adapters != of.machine.adapters) continue;
      keys.flags.change("topology.node.nics.bandwidth=" + rate);
    }
  }
  if (!merges(keys)) return;
  for (const std::string& change : policy->merged) keys.flags.change(change);
}

/// Whether a row is a pass of a serving engine.
bool serves(const RowKeys& keys) {
  return std::ranges::any_of(keys.flags.list(),
                             [](const Override& f) { return f.path.starts_with("serving."); });
}

/// One row as a setting with its figure.
void add_row(const YamlMap& map, RowKeys keys, const std::string& name, const YamlValue* published,
             const RowSources& of, PaperTable& table) {
  const YamlValue& row = map.value();
  if (keys.gpus < 1) row.error("a row needs 'gpus'");
  add_placed(row, of, keys);
  PaperFigure figure;
  figure.name = name;
  figure.setting = table.settings.size();
  figure.variant = variant_of(row, keys, of, table);
  figure.measure = Measure::iteration;
  figure.fitted = keys.fitted;
  figure.outside = of.outside;
  const std::string* model = keys.flags.find("model");
  if (model == nullptr) row.error("a row needs 'model'");
  PublishedIteration& iteration = figure.iteration.emplace();
  iteration.model = model == nullptr ? "" : *model;
  iteration.release = map.string("release", "");
  iteration.gpus = std::max(1, keys.gpus);
  const bool pass = serves(keys);
  table.serving = table.serving || pass;
  if (!pass) {
    iteration.tokens =
        integer_flag(row, keys, "batch.global") * integer_flag(row, keys, "batch.sequence");
  }
  iteration.all_scores = keys.all_scores;
  iteration.stage = keys.stage;
  iteration.recorded = keys.recorded;
  iteration.whole = keys.whole;
  iteration.note = map.string("note", "");
  if (published != nullptr) read_time(*published, of, figure);
  if (map.find("peak_memory")) iteration.peak_memory = map.bytes("peak_memory");
  if (const auto fits = map.find("fits")) iteration.fits = fits->boolean();
  if (const auto turns = map.find("turns")) read_turns(*turns, iteration);
  table.settings.push_back({name, "", keys.flags.list(), {}});
  table.figures.push_back(std::move(figure));
}

/// A row by numbers of GPUs: lists of these and of what is published.
void add_series(const YamlMap& map, const RowKeys& keys, const std::string& name,
                const std::vector<YamlValue>& gpus, const RowSources& of, PaperTable& table) {
  const auto published = map.get("published");
  const auto values = published ? published->list() : std::vector<YamlValue>();
  if (published && values.size() != gpus.size()) {
    published->error(
        fmt::format("{} for {} numbers of GPUs", counted(values.size(), "value"), gpus.size()));
  }
  for (std::size_t i = 0; i < std::min(gpus.size(), values.size()); ++i) {
    RowKeys own = keys;
    own.gpus = static_cast<int>(gpus[i].integer({1, 1 << 20}));
    add_row(map, own, fmt::format("{}-{}", name, own.gpus), &values[i], of, table);
  }
}

void read_row(const YamlMap& map, RowSources& of, PaperTable& table) {
  RowKeys keys = of.common;
  if (const auto like = map.find("like")) {
    const auto known = of.known.find(like->string());
    if (known == of.known.end()) {
      like->error(fmt::format("no row '{}' before this one", like->string()));
    } else {
      keys = known->second;
    }
  }
  std::string name = map.string("name");
  if (const auto release = map.find("release")) name += "-" + release->string();
  std::vector<std::string> others = result_keys;
  const auto gpus = map.find("gpus");
  const bool series = gpus && gpus->is_list();
  if (series) others.emplace_back("gpus");
  add_row_keys(map, others, keys);
  if (series) return add_series(map, keys, name, gpus->list(), of, table);
  const auto published = map.find("published");
  add_row(map, keys, name, published ? &*published : nullptr, of, table);
  of.known.emplace(name, std::move(keys));
}

void read_gains(const YamlMap& root, PaperTable& table) {
  const auto gains = root.find("gains");
  if (!gains) return;
  std::vector<std::string> names;
  for (const PaperFigure& figure : table.figures) names.push_back(figure.name);
  for (const YamlValue& gain : gains->list()) {
    const auto rows = gain.list();
    if (rows.size() != 2) {
      gain.error("a gain is of two rows, the slower one first");
      continue;
    }
    for (const YamlValue& row : rows) row.choice(names);
    table.gains.push_back({rows[0].string(), rows[1].string()});
  }
}

}  // namespace

void read_iteration_rows(const YamlMap& root, const std::string& path, PaperTable& table) {
  table.iterations = true;
  RowSources of{read_shared_rows(root, path), {}, {}, {}, {}};
  of.machine = machine_in(root, of.shared);
  for (const std::string& change : of.machine.left_out) {
    table.left_out.push_back({"set", change, "left_out: " + change});
  }
  if (root.find("peak")) of.peak = root.compute_rate("peak");
  of.outside = root.string("outside", "");
  of.common = common_of(root, of);
  const auto rows = root.get("rows");
  if (!rows) return;
  for (const YamlValue& row : rows->list()) read_row(row.map(), of, table);
  read_gains(root, table);
}

}  // namespace moesim
