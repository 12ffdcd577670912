// SPDX-License-Identifier: Apache-2.0
// Times of requests as logs write them.
#pragma once

#include <optional>
#include <string_view>

namespace moesim {

/// Seconds: a number, or a day and time such as "2023-11-16 18:17:03.9799600" or
/// "2024-05-10T00:00:00.009930+00:00", after 1970. Nullopt for anything else.
std::optional<double> seconds_in(std::string_view text);

}  // namespace moesim
