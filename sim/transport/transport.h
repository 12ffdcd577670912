// SPDX-License-Identifier: Apache-2.0
// A transport: the library or kernel that moves the bytes of an exchange, with what it makes of the
// links and what it costs besides. See docs/transports.md.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/topology/topology.h"

namespace moesim {

struct Transport;
using TransportPtr = std::shared_ptr<const Transport>;  // null: ideal

/// What carries a plan's exchanges.
struct Transports {
  TransportPtr tokens;  // of exchanges of tokens and what goes with them
  TransportPtr others;  // of parameters, gradients and activations
  bool operator==(const Transports&) const = default;
};

/// What carries one exchange.
struct Carrier {
  const Transport* transport = nullptr;  // ideal
  bool goes_on = false;                  // it belongs to a kernel that has started
  auto operator<=>(const Carrier&) const = default;
};

/// What a transport yields on one kind of link: measured, by the bytes that an exchange puts on it.
struct LinkRates {
  std::string link_class;                       // "nvlink", "nic", ...
  std::string network;                          // of the measured link; empty: any
  BytesPerSecond of;                            // of the measured link, by its data sheet
  std::shared_ptr<const BandwidthTable> rates;  // none above `of`
  Seconds per_message = {};                     // besides, for each row on the link; between two
                                                // measured links linear in the log of bandwidth
  Seconds per_message_peer = {};                // and for each GPU that could have got it
  bool assumed = false;  // taken from elsewhere: nobody measured this transport on such links
  bool operator==(const LinkRates&) const = default;
};

/// A time of an exchange, by how far it reaches.
struct TierTimes {
  Seconds host, fabric, wan;
  Seconds of(Tier tier) const {
    return tier == Tier::host ? host : tier == Tier::fabric ? fabric : wan;
  }
  bool operator==(const TierTimes&) const = default;
};

struct Transport {
  std::string name, description, source;
  std::optional<TierTimes> start_up;  // else the overheads of the topology
  BytesPerSecond first_row{};         // a kernel takes its first row at this rate; 0: at once
  TierTimes per_peer = {};            // times the largest number of peers that a GPU has
  TierTimes per_row = {};  // times the most rows that a GPU has for a peer, mean over them
  TierTimes flags =
      {};  // of all experts, before their rows: times the part of the group farther off
  std::optional<Seconds> host;   // CPU time of a call, in place of the GPU model's
  int sms = 0;                   // multiprocessors that exchanges of rows take on each GPU
  bool fused = false;            // the phases of a dispatch are one kernel, which starts once
  std::string others;            // the transport of what is not a token exchange; empty: itself
  std::vector<LinkRates> links;  // of one class and network by ascending `of`
  TransportPtr combine;          // of rows on their way back; null: as on their way there

  /// Whether it takes everything as the topology states it, other exchanges included.
  bool ideal() const;
};

/// The network whose rates a transport takes for links of a class: `network`, else its nearest kin,
/// so that no network is faster for want of a measurement: of the same family (the name before
/// '-') the last that is not newer, or the oldest; else InfiniBand; else the first by name. An
/// empty `network` stays, and so does every one if the transport rates no network of that class.
std::string rated_network(const Transport& transport, const std::string& link_class,
                          const std::string& network);

/// The time that a link of this bandwidth needs for so many bytes of one exchange. `rates` are of
/// its class and network, by ascending `of`, at least one. With the curve T(bytes) measured on a
/// link of bandwidth B:
///  - on a link of bandwidth b below or above all of them, T(bytes x B / b): what does not scale
///    with bytes does not scale with the bandwidth either;
///  - between two, the geometric mean of both curves, weighted by how near log b is to each.
/// More bytes, or a slower link, never take less.
Seconds time_on(const std::vector<const LinkRates*>& rates, BytesPerSecond bandwidth, Bytes bytes);

/// Makes of the loads of an exchange on a topology what they are by this transport:
///  - a use takes time_on its link in place of bytes / bandwidth, crowding besides, and per_message
///    + per_message_peer x the group's other GPUs in a host (in the host with most) for each row on
///    the link. If it is a part of a fused kernel, it has its share of the time
///    for all the bytes that the kernel puts on the link, kernel_bytes [link];
///  - overhead = start-up of the farthest tier reached + a row / first_row + per_peer x the most
///    peers of a GPU (the topology's peer_overhead if its hosts are slower; none if messages cost
///    nothing), or none if it continues with what has started; and per_row x the rows for each peer
///    as far away, mean over the peers of the GPU that has most: a connection takes its rows one by
///    one. In addition to its rows a kernel that starts tells every expert how many come: flags x
///    the part of the group's GPUs that are as far away from a GPU, if that is most. The longer one
///    counts.
/// What was measured stays: links with a table, and all of a topology that says what it was
/// measured with. So does an exchange of one GPU with itself, which no transport carries.
void carry(const Transport& transport, bool goes_on, const Topology& topology,
           const GroupTraffic& traffic, std::span<const std::int64_t> kernel_bytes,
           LinkLoads& loads);

}  // namespace moesim
