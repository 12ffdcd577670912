// SPDX-License-Identifier: Apache-2.0
// Stored values as numbers, as text and as cells of tables.
#pragma once

#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/sweep/store.h"

namespace moesim {

/// NaN of text and of nothing.
double number_of(const StoredValue& value);
std::string text_of(const StoredValue& value);
/// The unit follows from the column's name.
Cell cell_of(const std::string& column, const StoredValue& value);

/// Keeps one of rows that differ only in axes which change nothing in their scenario: those axes
/// are "any" in it.
void collapse_equal(StoredRows& rows, const std::vector<std::string>& axes);

/// SQL in which names of columns are quoted, as dots in them would mean something else.
std::string with_quoted_columns(const std::string& sql, const std::vector<std::string>& columns);

}  // namespace moesim
