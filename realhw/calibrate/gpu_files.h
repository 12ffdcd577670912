// SPDX-License-Identifier: Apache-2.0
// Measured GPU models as the files that read_gpu_model reads, and as tables for people.
#pragma once

#include <string>

#include "realhw/calibrate/kernel_fit.h"
#include "realhw/calibrate/provenance.h"

namespace moesim {

/// PREFIX.gpu.yaml. `stated` is the model that it takes the place of.
std::string gpu_yaml(const std::string& name, const std::string& stated, const GpuFit& fit,
                     const Provenance& provenance);

std::string kernel_report(const std::string& name, const GpuFit& fit);
std::string overlap_report(const OverlapFit& fit);

}  // namespace moesim
