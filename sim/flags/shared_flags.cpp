// SPDX-License-Identifier: Apache-2.0
#include "sim/flags/shared_flags.h"

#include <fmt/format.h>

#include "sim/base/error.h"
#include "sim/base/piped_command.h"
#include "sim/base/units.h"

namespace moesim {

Seconds time_of_flag(const std::string& flag, const std::string& text, bool zero) {
  NumberWithUnit given;
  const bool read = split_unit(text, given);
  const double scale = seconds_scale(given.unit);
  const bool in_range = given.number > 0 || (zero && given.number == 0);
  if (read && scale > 0 && in_range) return Seconds(given.number * scale);
  throw Error(fmt::format("{}: '{}' is not a time", flag, text), "for example 10min or 90s");
}

void LossyFlag::add_to(CommandLine& command) {
  command
      .add_option("--lossy", answer,
                  "never (default), or allow: policies that drop, replace, round or compress may "
                  "be the best, too")
      .one_of({"never", "allow"});
}

void add_allow_commands(CommandLine& command) {
  command.add_flag(
      "--allow-commands", [] { allow_commands(); },
      "lets policies of kind external run their commands; read them first");
}

}  // namespace moesim
