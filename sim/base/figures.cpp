// SPDX-License-Identifier: Apache-2.0
#include "sim/base/figures.h"

#include <fmt/format.h>

namespace moesim {

std::string counted(std::int64_t count, std::string_view noun) {
  if (count == 1) return fmt::format("1 {}", noun);
  const auto ends_in = [&](std::string_view end) { return noun.ends_with(end); };
  const bool vowel = ends_in("ay") || ends_in("ey") || ends_in("oy");
  if (ends_in("y") && !vowel) {
    return fmt::format("{} {}ies", count, noun.substr(0, noun.size() - 1));
  }
  const bool hisses = ends_in("s") || ends_in("x") || ends_in("ch") || ends_in("sh");
  return fmt::format("{} {}{}", count, noun, hisses ? "es" : "s");
}

}  // namespace moesim
