// SPDX-License-Identifier: Apache-2.0
// Converts small tables that torch.save wrote, such as placements, for importers that read JSON.
#pragma once

#include <string>

namespace moesim {

/// A file of torch.save as JSON: dicts, lists, strings, numbers, and tensors as nested lists.
/// Nothing of the file is executed. Throws Error for other values, over 16 million values, over 256
/// MB of text, and lists that are nested deeper than max_nesting.
std::string torch_json(const std::string& path);

}  // namespace moesim
