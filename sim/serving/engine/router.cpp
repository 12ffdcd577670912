// SPDX-License-Identifier: Apache-2.0
#include "sim/serving/engine/router.h"

#include <algorithm>
#include <utility>

namespace moesim {
namespace {

constexpr std::uint64_t router_seed = 0;

/// The target that is up with the least score.
template <class Score>
int least_target(const std::vector<TargetLoad>& targets, const Score& score) {
  int best = -1;
  for (int i = 0; i < std::ssize(targets); ++i) {
    const TargetLoad& target = targets[static_cast<std::size_t>(i)];
    if (!target.up) continue;
    if (best < 0 || score(target) < score(targets[static_cast<std::size_t>(best)])) best = i;
  }
  return best;
}

/// Any of the targets that are up; -1 if none is.
int drawn_target(const std::vector<TargetLoad>& targets, Random& random) {
  const auto up = std::ranges::count_if(targets, &TargetLoad::up);
  if (up == 0) return -1;
  std::uint32_t left = random.below(static_cast<std::uint32_t>(up));
  const auto found = std::ranges::find_if(
      targets, [&left](const TargetLoad& target) { return target.up && left-- == 0; });
  return static_cast<int>(found - targets.begin());
}

double requests_of(const TargetLoad& target) {
  return static_cast<double>(target.waiting + target.running);
}

bool is_imbalanced(const std::vector<TargetLoad>& targets, const RouterOptions& options) {
  double least = -1, most = 0;
  for (const TargetLoad& target : targets) {
    if (!target.up) continue;
    const double requests = requests_of(target);
    least = least < 0 ? requests : std::min(least, requests);
    most = std::max(most, requests);
  }
  return most - least > static_cast<double>(options.imbalance) &&
         most > options.imbalance_ratio * least;
}

}  // namespace

Router::Router(const RouterOptions& options)
    : options_(options), random_(router_seed), next_(static_cast<std::size_t>(options.front_ends)) {
  if (next_.size() == 1) return;
  for (std::size_t front = 0; front < next_.size(); ++front) {
    next_[front] = Random(0, front).next() >> 32;
  }
}

int Router::choose(const std::vector<TargetLoad>& targets, std::int64_t input) {
  const auto fewest = [&](const TargetLoad& target) {
    return options_.waiting_weight * static_cast<double>(target.waiting) +
           static_cast<double>(target.running);
  };
  switch (options_.kind) {
    case RouterOptions::Kind::round_robin: {
      std::size_t& next = next_[asked_++ % next_.size()];
      for (std::size_t tried = 0; tried < targets.size(); ++tried) {
        const std::size_t at = next++ % targets.size();
        if (targets[at].up) return static_cast<int>(at);
      }
      return -1;
    }
    case RouterOptions::Kind::least_tokens:
      return least_target(
          targets, [](const TargetLoad& target) { return static_cast<double>(target.tokens); });
    case RouterOptions::Kind::prefix: {
      const int longest = least_target(targets, [](const TargetLoad& target) {
        return std::pair(-target.cached, requests_of(target));
      });
      if (longest < 0 || is_imbalanced(targets, options_)) break;
      const auto cached = targets[static_cast<std::size_t>(longest)].cached;
      if (cached > 0 &&
          static_cast<double>(cached) >= options_.match * static_cast<double>(input)) {
        return longest;
      }
      break;
    }
    case RouterOptions::Kind::random:
      return drawn_target(targets, random_);
    case RouterOptions::Kind::least_requests:
      break;
  }
  return least_target(targets, fewest);
}

}  // namespace moesim
