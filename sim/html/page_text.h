// SPDX-License-Identifier: Apache-2.0
// The page as assemble.py put it together at build time.
#pragma once

#include <string_view>

namespace moesim {

/// What comes before and after the results, which are JSON in a script element.
extern const std::string_view page_before_results;
extern const std::string_view page_after_results;
extern const bool page_has_charts;

}  // namespace moesim
