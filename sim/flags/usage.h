// SPDX-License-Identifier: Apache-2.0
// Error messages for wrong command lines, in place of CLI11's, which have no hints.
#pragma once

#include "sim/base/error.h"

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace moesim {

/// A wrong command line of a named app, with what was probably meant.
Error usage_error(const CLI::App& app, const CLI::ParseError& e);

}  // namespace moesim
