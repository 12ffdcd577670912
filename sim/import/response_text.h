// SPDX-License-Identifier: Apache-2.0
// What surrounds the data of responses that were saved as text.
#pragma once

#include <cstddef>
#include <string_view>

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

}  // namespace moesim
