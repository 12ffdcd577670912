// SPDX-License-Identifier: Apache-2.0
// Error messages for wrong command lines, in place of CLI11's, which have no hints; and the layout
// of --help, whose lines are no longer than the terminal or 100 characters.
#pragma once

#include <memory>

#include "sim/base/error.h"

namespace CLI {
class App;
class FormatterBase;
class ParseError;
}  // namespace CLI

namespace moesim {

std::shared_ptr<CLI::FormatterBase> help_format();

/// A wrong command line of a named app, with what was probably meant.
Error usage_error(const CLI::App& app, const CLI::ParseError& e);

}  // namespace moesim
