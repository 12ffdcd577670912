// SPDX-License-Identifier: Apache-2.0
// What surrounds the data of responses that were saved as text.
#pragma once

#include <string_view>

namespace moesim {

/// Whether a line begins that holds no data of a response: "event: ...", ": ping" of a stream, or
/// what curl -v prints.
bool is_event_field(std::string_view text);

/// Characters of the HTTP headers that a text begins with, as curl -i prints them: to the blank
/// line; 0 if there are none.
std::size_t length_of_headers(std::string_view text);

}  // namespace moesim
