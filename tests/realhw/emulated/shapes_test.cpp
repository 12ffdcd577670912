// SPDX-License-Identifier: Apache-2.0
// A layer of experts in every launch shape: 1 to 64 experts, top-k 1 to 8, experts without tokens,
// odd widths, both types, another order of blocks and threads each. MOESIM_EMULATED_SHAPES=N draws
// N layers of each.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "tests/realhw/cuda/twins.h"
#include "tests/realhw/emulated/emulated.h"

namespace moesim {
namespace {

/// Forward, and the gradients of the second product and of the activation.
class ExpertLayer {
 public:
  ExpertLayer(int experts, int top_k, unsigned seed) : random_(seed), top_k_(top_k) {
    tokens_ = 1 + below(random_, 6);
    hidden_ = 1 + below(random_, 40);
    ffn_ = 1 + below(random_, 33);
    gated_ = below(random_, 2) == 0;
    format_ = below(random_, 2) == 0 ? RowFormat::float32 : RowFormat::bfloat16;
    rows_of_.resize(static_cast<std::size_t>(experts));
    for (std::int64_t token = 0; token < tokens_; ++token) choose(token, experts);
    add_forward();
    add_backward();
  }

  void run_and_compare() {
    twins_.run();
    // Of the largest: one sum of few terms may cancel most of its digits.
    const double tolerance = format_ == RowFormat::float32 ? 1e-3 : 3e-2;
    for (const auto& [place, count] : results_) twins_.expect_close(place, count, tolerance);
    EXPECT_EQ(twins_.gpu->findings().not_finite_in, std::nullopt);
  }
  std::int64_t empty_experts() const {
    return std::ranges::count_if(rows_of_, [](const auto& rows) { return rows.empty(); });
  }

 private:
  /// Distinct experts, the first ones more often.
  void choose(std::int64_t token, int experts) {
    std::set<std::int64_t> chosen;
    while (static_cast<int>(chosen.size()) < top_k_) {
      chosen.insert(std::min(below(random_, experts), below(random_, experts)));
    }
    for (const std::int64_t e : chosen) rows_of_[static_cast<std::size_t>(e)].push_back(token);
  }
  std::int64_t rows() const { return tokens_ * top_k_; }
  std::int64_t up() const { return gated_ ? 2 * ffn_ : ffn_; }
  Place row(Place of, std::int64_t number, std::int64_t width) const {
    return {of.buffer, of.offset + number * width * static_cast<std::int64_t>(size_of(format_))};
  }
  Place matrix(std::int64_t elements) {
    return twins_.add(format_, elements, 0, numbers(random_, elements, 2));
  }
  Place empty(std::int64_t elements) { return twins_.add(format_, elements, 0); }

  /// Calls visit(expert, its rows, its first row).
  template <class Visit>
  void for_each_expert(Visit visit) {
    std::int64_t first = 0;
    for (std::size_t e = 0; e < rows_of_.size(); ++e) {
      visit(e, std::ssize(rows_of_[e]), first);
      first += std::ssize(rows_of_[e]);
    }
  }

  void add_forward() {
    const Place x = matrix(tokens_ * hidden_);
    sorted_ = empty(rows() * hidden_), h_ = empty(rows() * up());
    RowSums sort{hidden_, {}, {0}, {}};
    GroupedProduct first{GroupedProduct::Kind::plain, up(), hidden_, {}};
    GroupedProduct second{GroupedProduct::Kind::plain, hidden_, ffn_, {}};
    Activation activation{false, ffn_, gated_, {}};
    RowSums reduce{hidden_, {}, {0}, {}};
    const Place out = empty(rows() * ffn_), y = empty(rows() * hidden_);
    result_ = empty(tokens_ * hidden_);
    std::vector<std::vector<RowSums::Term>> terms(static_cast<std::size_t>(tokens_));
    for_each_expert([&](std::size_t e, std::int64_t m, std::int64_t at) {
      activation.ranges.push_back({m, row(h_, at, up()), row(out, at, ffn_), {}, {}});
      w2_.push_back(m == 0 ? Place{} : matrix(ffn_ * hidden_));
      if (m == 0) return;
      first.groups.push_back(
          {m, row(sorted_, at, hidden_), matrix(hidden_ * up()), row(h_, at, up())});
      second.groups.push_back({m, row(out, at, ffn_), w2_.back(), row(y, at, hidden_)});
      for (std::int64_t i = 0; i < m; ++i) {
        const std::int64_t token = rows_of_[e][static_cast<std::size_t>(i)];
        sort.to.push_back(row(sorted_, at + i, hidden_));
        sort.terms.push_back({row(x, token, hidden_), 1});
        sort.first.push_back(static_cast<std::uint32_t>(sort.terms.size()));
        terms[static_cast<std::size_t>(token)].push_back(
            {row(y, at + i, hidden_), numbers(random_, 1, 1)[0]});
      }
    });
    for (std::int64_t token = 0; token < tokens_; ++token) {
      reduce.to.push_back(row(result_, token, hidden_));
      for (const auto& term : terms[static_cast<std::size_t>(token)]) reduce.terms.push_back(term);
      reduce.first.push_back(static_cast<std::uint32_t>(reduce.terms.size()));
    }
    for (const Call& call : std::initializer_list<Call>{sort, first, activation, second, reduce}) {
      twins_.call(call);
    }
    twins_.call(FiniteCheck{OpId(5), {{result_, tokens_ * hidden_}, {h_, rows() * up()}}});
    results_ = {{h_, rows() * up()}, {result_, tokens_ * hidden_}};
  }

  void add_backward() {
    const Place dy = matrix(rows() * hidden_), dout = empty(rows() * ffn_);
    const Place dh = empty(rows() * up());
    GroupedProduct back{GroupedProduct::Kind::transposed_b, ffn_, hidden_, {}};
    GroupedProduct weights{GroupedProduct::Kind::outer, up(), hidden_, {}};
    Activation gradient{true, ffn_, gated_, {}};
    for_each_expert([&](std::size_t e, std::int64_t m, std::int64_t at) {
      gradient.ranges.push_back({m, row(h_, at, up()), {}, row(dh, at, up()), row(dout, at, ffn_)});
      if (m == 0) return;
      back.groups.push_back({m, row(dy, at, hidden_), w2_[e], row(dout, at, ffn_)});
      const Place dw = twins_.add(RowFormat::float32, hidden_ * up(), 0);
      twins_.program.zeroed.push_back(dw.buffer);
      weights.groups.push_back({m, row(sorted_, at, hidden_), row(dh, at, up()), dw});
      results_.emplace_back(dw, hidden_ * up());
    });
    for (const Call& call : std::initializer_list<Call>{back, gradient, weights}) {
      twins_.call(call);
    }
    results_.emplace_back(dh, rows() * up());
  }

  Random random_;
  int top_k_;
  std::int64_t tokens_ = 0, hidden_ = 0, ffn_ = 0;
  bool gated_ = false;
  RowFormat format_ = RowFormat::float32;
  std::vector<std::vector<std::int64_t>> rows_of_;  // [expert] tokens
  Twins twins_;
  Place sorted_, h_, result_;
  std::vector<Place> w2_;
  std::vector<std::pair<Place, std::int64_t>> results_;
};

TEST(EmulatedShapes, LayersOfExpertsAreThoseOfTheCpu) {
  const char* more = std::getenv("MOESIM_EMULATED_SHAPES");
  const int layers = more == nullptr ? 1 : std::atoi(more);
  std::int64_t ran = 0, with_empty = 0;
  emulated::take_launches();
  for (int experts = 1; experts <= 64; ++experts) {
    for (int top_k = 1; top_k <= std::min(8, experts); ++top_k) {
      for (int i = 0; i < layers; ++i) {
        SCOPED_TRACE(testing::Message() << experts << " experts, top " << top_k);
        const auto seed = static_cast<unsigned>(i * 1000 + experts * 10 + top_k);
        emulated::set_block_seed(seed);
        ExpertLayer layer(experts, top_k, seed);
        layer.run_and_compare();
        with_empty += layer.empty_experts() > 0 ? 1 : 0;
        ++ran;
      }
    }
  }
  emulated::set_block_seed(0);
  const auto launches = emulated::take_launches();
  std::printf("%ld layers, %ld with empty experts, %zu launch shapes\n", static_cast<long>(ran),
              static_cast<long>(with_empty), launches.size());
  EXPECT_EQ(ran, layers * 484);
  EXPECT_GT(with_empty, ran / 2);
  EXPECT_GT(launches.size(), 50u);
}

}  // namespace
}  // namespace moesim
