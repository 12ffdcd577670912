// SPDX-License-Identifier: Apache-2.0
// Measured times of exchanges, and where they come from.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/base/types.h"

namespace moesim {

/// The collectives whose bytes per link are known: GPUs send to each other in pairs, or along a
/// ring.
enum class Collective {
  alltoall,
  all_gather,
  reduce_scatter,
  all_reduce,
  sendrecv,
  broadcast,
  reduce,
  gather,
  scatter
};
inline constexpr int collective_count = 9;
const char* name_of(Collective collective);
/// "alltoall", "AlltoAll", "bin/all_to_all_perf_mpi" ...; nothing for others.
std::optional<Collective> collective_of(const std::string& name);

/// Which links a measurement is about: those inside a host, or those between hosts.
enum class LinkReach { host, fabric };

/// What was measured: a collective of `ranks` GPUs on `hosts`. GPUs of a host share NVLink here: if
/// NVLink joins several machines, they are one host.
struct Setting {
  Collective collective = Collective::alltoall;
  int ranks = 0;
  int hosts = 1;
  int fewest = 0;  // ranks of the host that has the fewest; 0: of all hosts, as evenly as it goes
};

/// How often a GPU waits for another one's bytes: once in pairs, along a ring once for each hop of
/// an all-gather.
int rounds_of(const Setting& setting);

/// Bytes on the busiest link of one GPU, one direction, per byte of nccl-tests' "size":
/// - all-to-all, gather, scatter: what leaves the busiest GPU for others (reach host) or for other
///   hosts (reach fabric)
/// - ring algorithms: the factor of nccl-tests' bus bandwidth; between hosts the rings of a host
///   leave it once each, evenly over a NIC per GPU
/// 0 when nothing crosses such a link.
double link_bytes_per_byte(const Setting& setting, LinkReach reach);

struct Sample {
  Bytes bytes;  // on the busiest link
  Seconds time;
};

/// The measurements of one setting in a file.
struct Log {
  std::string file;  // as given
  std::string hash;  // of its content (hash_of)
  std::string kind;  // "nccl-tests text" ...
  std::string what;  // "alltoall, 8 ranks, inside a host"
  Setting setting;   // its hosts are NVLink domains
  LinkReach reach = LinkReach::host;
  std::string gpu, library, date;  // empty if the file does not say
  std::vector<Sample> samples;
  std::vector<std::string> notes;  // what people should know of them: "ends early ..."
  double parts = 0;                // bytes on the link per byte of what a GPU has for one peer
  int runs = 1;                    // tests of the file that these are the times of
  bool checked = false;            // the test compared its results with the right ones
};

}  // namespace moesim
