// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/document.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "sim/base/error.h"
#include "sim/base/figures.h"
#include "sim/base/file_claims.h"
#include "sim/sweep/no_match.h"
#include "sim/sweep/query.h"
#include "sim/sweep/stored_value.h"

namespace moesim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t most_rows = 20'000;

Json json_of(const StoredValue& value) {
  if (!value) return nullptr;
  switch (value->kind) {
    case SweepValue::Kind::integer:
      return value->integer;
    case SweepValue::Kind::real:
      return value->real;
    case SweepValue::Kind::text:
      break;
  }
  return value->text;
}

/// Texts of a column, each once.
std::set<std::string> different(const StoredRows& rows, std::size_t column) {
  std::set<std::string> all;
  for (const auto& row : rows.rows) {
    if (row[column]) all.insert(text_of(row[column]));
  }
  all.erase("");
  return all;
}

}  // namespace

std::string sweep_document(const SweepReader& reader, const std::string& where) {
  const SweepAbout about = reader.about();
  const StoredRows rows = rows_where(reader, where, "IS NOT NULL");
  if (rows.rows.empty()) {
    throw error_in(reader.path(),
                   where.empty() ? "holds no scenarios" : no_match_text(reader, where, about.axes),
                   "a report needs a scenario to draw");
  }
  if (rows.rows.size() > most_rows) {
    throw Error(fmt::format("a report shows {} at most, not {}", counted(most_rows, "scenario"),
                            rows.rows.size()),
                "moesim query FILE --where CONDITION --report REPORT.html draws some of them");
  }
  Json inputs = Json::object(), columns = Json::array(), listed = Json::array();
  std::vector<std::size_t> shown;
  for (std::size_t c = 0; c < rows.columns.size(); ++c) {
    const std::string& name = rows.columns[c];
    if (is_input_hash(name)) {
      inputs[name.substr(0, name.size() - hash_ending.size())] = different(rows, c);
    } else if (name != "scenario" && name != "moesim" && name != "notes") {
      columns.push_back(name);
      shown.push_back(c);
    }
  }
  for (const auto& row : rows.rows) {
    Json values = Json::array();
    for (const std::size_t c : shown) values.push_back(json_of(row[c]));
    listed.push_back(std::move(values));
  }
  const Json document = {{"format", "moesim-sweep"},
                         {"format_version", 1},
                         {"versions", different(rows, column_of(rows, "moesim"))},
                         {"file", about.file},
                         {"grid", about.grid},
                         {"scenarios", about.scenarios},
                         {"axes", about.axes},
                         {"inputs", inputs},
                         {"columns", columns},
                         {"rows", listed}};
  return document.dump();
}

bool is_sqlite_file(const std::string& path) {
  const std::string magic("SQLite format 3\0", 16);
  std::string first(magic.size(), ' ');
  const int file = open_input(path);
  const ssize_t count = ::read(file, first.data(), first.size());
  ::close(file);
  return count == std::ssize(magic) && first == magic;
}

}  // namespace moesim
