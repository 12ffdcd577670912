// SPDX-License-Identifier: Apache-2.0
// What a file is that was dropped onto the page.
#pragma once

#include <string>

namespace moesim {

/// {"kind", "name", "path"} of a trace (a folder), topology, model, scenario (with its "text"),
/// result or profile (with the "text" of `moesim profile import`). Throws Error with what each
/// reader says if it is none of them.
std::string dropped_document(const std::string& path, const std::string& version);

}  // namespace moesim
