// SPDX-License-Identifier: Apache-2.0
// Launch scripts, start-up logs and YAML of arguments.
#include "sim/launched/launched.h"
#include "tests/fuzz/target.h"

namespace moesim::fuzz {
namespace {

/// YAML begins with a comment that says so.
void read_launch_text(std::string_view bytes) {
  const std::string text(bytes);
  launch_of_text(text, text.starts_with("# yaml\n") ? "a.yaml" : "a.sh");
}

}  // namespace

const Target launch_target{"launch", read_launch_text};

}  // namespace moesim::fuzz
