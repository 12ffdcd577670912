// SPDX-License-Identifier: Apache-2.0
// Figures of a GPU model that are twice its data sheet's: rates with sparsity, and other slips.
#pragma once

#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/model/gpu_model.h"

namespace moesim {

/// The shipped model with the figures of the data sheet of a GPU, which is found by its name up to
/// the first dash; empty if there is none.
std::string data_sheet_of(const std::string& gpu);

/// Warnings about rates of `gpu`, read from `file`, that are twice those of its data sheet.
std::vector<Diagnostic> doubled_figures(const std::string& file, const GpuModel& gpu,
                                        const GpuModel& sheet);

}  // namespace moesim
