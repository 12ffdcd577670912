// SPDX-License-Identifier: Apache-2.0
// The GPU of a cluster by what its files say of it.
#pragma once

#include <string>

#include "sim/topology/import/gpu_families.h"
#include "sim/topology/import/merged.h"

namespace moesim {

struct StatedGpu {
  std::string model;                  // a name in models/gpu, or the device's in small letters
  std::string comment;                // what it rests on
  const GpuFamily* family = nullptr;  // null: a device that is not known
  bool is_assumed = false;            // neither a file nor the user says it
  bool is_card = false;               // for a slot of PCIe: no switch of NVLink joins these
};

/// `stated`: by the user; empty: by the files, else the commonest GPU with such links.
StatedGpu stated_gpu(const MergedFacts& facts, const std::string& stated);

/// "read: FILE: what it says".
std::string read_in(const std::string& file, const std::string& more = "");
/// "assumed: why".
std::string assumed(const std::string& why);

}  // namespace moesim
