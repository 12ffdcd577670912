// SPDX-License-Identifier: Apache-2.0
// Values of the fields of a log as a row holds them.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/import/json_items.h"
#include "sim/import/table_rows.h"

namespace moesim {

/// Numbers, one or in lists, or text.
struct TableValue {
  std::vector<double> numbers;
  std::int64_t lists = 0;  // that the numbers come in; 0: a single one
  bool nested = false;     // in lists of lists
  bool numeric = false;
  std::string text;  // as written, unless it is a list or a fraction of JSON
};

/// Reads CSV or plain text: "3", "[3, 6]", "3 6", "3;6"; anything else is text.
TableValue value_of_text(std::string_view text);

/// Numbers, lists of numbers and lists of such, and texts; nothing for anything else.
std::optional<TableValue> value_of_json(const JsonElement& json);

/// The only number in a module's name, "model.layers.3.mlp.gate"; nothing if there are several.
std::optional<std::int64_t> layer_in_name(std::string_view name);

/// What to do about counts that are not whole numbers.
inline constexpr const char* odd_count_hint =
    "multiply all counts by the same number, or round them";

/// Puts a value in its place of the row. A value that does not fit is an Error if the flags map the
/// field, else the row does not say it.
void fill(TableRow& row, TableRole role, const TableValue& value, const std::string& field,
          bool mapped);

/// Fills a row with the values of all fields that say something; `value_of` gives that of a field.
void fill_row(TableRow& row, const RolePlaces& places, const TableFields& fields,
              const std::vector<std::string>& names,
              const std::function<std::optional<TableValue>(std::size_t field)>& value_of);

/// Takes note of the fields from `first` on that hold a number which no row uses: of the first row.
/// Those of counts are among them, as rows do not use what is not a whole number.
void note_unused(const RolePlaces& places, const std::vector<std::string>& names, std::size_t first,
                 const std::function<std::optional<TableValue>(std::size_t field)>& value_of,
                 TableFacts& facts);

/// Takes note of a number that says how many experts there are, or how many a token chooses.
void note_fact(std::string_view name, std::int64_t value, TableFacts& facts);

}  // namespace moesim
