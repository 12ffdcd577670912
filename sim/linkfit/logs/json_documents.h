// SPDX-License-Identifier: Apache-2.0
// Files that hold several JSON texts, or other output around them.
#pragma once

#include <string_view>
#include <vector>

namespace moesim {

struct JsonDocument {
  int line;  // of the file, where it begins
  std::string_view text;
};

/// Objects and lists that begin a line, one after the other; what is between them is left out. The
/// last one ends with the file if nothing closes it.
std::vector<JsonDocument> json_documents(std::string_view text);

}  // namespace moesim
