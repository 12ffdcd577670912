// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/stale.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/sweep/sound_rows.h"
#include "sim/sweep/store.h"

namespace moesim {
namespace {

/// "the model 'mm.yaml'"
std::string name_of(const InputHash& input) {
  const std::string noun = input.column.substr(0, input.column.size() - hash_ending.size());
  return input.name.empty() ? "the " + noun : fmt::format("the {} '{}'", noun, input.name);
}

/// What differs between the row and a run of it now. A row without a hash has seen no input.
std::set<std::string> differences(const SweepRow& row, const std::vector<InputHash>& now) {
  std::set<std::string> found;
  for (const InputHash& input : now) {
    const auto stored = std::ranges::find(row.figures, input.column, &SweepFigure::column);
    const bool same = stored != row.figures.end() && stored->value.text == input.hash;
    if (!same) found.insert(name_of(input));
  }
  return found;
}

/// Whether the inputs of a row could be used when it was made.
bool has_inputs(const SweepRow& row) {
  return std::ranges::any_of(row.figures,
                             [](const SweepFigure& f) { return is_input_hash(f.column); });
}

}  // namespace

Error StaleRows::error(const std::string& file, const std::string& hint) const {
  std::string what;
  for (const auto& [name, rows] : changed) what += (what.empty() ? "" : ", ") + name;
  return error_in(file,
                  fmt::format("{} of its rows are not what a run makes now: {} changed since",
                              ids.size(), what),
                  hint);
}

StaleRows stale_rows(const std::string& file, const SweepGrid& grid, UnitRunner& runner) {
  StaleRows stale;
  std::map<std::int64_t, InputHashes> now;  // by unit
  std::string fault;                        // the first one stands for all
  const SweepReader reader(file);
  FigureCheck figures(reader.about().axes, file);
  reader.rows([&](const SweepRow& row) {
    figures.see(row);
    if (row.state == sweep_failed || row.id < 0 || row.id >= grid.size()) return;
    std::set<std::string> changed;
    const auto version = std::ranges::find(row.figures, "moesim", &SweepFigure::column);
    if (version != row.figures.end() && version->value.text != runner.version()) {
      changed.insert(fmt::format("moesim (was {})", version->value.text));
    }
    const std::int64_t unit = row.id / grid.unit_size();
    if (!now.contains(unit)) now[unit] = runner.hashes(unit);
    const InputHashes& its = now[unit];
    if (its.fault.empty()) {
      changed.merge(differences(row, its.found));
    } else if (has_inputs(row)) {
      if (fault.empty()) fault = its.fault;
      stale.unusable = true;
      changed.insert(fmt::format("an input ({})", fault));
    }
    if (changed.empty()) return;
    stale.ids.insert(row.id);
    for (const std::string& what : changed) ++stale.changed[what];
  });
  figures.finish();
  return stale;
}

}  // namespace moesim
