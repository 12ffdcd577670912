// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/link_classes.h"

#include <algorithm>
#include <utility>

namespace moesim {
namespace {

/// [price] whether an exchange of the plan has it.
std::vector<bool> prices_in(const PricedPlan& plan) {
  std::vector<bool> has(plan.prices().size());
  for (OpId op(0); op.index() < plan.plan().ops.size(); ++op.value) {
    for (std::size_t c = 0; c < plan.plan()[op].collectives(); ++c)
      has[plan.price_of(op, c)] = true;
  }
  has[0] = false;  // of kernels
  return has;
}

/// Classes of links that are divided by one exchange after the other.
class Division {
 public:
  explicit Division(std::size_t links) : of_(links), sizes_{links} {}

  /// Links that an exchange uses leave their class, together if it asks the same of them. Links
  /// that stay keep the number of the class.
  void divide(const std::vector<LinkUse>& uses) {
    leaving_.clear();
    for (const LinkUse& use : uses) {
      const std::uint32_t own = of_[use.link.index()];
      if (sizes_[own] > 1) leaving_.push_back({own, use.time, use.link});
    }
    std::ranges::sort(leaving_, {}, [](const Leaving& l) { return std::pair(l.from, l.time); });
    for (std::size_t first = 0, last = 0; first < leaving_.size(); first = last) {
      const auto [from, time, link] = leaving_[first];
      while (last < leaving_.size() && leaving_[last].from == from && leaving_[last].time == time) {
        ++last;
      }
      if (last - first == sizes_[from]) continue;
      sizes_[from] -= last - first;
      for (std::size_t i = first; i < last; ++i) {
        of_[leaving_[i].link.index()] = static_cast<std::uint32_t>(sizes_.size());
      }
      sizes_.push_back(last - first);
    }
  }
  std::uint32_t of(LinkId link) const { return of_[link.index()]; }
  std::size_t count() const { return sizes_.size(); }

 private:
  struct Leaving {
    std::uint32_t from;
    Seconds time;
    LinkId link;
  };
  std::vector<std::uint32_t> of_;   // [link] its class
  std::vector<std::size_t> sizes_;  // [class] links
  std::vector<Leaving> leaving_;
};

/// Classes that end no exchange last: there is one of which every exchange that they serve asks as
/// much time or more. It serves others besides, so that nobody has a larger share of it, and none
/// of its exchanges ends sooner.
class Outlasted {
 public:
  explicit Outlasted(std::size_t classes) : proposed_(classes), longer_(classes), time_(classes) {}

  /// Takes those into account that a class may be outlasted by, few of them because each is to be
  /// tested by every exchange. Of large exchanges all others may.
  void propose(std::span<const ClassUse> exchange) {
    constexpr std::size_t large = 256, enough = 16;
    if (exchange.size() > large) return;
    for (const ClassUse& use : exchange) {
      if (proposed_[use.link_class]) continue;
      any_ = proposed_[use.link_class] = true;
      auto& longer = longer_[use.link_class];
      for (const ClassUse& other : exchange) {
        if (longer.size() == enough) break;
        const bool as_long = other.time >= use.time && other.link_class != use.link_class;
        if (as_long) longer.push_back(other.link_class);
      }
    }
  }
  /// After all are proposed.
  void test(std::span<const ClassUse> exchange) {
    if (!any_) return;
    for (const ClassUse& use : exchange) time_[use.link_class] = use.time;
    for (const ClassUse& use : exchange) {
      std::erase_if(longer_[use.link_class],
                    [&](std::uint32_t other) { return time_[other] < use.time; });
    }
    for (const ClassUse& use : exchange) time_[use.link_class] = Seconds(0);
  }
  bool has(std::uint32_t link_class) const { return !longer_[link_class].empty(); }

 private:
  bool any_ = false;
  std::vector<bool> proposed_;                      // [class]
  std::vector<std::vector<std::uint32_t>> longer_;  // [class]
  std::vector<Seconds> time_;                       // [class] that the exchange asks
};

}  // namespace

LinkClasses::LinkClasses(const PricedPlan& plan) {
  const std::vector<bool> has = prices_in(plan);
  Division links(plan.topology().link_count());
  std::size_t uses = 0;
  for (std::size_t price = 0; price < has.size(); ++price) {
    if (!has[price]) continue;
    links.divide(plan.prices()[price]->loads.uses);
    uses += plan.prices()[price]->loads.uses.size();
  }
  count_ = links.count();
  uses_.reserve(uses);
  first_.assign(1, 0);
  std::vector<std::size_t> seen(count_);  // [class] the last price that uses it
  Outlasted outlasted(count_);
  for (std::size_t price = 0; price < has.size(); ++price) {
    if (has[price]) {
      for (const LinkUse& use : plan.prices()[price]->loads.uses) {
        const std::uint32_t own = links.of(use.link);
        if (std::exchange(seen[own], price) != price) uses_.push_back({own, use.time});
      }
    }
    first_.push_back(uses_.size());
    outlasted.propose(this->uses(price));
  }
  for (std::size_t price = 0; price < has.size(); ++price) outlasted.test(this->uses(price));
  std::size_t kept = 0;
  for (std::size_t price = 0; price < has.size(); ++price) {
    const auto [begin, end] = std::pair(first_[price], first_[price + 1]);
    first_[price] = kept;
    for (std::size_t i = begin; i < end; ++i) {
      if (!outlasted.has(uses_[i].link_class)) uses_[kept++] = uses_[i];
    }
  }
  first_.back() = kept;
  uses_.resize(kept);
}

}  // namespace moesim
