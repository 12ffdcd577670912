// SPDX-License-Identifier: Apache-2.0
// Outputs of programs as people pass them on: from launchers, logs, mails, terminals and pages.
#pragma once

#include <string>
#include <vector>

namespace moesim {

/// The text as a program printed it: without what is put before all lines (host names, times,
/// quotes, blanks), fences of Markdown with what is around them, and lines with a prompt. Every
/// line keeps its number.
std::string as_printed(const std::string& text);

/// The names before lines of several machines, as pdsh and others print them: "n1: ", "n2: ".
/// Empty unless nearly all lines have one.
std::vector<std::string> names_before_lines(const std::string& text);

}  // namespace moesim
