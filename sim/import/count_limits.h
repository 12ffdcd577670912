// SPDX-License-Identifier: Apache-2.0
// How large counts of choices can be, and what to do about larger ones.
#pragma once

#include <cstdint>

namespace moesim {

/// Of a source in a step.
inline constexpr std::int64_t most_source_tokens = std::int64_t{1} << 24;
/// Of an expert, in text.
inline constexpr std::int64_t most_written_count = std::int64_t{1} << 30;

inline constexpr const char* fewer_tokens_hint =
    "count fewer passes, or divide all counts by the same number: loads stay as they are";

}  // namespace moesim
