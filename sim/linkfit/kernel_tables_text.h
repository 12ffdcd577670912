// SPDX-License-Identifier: Apache-2.0
// Measured kernel times as the keys `gemm` and `memory_bound` of a GPU model.
#pragma once

#include <string>

#include "sim/model/kernel_tables.h"

namespace moesim {

/// `comment` is next to both keys: how they were measured.
std::string kernel_tables_yaml(const KernelTables& tables, const std::string& comment);

}  // namespace moesim
