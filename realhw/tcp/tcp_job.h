// SPDX-License-Identifier: Apache-2.0
// A job whose ranks found each other over TCP: all words go through rank 0.
#pragma once

#include "realhw/job/job.h"
#include "realhw/tcp/control_plane.h"
#include "realhw/tcp/meet/rendezvous.h"

namespace moesim {

class TcpJob : public Job {
 public:
  /// Meets the others; throws as meet() does.
  explicit TcpJob(const TcpPlace& place, const Liveness& liveness = {});

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  std::string launcher() const override { return ranks_ == 1 ? "one process" : "TCP rendezvous"; }
  std::vector<std::string> gather(const std::string& mine) override;
  std::string broadcast(const std::string& of_first) override;
  void barrier() override;
  void send(int to, const std::string& message) override;
  std::string receive(int from) override;
  void check_peers() override { plane_.check(); }
  [[noreturn]] void abort(int code) override { plane_.abort(code); }

 private:
  std::vector<std::string> gather_for(std::string_view op, const std::string& mine);
  std::string broadcast_for(std::string_view op, const std::string& of_first);

  int rank_, ranks_;
  ControlPlane plane_;
};

}  // namespace moesim
