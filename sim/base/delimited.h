// SPDX-License-Identifier: Apache-2.0
// Cells of a line of CSV, by whatever separator.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// The separator that is most often in a line outside of quotes and brackets: a comma, semicolon,
/// tab or bar; 0 if none does.
char separator_of(std::string_view line);

/// The cells without blanks around them and without quotes (RFC 4180), brackets kept whole. With
/// the separator 0 the line is one cell.
std::vector<std::string> cells_of(std::string_view line, char separator);

}  // namespace moesim
