// SPDX-License-Identifier: Apache-2.0
// All that was measured of one cluster, NAME.calib.yaml as `moesim-hw calibrate` writes it: a
// topology takes it by its top-level key `calibration`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sim/base/yaml.h"
#include "sim/topology/read/calibration_reader.h"
#include "sim/topology/topology.h"

namespace moesim {

struct ClusterCalibration {
  std::string name, description, source;
  Seconds exchange_overhead, peer_overhead;
  std::map<std::string, LinkCalibration> links;  // by link class
  std::map<std::string, std::string> gpus;  // GPU model of the topology -> file of the measured one
  std::vector<std::string> files;           // it, and those of its links
};

/// Reads a file and the files that it names, which are next to it. Throws Error with all its
/// mistakes.
ClusterCalibration read_cluster_calibration(const std::string& path);

/// Replaces the latency and bandwidth of every link of a measured class, and if there is one, the
/// overheads. The table of a calibration with `nominal` is scaled to the link's own bandwidth.
/// Links that have a table already keep it. Throws Error if a class is unknown or no GPU is of a
/// measured model.
void apply(const ClusterCalibration& calibration, Topology::Parts& parts);

}  // namespace moesim
