// SPDX-License-Identifier: Apache-2.0
// Logs as containers keep them.
#pragma once

#include <optional>
#include <string>

namespace moesim {

/// The lines that a container printed, if each is kept as JSON: {"log":"...\\n","stream":"stdout"},
/// or a "line", "message" or "textPayload" with the time at which it came. Entries are lines or
/// elements of a list, also of one under the key "events". Lists that begin with the last entry are
/// turned round.
std::optional<std::string> container_lines(const std::string& text, const std::string& file);

}  // namespace moesim
