// SPDX-License-Identifier: Apache-2.0
#include "realhw/tcp/tcp_job.h"

namespace moesim {

TcpJob::TcpJob(const TcpPlace& place, const Liveness& liveness)
    : rank_(place.rank), ranks_(place.ranks), plane_(place.rank, meet(place), liveness) {}

std::vector<std::string> TcpJob::gather_for(std::string_view op, const std::string& mine) {
  if (rank_ != 0) {
    plane_.send(0, mine, op);
    return {};
  }
  std::vector<std::string> all{mine};
  for (int from = 1; from < ranks_; ++from) all.push_back(plane_.receive(from, op));
  return all;
}

std::string TcpJob::broadcast_for(std::string_view op, const std::string& of_first) {
  if (rank_ != 0) return plane_.receive(0, op);
  for (int to = 1; to < ranks_; ++to) plane_.send(to, of_first, op);
  return of_first;
}

std::vector<std::string> TcpJob::gather(const std::string& mine) {
  return gather_for("gather", mine);
}

std::string TcpJob::broadcast(const std::string& of_first) {
  return broadcast_for("broadcast", of_first);
}

void TcpJob::barrier() {
  gather_for("barrier", "");
  broadcast_for("barrier", "");
}

void TcpJob::send(int to, const std::string& message) { plane_.send(to, message, "send"); }
std::string TcpJob::receive(int from) { return plane_.receive(from, "receive"); }

}  // namespace moesim
