// SPDX-License-Identifier: Apache-2.0
// How large counts of choices can be, what to do about larger ones, and how files hold them.
#pragma once

#include <cstdint>
#include <string>

namespace moesim {

/// Of a source in a step.
inline constexpr std::int64_t most_source_tokens = std::int64_t{1} << 24;
/// Of an expert in a step.
inline constexpr std::int64_t most_count = std::int64_t{1} << 40;
/// Of an expert, in text.
inline constexpr std::int64_t most_written_count = std::int64_t{1} << 30;

inline constexpr const char* fewer_tokens_hint =
    "count fewer passes, or divide all counts by the same number: loads stay as they are";
inline constexpr const char* counts_hint =
    "counts are [layer][expert] or [step][layer][expert], in .npy, JSON or CSV";

/// Throws Error for a count of more than most_written_count.
[[noreturn]] void refuse_large_count(const std::string& where, const std::string& count,
                                     int line = 0);

}  // namespace moesim
