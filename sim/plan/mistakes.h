// SPDX-License-Identifier: Apache-2.0
// Gathers the mistakes of one input, so that they are thrown together.
#pragma once

#include <utility>
#include <vector>

#include "sim/base/error.h"

namespace moesim {

/// Keeps the first mistakes of an input and counts the rest.
class Mistakes {
 public:
  void add(Diagnostic mistake) {
    if (++count_ <= limit) kept_.push_back(std::move(mistake));
  }
  void add(std::string message) {
    Diagnostic mistake;
    mistake.message = std::move(message);
    add(std::move(mistake));
  }
  bool empty() const { return count_ == 0; }
  /// Throws Error with what was kept and, when there were more, how many.
  void throw_if_any() const;

 private:
  static constexpr std::size_t limit = 20;
  std::vector<Diagnostic> kept_;
  std::size_t count_ = 0;
};

}  // namespace moesim
