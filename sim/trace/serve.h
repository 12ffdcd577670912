// SPDX-License-Identifier: Apache-2.0
// Decode as an engine serves it: a log of requests, one after the other, laid out over the steps of
// an engine that runs many at once.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "sim/trace/routing_trace.h"

namespace moesim {

struct ServeOptions {
  int batch = 64;  // most requests that run at once
  int least = 0;   // steps in which fewer run are left out; 0: those without a full batch
  /// [request], in decode steps from 0; empty: all are there at the start.
  std::vector<double> arrivals = {};
  std::string name = {};  // default: the name of the trace
};

/// Arrivals at random, `rate` (> 0) of them per decode step on the mean (a Poisson process).
std::vector<double> poisson_arrivals(std::int64_t requests, double rate, std::uint64_t seed);
/// One number per line. Throws Error with the line.
std::vector<double> parse_arrivals(const std::string& text, const std::string& file);

/// Continuous batching. Each sequence of the trace is a request, numbered through all steps; each
/// of its tokens takes one decode step.
///  - A request that has come takes the lowest free slot of the batch, first come first served, and
///    keeps it to its last token; the next one takes the slot in the step after.
///  - A step has one token for each request that runs, in slots' order, each a sequence by itself.
///    Its number is the decode step. Source ranks of the recording are left out.
class DecodeServer {
 public:
  /// Throws Error for a trace without requests of more than a token, of training or of prefill, and
  /// for arrivals that are not one per request.
  DecodeServer(const RoutingTrace& trace, const ServeOptions& options);

  const TraceInfo& info() const { return info_; }
  /// The next step, or nothing at the end.
  std::shared_ptr<const TraceStep> next_step();

  std::int64_t requests() const { return requests_; }
  /// Share of the tokens that have been served.
  double progress() const;
  std::int64_t steps_left_out() const { return steps_left_out_; }
  std::int64_t tokens_left_out() const { return tokens_left_out_; }

 private:
  struct Request {
    double arrival = 0;
    int step = 0;             // of the trace
    std::int64_t first = 0;   // its next token there
    std::int64_t tokens = 0;  // still to come
  };
  void admit();
  std::shared_ptr<const TraceStep> running_step(const std::vector<Request*>& running) const;

  RoutingTrace trace_;
  ServeOptions options_;
  TraceInfo info_;
  std::deque<Request> waiting_;  // by arrival
  std::vector<Request> slots_;   // [slot]; free without tokens to come
  std::int64_t requests_ = 0;
  std::int64_t now_ = 0;  // decode step
  std::int64_t tokens_served_ = 0;
  std::int64_t steps_left_out_ = 0;
  std::int64_t tokens_left_out_ = 0;
};

}  // namespace moesim
