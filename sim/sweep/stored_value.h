// SPDX-License-Identifier: Apache-2.0
// Stored values as numbers, as text and as cells of tables.
#pragma once

#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/sweep/store.h"

namespace moesim {

/// NaN for text and for no value.
double number_of(const StoredValue& value);
std::string text_of(const StoredValue& value);
/// The unit follows from the column's name.
Cell cell_of(const std::string& column, const StoredValue& value);

/// The unit in a column's name.
bool holds_seconds(const std::string& column);
bool holds_bytes(const std::string& column);

/// Merges rows whose axes did not change the scenario; these axes become "any".
void collapse_equal(StoredRows& rows, const std::vector<std::string>& axes);

/// Quotes column names in SQL, because SQL reads a dot as table.column.
std::string with_quoted_columns(const std::string& sql, const std::vector<std::string>& columns);

}  // namespace moesim
