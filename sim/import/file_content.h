// SPDX-License-Identifier: Apache-2.0
// What a file holds, for messages to whoever gave it to an importer of something else; and what
// surrounds the data of responses that were saved as text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace moesim {

/// Whether a line begins that holds no data of a response: "event: ...", ": ping" of a stream, or
/// what curl -v prints.
bool is_event_field(std::string_view text);

/// Characters of the HTTP headers that a text begins with, as curl -i prints them: to the blank
/// line; 0 if there are none.
std::size_t length_of_headers(std::string_view text);

/// Characters of the tags that a line of a log begins with, "[2026-04-19 11:00:00 TP0] ": of
/// brackets that words follow. 0 if there are none, as in a line of lists.
std::size_t length_of_tags(std::string_view line);

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
