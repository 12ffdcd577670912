// SPDX-License-Identifier: Apache-2.0
// From measured exchanges to overheads and link tables, and how well these tell all exchanges.
#pragma once

#include <string>
#include <vector>

#include "realhw/calibrate/exchange_plans.h"
#include "realhw/calibrate/times_file.h"
#include "sim/linkfit/link_fit.h"
#include "sim/linkfit/robust.h"

namespace moesim {

/// A link class and what was measured of it.
struct ClassFit {
  std::string link_class;
  std::string plan;        // whose exchanges it comes from
  LinkFit fit;             // `fixed` has overheads and the latency of a route in it
  Seconds latency;         // of one link
  BytesPerSecond nominal;  // of the link by the topology
  int peers = 0;           // of a GPU in these exchanges
  int links = 1;           // of the class on a route
  Seconds other_latency;   // of the other links of a route, by the topology
  /// Per size: the median of its times against the fit.
  struct Size {
    Bytes bytes;
    Robust time;
    double error;  // fit / median - 1
  };
  std::vector<Size> sizes;
  double typical = 0, worst = 0;  // median and largest |error|
  double spread = 0;              // median 95 % half-width of the sizes, as a part
  int kept = 0, rejected = 0;
};

struct ExchangeFit {
  Robust exchange_overhead;  // of exchanges that move nothing
  double peer_overhead = 0;  // seconds
  std::vector<ClassFit> classes;
};

/// 1. The exchange overhead is the median of empty exchanges, the peer overhead the median slope of
///    one-byte exchanges over their number of peers.
/// 2. Every table plan tells the class of the link that binds its largest exchange by the
///    topology's bandwidths, unless an earlier plan did: fit_link of its medians, made to ascend
///    with the bytes on that link.
/// 3. What overheads leave of the fixed time of each class is the latency of a route: the class's
///    links share it evenly once those of other classes are taken off. A peer overhead that exceeds
///    a fixed time is lowered to it.
ExchangeFit fit_exchanges(const Topology& topology, const std::vector<ExchangePlan>& plans,
                          const Times& times);

/// How far a topology's times are from those measured, over the exchanges of a plan.
struct ExchangeCheck {
  std::string plan;
  bool fitted = false;  // some table was fitted to it
  int exchanges = 0;
  double typical = 0;  // median of |error|
  double worst = 0;    // the error of the largest magnitude: simulated / measured - 1
  Bytes worst_bytes;   // what a GPU sends at most in that exchange
};

/// Exchanges of one byte or none are left out. Times of a single exchange are exchange_time's, of
/// two at once shared_times'.
std::vector<ExchangeCheck> check_exchanges(const Topology& topology,
                                           const std::vector<ExchangePlan>& plans,
                                           const ExchangeFit& fit, const Times& times);

}  // namespace moesim
