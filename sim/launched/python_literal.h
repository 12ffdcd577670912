// SPDX-License-Identifier: Apache-2.0
// Python's words for mappings and calls, as far as logs have them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace moesim {

struct PythonItem {
  std::string name;                 // of inner mappings joined by points
  std::vector<std::string> values;  // of a list all; else one, without quotes
};

/// The items of "{'a': 1, 'b': [2, 3]}" or "(a=1, b={'c': 2})" from its bracket on; what is no
/// literal stays a text. Ends at the bracket that closes it, or at the end of the text.
std::vector<PythonItem> python_items(std::string_view text);

}  // namespace moesim
