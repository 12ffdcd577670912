// SPDX-License-Identifier: Apache-2.0
#include "sim/report/notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

bool has(const Json& c, const Json& note) {
  const auto notes = c.find("notes");
  return notes != c.end() && std::find(notes->begin(), notes->end(), note) != notes->end();
}

/// Whom a case's note is of.
std::string subject(const Json& c, const Json& note, const std::vector<Json>& cases) {
  const std::string policy = c["policy"];
  const bool everywhere = std::all_of(cases.begin(), cases.end(), [&](const Json& other) {
    return other["policy"] != c["policy"] || has(other, note);
  });
  return everywhere ? policy : fmt::format("{} on {}", policy, c["topology"].get<std::string>());
}

}  // namespace

std::string notes_below(const std::vector<Json>& cases) {
  std::vector<std::pair<Json, std::vector<std::string>>> notes;  // with subjects, as they come
  for (const Json& c : cases) {
    for (const Json& note : c.value("notes", Json::array())) {
      auto known = std::find_if(notes.begin(), notes.end(),
                                [&](const auto& entry) { return entry.first == note; });
      if (known == notes.end()) {
        notes.emplace_back(note, std::vector<std::string>{});
        known = notes.end() - 1;
      }
      const std::string whose = subject(c, note, cases);
      auto& subjects = known->second;
      if (std::find(subjects.begin(), subjects.end(), whose) == subjects.end()) {
        subjects.push_back(whose);
      }
    }
  }
  std::string text;
  for (const auto& [note, subjects] : notes) {
    text += fmt::format("# note: {} {}\n", fmt::join(subjects, ", "), note.get<std::string>());
  }
  return text;
}

}  // namespace moesim
