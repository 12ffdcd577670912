// SPDX-License-Identifier: Apache-2.0
// The layout of --help: no line is longer than the terminal or 100 characters.
#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}  // namespace CLI

namespace moesim {

std::shared_ptr<CLI::FormatterBase> help_format();

}  // namespace moesim
