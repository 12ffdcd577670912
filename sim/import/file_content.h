// SPDX-License-Identifier: Apache-2.0
// What a file holds, for messages to whoever gave it to an importer of something else.
#pragma once

#include <string>
#include <vector>

namespace moesim {

enum class FileForm { zip, npy, parquet, pickle, json, text, empty, other };

/// By the first bytes, unpacked if they are gzip's. Throws Error when it cannot be read.
FileForm form_of(const std::string& path);

/// What a file is and which names are in it: "is JSON with the keys id, choices", "is text with the
/// columns layer, expert". Throws Error when it cannot be read.
std::string content_of(const std::string& path);

/// A few of some names: "a, b, c and 4 more".
std::string some_of(const std::vector<std::string>& names);

/// The files of inputs by their names, if none of them is of use: "it holds a, b and 4 more".
std::string files_text(const std::vector<std::string>& inputs);

}  // namespace moesim
