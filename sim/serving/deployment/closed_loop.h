// SPDX-License-Identifier: Apache-2.0
// The client of a closed loop: one process that sends each request when another ends.
#pragma once

#include "sim/serving/requests/request_log.h"

namespace moesim {

class ClosedLoop {
 public:
  /// `burst` requests are in flight.
  ClosedLoop(const ClientTimes& times, std::int64_t burst)
      : times_(times), burst_(burst), free_(leaves_first(burst)) {}

  struct Sent {
    Seconds clock;   // from here the client measures
    Seconds leaves;  // for the engine
  };

  /// A request of the first burst, by its number: the process prepares all before it sends any.
  Sent first(std::int64_t number) const {
    return {times_.prepare * static_cast<double>(number), leaves_first(number)};
  }
  /// A later one, of whose turn the process hears now.
  Sent next(Seconds now) {
    const Seconds clock = std::max(now, free_);
    free_ = clock + times_.prepare;
    return {clock, free_};
  }

 private:
  Seconds leaves_first(std::int64_t number) const {
    return times_.prepare * static_cast<double>(burst_) + times_.send * static_cast<double>(number);
  }

  ClientTimes times_;
  std::int64_t burst_;
  Seconds free_;  // when the process has nothing left to send
};

}  // namespace moesim
