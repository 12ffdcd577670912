// SPDX-License-Identifier: Apache-2.0
// Rates that links of a kind are sold with. A rate beyond them is more likely a slip (GB/s for
// Gbit/s changes every figure by eight) than a plan, so it draws a warning.
#pragma once

#include "sim/base/yaml.h"
#include "sim/topology/generate/spec.h"

namespace moesim {

enum class LinkKind { nvlink, pcie, socket, nic, fabric, wan };

/// The most that NVLink of a GPU, by any form of its name, or a NIC yields each way by data sheets;
/// of unknown GPUs the most that any has.
BytesPerSecond most_of_nvlink(const std::string& gpu);
BytesPerSecond most_of_nics();

/// Warns if `bandwidth` or `latency` of a map is beyond what links of that kind have.
void warn_implausible(const YamlMap& map, const Wire& wire, LinkKind kind);
/// Warns if a link of a GPU, of that name, has twice what its data sheet says of one way: data
/// sheets add up both.
void warn_if_doubled(const YamlMap& map, BytesPerSecond bandwidth, const std::string& gpu,
                     LinkKind kind);
/// The same for a `latency` or only an overhead.
void warn_if_long(const YamlValue& value, Seconds latency, LinkKind kind);
void warn_if_long_overhead(const YamlValue& value, Seconds overhead);
/// Warns if the NICs of a node are faster than the PCIe in front of them.
void warn_of_narrow_front(const YamlMap& nics, const NodeSpec& node);

}  // namespace moesim
