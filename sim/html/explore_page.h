// SPDX-License-Identifier: Apache-2.0
// The page of `moesim explore`, as assemble.py put it together at build time.
#pragma once

#include <string_view>

namespace moesim {

extern const std::string_view explore_page;
/// What is shown to who has no token: it asks for the address that moesim printed.
extern const std::string_view door_page;

}  // namespace moesim
