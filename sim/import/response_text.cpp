// SPDX-License-Identifier: Apache-2.0
#include "sim/import/response_text.h"

namespace moesim {

bool is_event_field(std::string_view text) {
  return text.starts_with("event:") || text.starts_with("id:") || text.starts_with("retry:") ||
         text.starts_with(":") || text.starts_with("* ") || text.starts_with("> ") ||
         text.starts_with(">\r") || text.starts_with(">\n") || text.starts_with("< ") ||
         text.starts_with("<\r") || text.starts_with("<\n");
}

std::size_t length_of_headers(std::string_view text) {
  if (!text.starts_with("HTTP/")) return 0;
  for (std::size_t end = text.find('\n'); end != std::string_view::npos;
       end = text.find('\n', end + 1)) {
    const std::size_t next = text.find_first_not_of('\r', end + 1);
    if (next != std::string_view::npos && text[next] == '\n') return next + 1;
  }
  return text.size();
}

}  // namespace moesim
