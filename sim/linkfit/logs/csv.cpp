// SPDX-License-Identifier: Apache-2.0
#include "sim/linkfit/logs/csv.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "sim/base/delimited.h"
#include "sim/base/error.h"

namespace moesim {
namespace {

bool is_blank(const std::string& line) {
  return line.find_first_not_of(" \t") == std::string::npos;
}

char separator_in(const std::string& names) {
  const char separator = separator_of(names);
  return separator == '\0' ? ' ' : separator;
}

bool chosen(const Setting& setting, const LogChoice& choice) {
  if (choice.collective && *choice.collective != setting.collective) return false;
  if (choice.ranks && *choice.ranks != setting.ranks) return false;
  return !choice.reach || (*choice.reach == LinkReach::fabric) == (setting.hosts > 1);
}

}  // namespace

Csv::Csv(const std::string& text, std::string file)
    : file_(std::move(file)), lines_(lines_of(text)) {
  while (!lines_.empty() && is_blank(lines_.back())) lines_.pop_back();
  const auto first = std::ranges::find_if_not(lines_, is_blank);
  first_ = static_cast<int>(first - lines_.begin()) + 1;
  separator_ = separator_in(*first);
  names_ = cells_of(*first, separator_);
  name_nodes();
}

void Csv::name_nodes() {
  const auto ranks = std::ranges::find(names_, "ranks");
  if (ranks == names_.end() || !has("rankspernode") || !has("gpusperrank") || has("nodes")) return;
  if (first_ >= size()) return;
  const std::string& row = lines_[static_cast<std::size_t>(first_)];
  if (cells_of(row, separator_).size() == names_.size() + 1) names_.insert(ranks, "nodes");
}

bool Csv::has(const std::string& name) const { return std::ranges::count(names_, name) > 0; }

bool Csv::is_rule(int line) const {
  const std::string& text = lines_[static_cast<std::size_t>(line) - 1];
  return is_blank(text) || (text.find("--") != std::string::npos &&
                            text.find_first_not_of("|-:+ \t") == std::string::npos);
}

Csv::Row Csv::row(int line) const {
  Row row{line, cells_of(lines_[static_cast<std::size_t>(line) - 1], separator_)};
  if (row.cells.size() != names_.size()) {
    throw error_in(file_, fmt::format("{} cells below {} columns", row.cells.size(), names_.size()),
                   line == size() ? "the table is cut short: copy it again" : "", line);
  }
  return row;
}

std::string Csv::text(const Row& row, const std::string& name) const {
  const auto at = std::ranges::find(names_, name);
  return at == names_.end() ? "" : row.cells[static_cast<std::size_t>(at - names_.begin())];
}

double Csv::number(const Row& row, const std::string& name, double least) const {
  const double value = number_in(file_, row.line, "'" + name + "'", text(row, name));
  if (value < least) {
    throw error_in(file_, fmt::format("'{}' is {}", name, value), "a value above 0", row.line);
  }
  return value;
}

void take_rows(const Csv& csv, const LogChoice& choice, const ReadExchange& read, Log& log) {
  if (choice.in_place) throw error_in(csv.file(), "has no in-place times", "leave out --in-place");
  std::set<std::string> settings, others;
  std::optional<LinkShare> share;
  for (int line = csv.first() + 1; line <= csv.size(); ++line) {
    if (csv.is_rule(line)) continue;
    const std::optional<TimedExchange> entry = read(csv.row(line));
    if (!entry) continue;
    if (!chosen(entry->setting, choice)) {
      others.insert(label(entry->setting));
      continue;
    }
    settings.insert(label(entry->setting));
    if (!share) share = link_share(csv.file(), entry->setting, choice, log);
    share->add(entry->bytes, entry->time, log);
  }
  if (settings.size() > 1) {
    throw error_in(
        csv.file(), fmt::format("holds several settings: {}", fmt::join(settings, "; ")),
        "a table may be of several clusters: choose with --collective, --ranks and --reach");
  }
  if (settings.empty() && others.empty()) {
    throw error_in(csv.file(), "has no exchanges below its columns", "", csv.first());
  }
  if (settings.empty()) {
    throw error_in(csv.file(), "holds nothing of what is chosen",
                   fmt::format("it has {}", fmt::join(others, "; ")));
  }
}

}  // namespace moesim
