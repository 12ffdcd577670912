// SPDX-License-Identifier: Apache-2.0
#include "realhw/core/local_run.h"

#include <fmt/format.h>

#include <map>
#include <stdexcept>
#include <tuple>

#include "realhw/core/rank_order.h"
#include "sim/plan/check.h"

namespace moesim {
namespace {

class LocalRun {
 public:
  LocalRun(std::vector<std::unique_ptr<RankState>>& ranks, const Tamper& tamper)
      : plan_(ranks.front()->step().plan), ranks_(ranks), tamper_(tamper) {
    for (auto& rank : ranks) {
      rank->reset(true);
      orders_.emplace_back(rank->step().plan, rank->rank());
    }
    joined_.resize(ranks.size());
  }

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) moved = advance(r) || moved;
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (orders_[r].done()) continue;
      throw std::runtime_error(
          fmt::format("rank {} never ends {}", r, describe(plan_, orders_[r].open().front())));
    }
  }

 private:
  bool advance(std::size_t r) {
    bool moved = false;
    for (const OpId id : orders_[r].take_ready()) {
      moved = true;
      if (plan_[id].compute() != nullptr) {
        ranks_[r]->compute(id);
        orders_[r].end(id);
      } else {
        send(r, id);
        joined_[r].push_back(id);
      }
    }
    std::erase_if(joined_[r], [&](OpId id) {
      if (!receive(r, id)) return false;
      orders_[r].end(id);
      return moved = true;
    });
    return moved;
  }

  void send(std::size_t r, OpId id) {
    for (const Parcel& parcel : ranks_[r]->parcels(id).sent) {
      auto& bytes = messages_[{id, parcel.from, parcel.to}];
      bytes.resize(static_cast<std::size_t>(parcel.bytes.value));
      ranks_[r]->pack(id, parcel, bytes.data());
      if (tamper_) tamper_(id, parcel, bytes);
    }
  }

  /// False: some message is not there yet.
  bool receive(std::size_t r, OpId id) {
    const auto& parcels = ranks_[r]->parcels(id).received;
    for (const Parcel& parcel : parcels) {
      if (messages_.count({id, parcel.from, parcel.to}) == 0) return false;
    }
    for (const Parcel& parcel : parcels) {
      const auto message = messages_.extract({id, parcel.from, parcel.to});
      ranks_[r]->unpack(id, parcel, message.mapped().data());
    }
    return true;
  }

  const Plan& plan_;
  std::vector<std::unique_ptr<RankState>>& ranks_;
  const Tamper& tamper_;
  std::vector<RankOrder> orders_;
  std::vector<std::vector<OpId>> joined_;  // [rank] exchanges that it is in
  std::map<std::tuple<OpId, GpuId, GpuId>, std::vector<std::byte>> messages_;
};

}  // namespace

void run_locally(std::vector<std::unique_ptr<RankState>>& ranks, const Tamper& tamper) {
  LocalRun(ranks, tamper).run();
}

std::vector<std::unique_ptr<RankState>> all_ranks(const RealStep& step) {
  std::vector<std::unique_ptr<RankState>> ranks;
  for (int r = 0; r < step.plan.gpus; ++r) {
    ranks.push_back(std::make_unique<RankState>(step, GpuId(r)));
  }
  return ranks;
}

}  // namespace moesim
