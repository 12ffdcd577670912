// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>

#include "sim/base/files.h"
#include "sim/evidence/iteration_rows.h"
#include "sim/evidence/paper_flags.h"

namespace moesim {
namespace {

/// Keys of a mapping that are not told apart here go to the scenario.
void add_setting(const YamlMap& map, PaperSetting& setting, PaperFlags& flags) {
  for (const std::string& key : map.keys()) {
    const auto value = map.find(key);
    if (!value) continue;
    if (key == "all_to_all") {
      setting.all_to_all = value->bytes();
    } else if (key == "scenario") {
      setting.scenario = value->string();
    } else {
      flags.add(key, *value);
    }
  }
}

std::vector<PaperSetting> read_settings(const YamlMap& root) {
  std::vector<PaperSetting> list;
  const auto common = root.find("common");
  const auto settings = root.get("settings");
  if (!settings) return list;
  const YamlMap map = settings->map();
  for (const std::string& name : map.keys()) {
    PaperSetting setting{name, {}, {}, {}};
    PaperFlags flags;
    if (common) add_setting(common->map(), setting, flags);
    if (const auto own = map.find(name)) add_setting(own->map(), setting, flags);
    setting.flags = flags.list();
    list.push_back(std::move(setting));
  }
  return list;
}

/// `policies` names the changed ones; all others mean themselves.
std::vector<PaperVariant> read_variants(const YamlMap& root) {
  std::vector<PaperVariant> list;
  const auto policies = root.find("policies");
  if (!policies) return list;
  const YamlMap map = policies->map();
  for (const std::string& name : map.keys()) {
    const auto value = map.find(name);
    if (!value) continue;
    const YamlMap variant = value->map();
    PaperVariant read{name, variant.string("policy"), {}};
    PaperFlags flags;
    for (const std::string& key : variant.keys()) {
      const auto changed = variant.find(key);
      if (key != "policy" && changed) flags.add(key, *changed);
    }
    read.flags = flags.list();
    list.push_back(std::move(read));
  }
  return list;
}

std::size_t variant_named(PaperTable& table, const std::string& name) {
  const auto found = std::ranges::find(table.variants, name, &PaperVariant::name);
  if (found != table.variants.end()) {
    return static_cast<std::size_t>(found - table.variants.begin());
  }
  table.variants.push_back({name, name, {}});
  return table.variants.size() - 1;
}

std::vector<std::string> names_of(const std::vector<PaperSetting>& settings) {
  std::vector<std::string> names;
  for (const PaperSetting& s : settings) names.push_back(s.name);
  return names;
}

/// [1.18, 1.27]: of speedups and loads.
void read_range(const YamlValue& value, PaperFigure& figure) {
  const auto list = value.list();
  if (list.size() != 2 || !figure.relative()) {
    return value.error("'published' is a number, or of a speedup the two ends of a range",
                       "published: [1.18, 1.27]");
  }
  figure.published = list[0].number(positive);
  figure.up_to = list[1].number({*figure.published, 1e9});
}

/// Seconds, or a ratio: of a speedup as printed, or of two printed times.
void read_published(const YamlMap& map, PaperFigure& figure) {
  const auto value = map.find("published");
  if (!value) return;
  if (value->is_list()) return read_range(*value, figure);
  if (figure.measure == Measure::bubble && value->string() == "formula") {
    figure.by_formula = true;
  } else if (figure.over && map.find("baseline")) {
    figure.published = map.seconds("baseline").value / value->seconds(positive).value;
  } else if (figure.relative()) {
    figure.published = value->number(positive);
  } else if (figure.bytes) {
    figure.published = (*figure.bytes / value->bandwidth()).value;
  } else {
    figure.published = value->seconds(positive).value;
  }
}

Headline read_headline(const YamlMap& map) {
  return {map.string("system"), map.string("claim"), map.string("source"), map.string("why")};
}

PaperFigure read_figure(const YamlMap& map, PaperTable& table) {
  PaperFigure figure;
  const auto names = names_of(table.settings);
  figure.setting = static_cast<std::size_t>(map.choice("setting", names, 0));
  const std::string policy = map.string("policy");
  figure.variant = variant_named(table, policy);
  figure.measure = static_cast<Measure>(map.choice("measure", measure_names));
  const std::string over = map.string("over", "");
  if (!over.empty()) figure.over = variant_named(table, over);
  figure.times = map.number("times", positive, 1);
  if (map.find("bytes")) figure.bytes = map.bytes("bytes");
  read_published(map, figure);
  if (map.find("spread")) figure.spread = map.number("spread", non_negative);
  if (is_amount(figure.measure) && !figure.over) {
    map.value().error(fmt::format("'{}' needs 'over': bytes are those of another policy",
                                  measure_names[static_cast<std::size_t>(figure.measure)]));
  }
  if (table.headlines) figure.headline = read_headline(map);
  figure.fitted = map.string("fitted", "");
  figure.outside = map.string("outside", "");
  const std::string setting = names.empty() ? "" : names[figure.setting];
  figure.name = map.string(
      "name", table.headlines
                  ? figure.headline.system + ", " + figure.headline.claim
                  : fmt::format("{} {} {}", setting, policy,
                                measure_names[static_cast<std::size_t>(figure.measure)]));
  return figure;
}

/// An order as a figure without a size: the faster policy over the slower one.
PaperFigure read_order(const YamlMap& map, PaperTable& table) {
  PaperFigure order;
  const auto names = names_of(table.settings);
  order.setting = static_cast<std::size_t>(map.choice("setting", names));
  const std::string slower = map.string("slower"), faster = map.string("faster");
  order.variant = variant_named(table, faster);
  order.over = variant_named(table, slower);
  order.measure = static_cast<Measure>(map.choice("measure", measure_names, 0));
  order.ordered = map.string("source");
  order.name = fmt::format("{} is slower than {}{}", slower, faster,
                           names.empty() ? "" : " on " + names[order.setting]);
  return order;
}

std::vector<std::string> read_lines(const YamlMap& root, const std::string& key) {
  std::vector<std::string> lines;
  const auto value = root.find(key);
  if (!value) return lines;
  for (const YamlValue& line : value->list()) lines.push_back(line.string());
  return lines;
}

void read_figures(const YamlMap& root, PaperTable& table) {
  table.settings = read_settings(root);
  table.variants = read_variants(root);
  const auto figures = root.get("figures");
  if (!figures) return;
  for (const YamlValue& f : figures->list()) table.figures.push_back(read_figure(f.map(), table));
  const auto orders = root.find("orders");
  if (!orders) return;
  for (const YamlValue& o : orders->list()) table.figures.push_back(read_order(o.map(), table));
}

/// Figures are known by their names.
void check_names(const YamlValue& root, const PaperTable& table) {
  std::map<std::string, int> seen;
  for (const PaperFigure& f : table.figures) {
    if (seen[f.name]++ == 1) root.error(fmt::format("two figures are called '{}'", f.name));
  }
}

}  // namespace

bool PaperFigure::says_order() const {
  if (!ordered.empty()) return true;
  return over && published && (*published > 1 || up_to.value_or(*published) < 1);
}

bool PaperFigure::in_order(double simulated) const {
  return (!ordered.empty() || *published > 1) == (simulated > 1);
}

void leave_out_own_fits(std::vector<PaperTable>& tables) {
  for (PaperTable& table : tables) {
    for (PaperVariant& variant : table.variants) {
      // Before the variant's own changes, which win.
      variant.flags.insert(variant.flags.begin(), table.left_out.begin(), table.left_out.end());
    }
    if (table.left_out.empty()) continue;
    for (PaperFigure& figure : table.figures) {
      figure.fitted.clear();
      if (table.iterations) figure.outside.clear();  // not claimed with fits, either
    }
  }
}

PaperTable parse_paper_table(const std::string& text, const std::string& path) {
  const auto document = YamlDocument::from_text(text, path);
  PaperTable table;
  {
    const YamlMap root = document->root().map();
    table.name = std::filesystem::path(path).stem().string();
    table.title = root.string("title");
    table.source = root.string("source");
    table.headlines = root.boolean("headlines", false);
    table.fast = root.boolean("fast", false);
    table.contested = root.boolean("contested", true);
    table.assumed = read_lines(root, "assumed");
    table.misses = read_lines(root, "misses");
    for (const std::string& change : read_lines(root, "left_out")) {
      table.left_out.push_back({"set", change, "left_out: " + change});
    }
    if (root.find("rows")) {
      read_iteration_rows(root, path, table);
    } else {
      read_figures(root, table);
    }
    check_names(root.value(), table);
  }
  document->finish();
  table.hash = hash_of(text);
  return table;
}

PaperTable read_paper_table(const std::string& path) {
  return parse_paper_table(read_file(path), path);
}

}  // namespace moesim
