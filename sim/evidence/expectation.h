// SPDX-License-Identifier: Apache-2.0
// compare --expect: a result against one that was stored, figure by figure.
#pragma once

#include <string>

#include "sim/print/table.h"

namespace moesim {

struct Expectation {
  Printout moves;  // what moved, in words and one table
  int moved = 0;   // cases, missing and new ones included
  int cases = 0;   // of both together
};

/// Compares the cases of two documents of --json, `stored` being the content of `file`. A time
/// moves by more than `tolerance` of the step (iteration) that it is part of, any other figure by
/// more than that of its larger value. Throws Error if `stored` is not such a document.
Expectation expect(const std::string& file, const std::string& stored, const std::string& now,
                   double tolerance);

}  // namespace moesim
