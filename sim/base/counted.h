// SPDX-License-Identifier: Apache-2.0
// Numbers with their nouns, for people.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moesim {

/// "1 host", "8 hosts", "2 processes", "3 entries".
std::string counted(std::int64_t count, std::string_view noun);

}  // namespace moesim
