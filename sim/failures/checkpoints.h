// SPDX-License-Identifier: Apache-2.0
// What failures cost a training job, in closed form: failures are a Poisson process, a lost step or
// checkpoint is computed again, and recoveries may be hit as well. With replicas, experts may
// outlive the loss of nodes.
#pragma once

#include <cstdint>
#include <span>

#include "sim/base/types.h"
#include "sim/plan/placement.h"

namespace moesim {

struct Survival {
  double share = 0;   // of the sets of lost nodes that leave every expert of every layer
  bool exact = true;  // all sets were looked at, else 100,000 drawn ones
};

/// `layers`: the experts whose whole state each GPU holds, one table per layer. A node is
/// `gpus_per_node` consecutive GPUs; `together` of them are lost, each set as likely as any other.
/// Throws Error unless nodes divide the GPUs and there are that many.
Survival survival(std::span<const SlotTable> layers, int gpus_per_node, int together);

/// How a job trains, and what a failure does to it.
struct FailingJob {
  Seconds step;     // without failures
  Seconds write;    // of a checkpoint, in which the job does not train
  Seconds restart;  // from the failure until the job trains again, from its checkpoint
  Seconds between;  // mean time between failures of the whole job
  /// The share of failures after which the job needs no checkpoint, because what was lost is
  /// elsewhere; it pauses, and computes the broken step again. 0: none (checkpoints only).
  double survived = 0;
  Seconds pause{};
};

/// sqrt(2 write x between): Young, Communications of the ACM 17(9), 1974.
Seconds young_interval(Seconds write, Seconds between);
/// Time between checkpoints, their writing left out: Daly, Future Generation Computer Systems
/// 22(3), 2006, equation 37.
Seconds daly_interval(Seconds write, Seconds between);

/// The share of time that is spent on steps that count, with a checkpoint after every `steps` of
/// them. Without survived failures it is Daly's complete model (equation 13): step x steps /
/// (M e^(restart/M) (e^((step x steps + write)/M) - 1)), M the mean time between failures.
double useful_share(const FailingJob& job, std::int64_t steps);

/// A year: who would write that seldom writes none.
inline constexpr Seconds longest_interval{365 * 24 * 3600.0};

/// The steps between checkpoints for which that share is the largest; at most those of a year.
std::int64_t best_steps(const FailingJob& job);

/// What an hour has of it on average, with a checkpoint after every `steps` steps.
struct HourOfFailures {
  double failures = 0;
  Seconds lost;       // not spent on steps that count
  Seconds writing;    // of it, on checkpoints that count
  Seconds down;       // of it, in pauses and restarts
  double redone = 0;  // steps' worth of the rest: work that did not count
};
HourOfFailures hour_of(const FailingJob& job, std::int64_t steps);

}  // namespace moesim
