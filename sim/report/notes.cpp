// SPDX-License-Identifier: Apache-2.0
#include "sim/report/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace moesim {
namespace {

bool has(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// The subject of a case's note: the policy, and the topology if the note does not hold on every
/// one. Cases that were not run do not count, because they have no notes.
std::string subject(const CaseResult& c, const std::string& note,
                    const std::vector<CaseResult>& cases) {
  const bool everywhere = std::all_of(cases.begin(), cases.end(), [&](const CaseResult& other) {
    return !other.ran() || other.name.policy_text() != c.name.policy_text() ||
           has(notes_of(other), note);
  });
  const std::string policy = c.name.policy_text();
  return everywhere ? policy : fmt::format("{} on {}", policy, c.name.topology);
}

}  // namespace

Cell lossy_cell(const Loss& loss) { return loss.any() ? Cell(loss.text()) : Cell("-"); }

void add_loss(nlohmann::ordered_json& json, const Loss& loss) {
  json["lossy"] = loss.text();
  if (!loss.any()) return;
  auto& figures = json["loss"] = nlohmann::ordered_json::object();
  if (loss.dropped > 0) figures["dropped_part"] = loss.dropped_part();
  if (loss.replaced > 0) figures["replaced_part"] = loss.replaced_part();
  if (loss.rows.bits > 0) figures["row_bits"] = loss.rows.bits;
  if (loss.compression > 1) figures["weight_compression"] = loss.compression;
}

std::vector<std::string> notes_of(const CaseResult& c) {
  std::vector<std::string> notes;
  if (!c.cannot_run.empty()) notes.push_back(cannot_run_note(c.cannot_run));
  notes.insert(notes.end(), c.metrics.notes.begin(), c.metrics.notes.end());
  return notes;
}

std::string notes_below(const std::vector<CaseResult>& cases) {
  std::vector<std::pair<std::string, std::vector<std::string>>> notes;  // with subjects
  for (const CaseResult& c : cases) {
    for (const std::string& note : notes_of(c)) {
      auto known = std::find_if(notes.begin(), notes.end(),
                                [&](const auto& entry) { return entry.first == note; });
      if (known == notes.end()) known = notes.insert(notes.end(), {note, {}});
      const std::string whose = subject(c, note, cases);
      if (!has(known->second, whose)) known->second.push_back(whose);
    }
  }
  std::string text;
  for (const auto& [note, subjects] : notes) {
    text += fmt::format("# note: {} {}\n", fmt::join(subjects, ", "), note);
  }
  return text;
}

}  // namespace moesim
