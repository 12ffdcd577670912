// SPDX-License-Identifier: Apache-2.0
#include "sim/evidence/shipped_tables.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/data_files.h"

namespace moesim {
namespace {

constexpr const char* kind_of_data = "papers";

/// The patterns of figures that are asked for of a table.
std::vector<std::string> figures_meant(const std::string& table,
                                       const std::vector<std::string>& only) {
  std::vector<std::string> figures;
  for (const std::string& pattern : only) {
    const auto slash = pattern.find('/');
    if (!is_meant(table, pattern.substr(0, slash))) continue;
    figures.push_back(slash == std::string::npos ? "*" : pattern.substr(slash + 1));
  }
  return figures;
}

/// Leaves those of a table that one of the patterns means. Throws Error for one that means none.
void keep_figures(PaperTable& table, const std::vector<std::string>& patterns) {
  std::vector<std::string> all;
  for (const PaperFigure& figure : table.figures) all.push_back(figure.name);
  for (const std::string& pattern : patterns) {
    if (std::ranges::any_of(all, [&](const auto& name) { return is_meant(name, pattern); }))
      continue;
    throw Error(fmt::format("--only {}/{}: no such figure", table.name, pattern),
                did_you_mean(pattern, all));
  }
  std::erase_if(table.figures, [&](const PaperFigure& figure) {
    return std::ranges::none_of(
        patterns, [&](const std::string& pattern) { return is_meant(figure.name, pattern); });
  });
}

}  // namespace

bool is_meant(const std::string& name, const std::string& pattern) {
  if (!pattern.ends_with('*')) return name == pattern;
  return name.starts_with(pattern.substr(0, pattern.size() - 1));
}

std::vector<PaperTable> shipped_paper_tables(const std::vector<std::string>& only) {
  const std::vector<std::string> all = data_names(kind_of_data);
  for (const std::string& pattern : only) {
    const std::string of_table = pattern.substr(0, pattern.find('/'));
    if (std::ranges::any_of(all, [&](const auto& name) { return is_meant(name, of_table); }))
      continue;
    throw Error(fmt::format("--only {}: no such table", pattern), did_you_mean(of_table, all));
  }
  std::vector<PaperTable> tables;
  for (const std::string& name : all) {
    const std::vector<std::string> figures = figures_meant(name, only);
    if (!only.empty() && figures.empty()) continue;
    PaperTable& table = tables.emplace_back(read_paper_table(data_file(kind_of_data, name)));
    if (!only.empty()) keep_figures(table, figures);
  }
  return tables;
}

}  // namespace moesim
