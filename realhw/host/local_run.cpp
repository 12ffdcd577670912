// SPDX-License-Identifier: Apache-2.0
#include "realhw/host/local_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <stdexcept>
#include <tuple>

#include "realhw/program/op_text.h"
#include "realhw/program/step_order.h"
#include "sim/plan/check.h"

namespace moesim {
namespace {

class LocalRun {
 public:
  LocalRun(std::vector<std::unique_ptr<LocalRank>>& ranks, const Tamper& tamper)
      : ranks_(ranks), tamper_(tamper), joined_(ranks.size()) {
    for (auto& rank : ranks) {
      rank->device.reset(true);
      orders_.emplace_back(rank->program.steps);
    }
  }

  void run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) moved = advance(r) || moved;
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      if (orders_[r].done()) continue;
      const OpId op = ranks_[r]->program.steps[orders_[r].open().front()].op;
      throw std::runtime_error(
          fmt::format("rank {} never ends {}", r, describe(ranks_[r]->step.plan, op)));
    }
  }

 private:
  /// A step that a rank is in, and the round of its messages that it waits for.
  struct Joined {
    std::size_t step = 0, round = 0;
  };

  const RankStep& step(std::size_t r, std::size_t i) const { return ranks_[r]->program.steps[i]; }

  bool advance(std::size_t r) {
    bool moved = false;
    for (const std::size_t i : orders_[r].take_ready()) {
      moved = true;
      run_calls(r, step(r, i), step(r, i).before);
      send(r, step(r, i), 0);
      joined_[r].push_back({i, 0});
    }
    std::erase_if(joined_[r], [&](Joined& joined) {
      const RankStep& of = step(r, joined.step);
      while (receive(r, of, joined.round)) {
        moved = true;
        run_calls(r, of, of.after_of(joined.round));
        if (joined.round == of.more.size()) {
          orders_[r].end(joined.step);
          return true;
        }
        run_calls(r, of, of.more[joined.round].before);
        send(r, of, ++joined.round);
      }
      return false;
    });
    return moved;
  }

  void run_calls(std::size_t r, const RankStep& step, const std::vector<Call>& calls) {
    for (const Call& call : calls) {
      if (!std::holds_alternative<HostWork>(call)) ranks_[r]->device.run(call, step.stream);
    }
    throw_if_not_finite(ranks_[r]->device.findings(), ranks_[r]->step.plan,
                        ranks_[r]->program.rank);
  }

  void send(std::size_t r, const RankStep& step, std::size_t round) {
    const GpuId from = ranks_[r]->program.rank;
    for (const Message& message : step.sends_of(round)) {
      auto& bytes = messages_[{step.op, round, from, message.peer}];
      const std::byte* at = ranks_[r]->device.data(message.at.buffer) + message.at.offset;
      bytes.assign(at, at + message.bytes);
      if (tamper_) tamper_(step.op, from, message.peer, bytes);
    }
  }

  /// False: some message is not there yet.
  bool receive(std::size_t r, const RankStep& step, std::size_t round) {
    const GpuId to = ranks_[r]->program.rank;
    for (const Message& message : step.receives_of(round)) {
      if (messages_.count({step.op, round, message.peer, to}) == 0) return false;
    }
    for (const Message& message : step.receives_of(round)) {
      const auto sent = messages_.extract({step.op, round, message.peer, to});
      std::byte* at = ranks_[r]->device.data(message.at.buffer) + message.at.offset;
      std::copy(sent.mapped().begin(), sent.mapped().end(), at);
    }
    return true;
  }

  std::vector<std::unique_ptr<LocalRank>>& ranks_;
  const Tamper& tamper_;
  std::vector<StepOrder> orders_;
  std::vector<std::vector<Joined>> joined_;  // [rank]
  std::map<std::tuple<OpId, std::size_t, GpuId, GpuId>, std::vector<std::byte>> messages_;
};

}  // namespace

void run_locally(std::vector<std::unique_ptr<LocalRank>>& ranks, const Tamper& tamper) {
  LocalRun(ranks, tamper).run();
}

std::vector<std::unique_ptr<LocalRank>> all_ranks(const RealStep& step,
                                                  const CompileOptions& options) {
  std::vector<std::unique_ptr<LocalRank>> ranks;
  for (int r = 0; r < step.plan.gpus; ++r) {
    ranks.push_back(std::make_unique<LocalRank>(step, GpuId(r), options));
  }
  return ranks;
}

}  // namespace moesim
