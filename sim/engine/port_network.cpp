// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/port_network.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/link_classes.h"
#include "sim/plan/shared_link.h"

namespace moesim {
namespace {

class PortNetwork : public Network {
 public:
  PortNetwork(Events& events, const PricedPlan& plan, Ended ended)
      : events_(events),
        plan_(plan),
        ended_(std::move(ended)),
        classes_(plan),
        links_(classes_.count()),
        ends_(plan.plan().ops.size()) {}

  void join(const Progress::Joined& joined) override {
    if (!joined.all) return;
    events_.call(*joined.all + plan_[joined.op]->start(), [this, op = joined.op] { begin(op); });
  }
  bool takes_everyone() const override { return true; }

 private:
  /// Its bytes begin to move. Exchanges that share a link with it end later than foretold.
  void begin(OpId op) {
    const Seconds now = events_.now();
    ends_[op.index()] = now;
    const std::span<const ClassUse> uses = classes_.uses(plan_.price_of(op));
    for (const ClassUse& use : uses) __builtin_prefetch(&links_[use.link_class], 1);
    for (const ClassUse& use : uses) {
      SharedLink<OpId>& link = links_[use.link_class];
      link.advance(now, [](OpId, Seconds) {});
      link.add(op, use.time);
      link.foretell([this](OpId served, Seconds end) {
        Seconds& last = ends_[served.index()];
        last = std::max(last, end);
      });
    }
    await_end(op);
  }

  void await_end(OpId op) {
    events_.call(ends_[op.index()], [this, op] {
      if (ends_[op.index()] > events_.now()) return await_end(op);
      ended_(op, everyone);
    });
  }

  Events& events_;
  const PricedPlan& plan_;
  Ended ended_;
  LinkClasses classes_;
  std::vector<SharedLink<OpId>> links_;  // [class]
  std::vector<Seconds> ends_;  // [op] of an exchange whose bytes move, unless others begin
};

}  // namespace

std::unique_ptr<Network> make_port_network(Events& events, const PricedPlan& plan,
                                           Network::Ended ended) {
  return std::make_unique<PortNetwork>(events, plan, std::move(ended));
}

}  // namespace moesim
