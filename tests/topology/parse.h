// SPDX-License-Identifier: Apache-2.0
// Topologies of texts, and what is said of wrong ones.
#pragma once

#include <string>

#include "sim/base/error.h"
#include "sim/topology/reader.h"
#include "tests/error_of.h"

namespace moesim {

inline Topology parse(const std::string& text) {
  return parse_topology(text, "test.yaml").topology;
}

/// The whole message for a wrong file t.yaml, nothing for a right one.
inline std::string errors(const std::string& text) {
  return error_of([&] { parse_topology(text, "t.yaml"); });
}

/// The warnings about a file t.yaml.
inline std::string warnings(const std::string& text) {
  std::string out;
  for (const Diagnostic& d : parse_topology(text, "t.yaml").warnings) out += d.str();
  return out;
}

}  // namespace moesim
