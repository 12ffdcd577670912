// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace moesim {
namespace {

constexpr double prior_spread = 0.1, prior_count = 2;

double above(double z) { return 0.5 * std::erfc(z / std::sqrt(2.0)); }

/// Sum, number and mean of log(exact / rough).
struct Offset {
  double sum = 0;
  double count = 0;
  void add(double value) { sum += value, count += 1; }
  /// Drawn to `all` as by one more value of it.
  double mean(double all) const { return (sum + all) / (count + 1); }
};

class Search {
 public:
  Search(const std::vector<SearchCandidate>& candidates, const SearchOptions& options)
      : candidates_(candidates), options_(options) {
    end_.exact.assign(candidates.size(), std::numeric_limits<double>::quiet_NaN());
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (!std::isnan(candidates[i].rough)) left_.push_back(i);
    }
    std::ranges::stable_sort(left_, {}, [&](std::size_t i) { return candidates_[i].rough; });
  }

  /// The best of every mechanism, then the likeliest.
  std::vector<std::size_t> next() {
    std::vector<std::size_t> chosen;
    const auto room = std::max<std::int64_t>(0, options_.most - end_.runs);
    if (end_.runs == 0) {
      std::map<std::string, std::size_t> best;
      for (const std::size_t i : left_) best.try_emplace(candidates_[i].mechanism, i);
      for (const auto& [name, i] : best) chosen.push_back(i);
      std::ranges::stable_sort(chosen, {}, [&](std::size_t i) { return candidates_[i].rough; });
    } else {
      chosen = left_;
      fit();
      if (has_ranked()) std::erase_if(chosen, [this](std::size_t i) { return is_beaten(i); });
      std::ranges::stable_sort(chosen, std::greater<>(), [&](std::size_t i) { return chance(i); });
      chosen.resize(std::min(chosen.size(), static_cast<std::size_t>(options_.batch)));
    }
    chosen.resize(std::min(chosen.size(), static_cast<std::size_t>(room)));
    return chosen;
  }

  /// Those without a time, as the search was stopped, are left for whoever asks how sure it is.
  void take(const std::vector<std::size_t>& chosen,
            const std::vector<std::optional<double>>& times) {
    for (std::size_t c = 0; c < chosen.size(); ++c) {
      if (!times[c]) continue;
      end_.exact[chosen[c]] = *times[c];
      std::erase(left_, chosen[c]);
      ++end_.runs;
    }
  }

  bool has_ranked() const {
    const auto is_exact = [](double time) { return !std::isnan(time); };
    return std::ranges::count_if(end_.exact, is_exact) >= options_.ranked;
  }

  /// That nothing is left that is faster.
  double sure() {
    fit();
    double log_sure = 0;
    for (const std::size_t i : left_) log_sure += std::log1p(-std::min(chance(i), 1 - 1e-12));
    return std::exp(log_sure);
  }

  SearchEnd end() {
    end_.sure = sure();
    end_.beaten = std::ranges::count_if(left_, [this](std::size_t i) { return is_beaten(i); });
    return std::move(end_);
  }

 private:
  void fit() {
    offsets_.clear();
    Offset all;
    best_ = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (std::isnan(end_.exact[i])) continue;
      best_ = std::min(best_, end_.exact[i]);
      offsets_[candidates_[i].mechanism].add(offset(i));
      all.add(offset(i));
    }
    mean_ = all.count > 0 ? all.sum / all.count : 0;
    double squares = prior_count * prior_spread * prior_spread;
    for (std::size_t i = 0; i < candidates_.size(); ++i) {
      if (std::isnan(end_.exact[i])) continue;
      const double left = offset(i) - offsets_[candidates_[i].mechanism].mean(mean_);
      squares += left * left;
    }
    spread_ = std::sqrt(squares / (prior_count + all.count));
  }

  double offset(std::size_t i) const { return std::log(end_.exact[i] / candidates_[i].rough); }

  bool is_beaten(std::size_t i) const { return candidates_[i].least >= best_; }

  /// That a candidate is faster than the best so far.
  double chance(std::size_t i) const {
    if (is_beaten(i)) return 0;
    const auto found = offsets_.find(candidates_[i].mechanism);
    const Offset of = found == offsets_.end() ? Offset() : found->second;
    const double spread = spread_ * std::sqrt(1 + 1 / (of.count + 1));
    const auto slower = [&](double time) {
      return above((std::log(time / candidates_[i].rough) - of.mean(mean_)) / spread);
    };
    const double possible = candidates_[i].least > 0 ? slower(candidates_[i].least) : 1;
    return possible > 0 ? 1 - slower(best_) / possible : 1;
  }

  const std::vector<SearchCandidate>& candidates_;
  const SearchOptions& options_;
  std::vector<std::size_t> left_;
  std::map<std::string, Offset> offsets_;
  double mean_ = 0, spread_ = prior_spread, best_ = 0;
  SearchEnd end_;
};

}  // namespace

SearchEnd search(const std::vector<SearchCandidate>& candidates, const ExactTimes& exact,
                 const SearchOptions& options) {
  Search search(candidates, options);
  while (!options.stop()) {
    const auto chosen = search.next();
    if (chosen.empty()) break;
    const auto times = exact(chosen);
    search.take(chosen, times);
    if (std::ranges::any_of(times, [](const auto& time) { return !time; })) break;
    if (search.sure() >= options.sure && search.has_ranked()) break;
  }
  return search.end();
}

}  // namespace moesim
