// SPDX-License-Identifier: Apache-2.0
// The best figure of a sweep's rows by two of their columns.
#pragma once

#include <string>
#include <vector>

#include "sim/print/table.h"
#include "sim/sweep/store.h"

namespace moesim {

/// A figure that decides; of "-figure" more is better.
struct Aim {
  std::string figure;
  double sign = 1;  // -1: more is better
};
Aim aim_of(const std::string& text);

/// `of`: the columns down and across. Throws Error unless there are two, and for unknown ones.
Table pivot_table(const StoredRows& rows, const std::vector<std::string>& of, const Aim& aim);

}  // namespace moesim
