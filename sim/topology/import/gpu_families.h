// SPDX-License-Identifier: Apache-2.0
// GPUs by what descriptions call them, with the data-sheet figures of their links.
#pragma once

#include <string>

#include "sim/base/types.h"

namespace moesim {

/// What joins the GPUs of a node by NVLink or XGMI, if no file says.
enum class NvlinkJoin { host_switch, rack_switch, bridge, mesh, none };

/// Per direction.
struct GpuFamily {
  const char* word;   // in the names of its devices
  const char* model;  // a name in models/gpu
  int sm;             // compute capability x 10; 0: none
  int nvlinks;        // of a GPU to its switch; of a pair in a mesh
  double nvlink;      // of one link, bytes per second
  double pcie;        // of its slot
  double nic;         // of the NIC that its nodes usually have one of per GPU
  int memory;         // GB; 0: devices of the family have several
  NvlinkJoin nvlink_join = NvlinkJoin::host_switch;
};

/// A device by its name.
struct NamedGpu {
  const GpuFamily* family = nullptr;  // null: not known
  bool is_card = false;               // for a slot of PCIe: no switch of NVLink joins these
  std::string unlike = {};  // what it differs in from the model of the family; empty: nothing
};
NamedGpu gpu_named(const std::string& name);

/// The family of a device by its name; else by capability and links, of equals the first. Null if
/// nothing fits.
const GpuFamily* family_named(const std::string& name);
const GpuFamily* family_with(int sm, int nvlinks);

}  // namespace moesim
