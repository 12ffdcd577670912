// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/sweep/advice_text.h"
#include "sim/sweep/break_even.h"
#include "sim/sweep/candidates.h"
#include "sim/sweep/data_sheets.h"
#include "sim/sweep/search.h"
#include "sim/sweep/winners.h"

namespace moesim {
namespace {

constexpr double usual_part = 0.2;        // of the candidates at `port`,
constexpr std::int64_t fewest_runs = 12;  // but of small grids so many
constexpr double part_at_analytic = 0.6;  // of the time, if it is short
constexpr double as_fast = 1 + 1e-6;
// Times at `port` and `flow` differ by 26 % at most (docs/results/fidelity.md): one that is slower
// by more has no chance there.
constexpr double may_win_at_flow = 4.0 / 3;
constexpr int most_reasons = 3;

class Adviser {
 public:
  Adviser(const SweepGrid& grid, const AdviseOptions& options)
      : options_(options),
        interrupted_(options.stop),
        analytic_(grid, Fidelity::analytic, options_),
        port_(grid, Fidelity::port, options_),
        flow_(grid, Fidelity::flow, options_) {
    options_.stop = [this] { return interrupted_() || elapsed() > until_; };
  }

  Printout advice() {
    until_ = options_.budget * part_at_analytic;
    analytic_.run(spread_order(analytic_.grid()));
    until_ = options_.budget;
    find();
    if (ranked_.empty()) rank_by_analytic();
    if (ranked_.empty()) throw_reasons(analytic_, !left_out_.empty());
    if (by_port_) finals();
    return printout();
  }

 private:
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  /// At most so many simulations at `port` of candidates that can be.
  std::int64_t most_runs(std::int64_t possible) const {
    const auto part = [possible](double of) {
      return static_cast<std::int64_t>(of * static_cast<double>(possible));
    };
    return options_.most_part ? part(*options_.most_part) : std::max(fewest_runs, part(usual_part));
  }

  static Contender contender(const SweepRow& row) {
    return {text_in(row, "policy"), text_in(row, "routing"), text_in(row, lossy_column)};
  }

  void find() {
    std::vector<SearchCandidate> candidates(static_cast<std::size_t>(analytic_.grid().size()),
                                            {std::numeric_limits<double>::quiet_NaN(), ""});
    std::vector<Contender> contenders;
    for (const auto& [id, row] : analytic_.rows()) {
      if (row.state == sweep_ok) contenders.push_back(contender(row));
    }
    Winners winners(contenders, options_.lossy);
    for (const auto& [id, row] : analytic_.rows()) {
      if (row.state != sweep_ok || !winners.admit(contender(row))) continue;
      const double least = std::max(0.0, figure_number(row, "least_s"));  // 0 without one
      candidates[static_cast<std::size_t>(id)] = {std::max(time_in(row), least),
                                                  text_in(row, "policy"), least};
      possible_.push_back(id);
    }
    left_out_ = winners.left_out();
    data_sheets_.emplace(analytic_.rows(), possible_);
    found_ = search_among(candidates, false, most_runs(std::ssize(possible_)));
    if (data_sheets_->any()) found_.runs += search_among(candidates, true, options_.shown).runs;
    for (const std::int64_t id : possible_) {
      if (!std::isnan(port_.time(id))) ranked_.push_back(id);
    }
    sort(ranked_.begin(), ranked_.end(), port_);
    by_port_ = !ranked_.empty();
  }

  /// Among those by data sheets, or all others.
  SearchEnd search_among(std::vector<SearchCandidate> candidates, bool sheets, std::int64_t most) {
    for (const std::int64_t id : possible_) {
      if (by_data_sheet(id).empty() != sheets) continue;
      candidates[static_cast<std::size_t>(id)].rough = std::numeric_limits<double>::quiet_NaN();
    }
    SearchOptions asked{most, std::max<std::int64_t>(options_.workers, std::ssize(possible_) / 50)};
    asked.ranked = std::max(options_.shown, options_.finals);
    asked.stop = options_.stop;
    const auto exact = [this](const std::vector<std::size_t>& chosen) {
      std::vector<std::int64_t> ids(chosen.begin(), chosen.end());
      port_.run(ids);
      std::vector<std::optional<double>> times;
      for (const std::int64_t id : ids) times.push_back(port_.time_if_run(id));
      return times;
    };
    return search(candidates, exact, asked);
  }

  /// The contested links of a candidate's data sheets, by what was simulated last.
  std::string by_data_sheet(std::int64_t id) const {
    const auto& rows = port_.rows().contains(id) ? port_.rows() : analytic_.rows();
    return data_sheets_->links(rows.at(id));
  }

  /// The fastest first, but those by data sheets behind all others.
  void sort(std::vector<std::int64_t>::iterator from, std::vector<std::int64_t>::iterator to,
            const Candidates& by) const {
    std::ranges::stable_sort(from, to, {}, [&](std::int64_t id) {
      return std::pair(!by_data_sheet(id).empty(), by.time(id));
    });
  }

  /// If the time was too short for any at `port`.
  void rank_by_analytic() {
    ranked_ = possible_;
    sort(ranked_.begin(), ranked_.end(), analytic_);
  }

  /// The best few at `flow`, which then decides among them.
  void finals() {
    const double slowest = may_win_at_flow * port_.time(ranked_.front());
    const auto close = std::find_if(ranked_.cbegin(), end_of_comparable(),
                                    [&](std::int64_t id) { return port_.time(id) > slowest; });
    const auto few = std::min<std::ptrdiff_t>(close - ranked_.cbegin(), options_.finals);
    if (few < 2) return;
    const std::vector<std::int64_t> best(ranked_.begin(), ranked_.begin() + few);
    flow_.run(best);
    for (const std::int64_t id : best) {
      if (std::isnan(flow_.time(id))) return;
    }
    sort(ranked_.begin(), ranked_.begin() + few, flow_);
    by_flow_ = true;
  }

  /// Those before it are measured where the first one is.
  std::vector<std::int64_t>::const_iterator end_of_comparable() const {
    const bool sheet = !by_data_sheet(ranked_.front()).empty();
    return std::ranges::find_if(
        ranked_, [&](std::int64_t id) { return by_data_sheet(id).empty() == sheet; });
  }

  /// The fastest by data sheets, if the first is not one of them.
  std::string best_by_data_sheet() const {
    const auto best = end_of_comparable();
    if (best == ranked_.end()) return "";
    const Candidates& by = by_port_ ? port_ : analytic_;
    return fmt::format(
        "# {} by data sheet: {} takes {}; whether that is faster than the first, whose rates are "
        "measured or assumed, is not known\n",
        by_data_sheet(*best), text_in(by.rows().at(*best), "policy"),
        to_string(Seconds(by.time(*best))));
  }

  std::vector<const SweepRow*> shown_rows() const {
    std::vector<const SweepRow*> rows;
    for (std::size_t r = 0; r < std::min(ranked_.size(), shown()); ++r) {
      rows.push_back(&shown_at().rows().at(ranked_[r]));
    }
    return rows;
  }

  /// Where the rows of the shown ones are.
  const Candidates& shown_at() const { return by_port_ ? port_ : analytic_; }

  std::size_t shown() const { return static_cast<std::size_t>(options_.shown); }

  std::int64_t unseen() const { return analytic_.grid().size() - std::ssize(analytic_.rows()); }

  /// What would bring the second, the first of the slower ones, to the time of the first.
  std::string what_second_needs() const {
    if (options_.shown < 2 || !by_port_) return "";
    const Candidates& by = by_flow_ ? flow_ : port_;
    const auto takes_longer = [&](std::int64_t id) {  // what was not simulated does not
      return by.time(id) > by.time(ranked_[0]) * as_fast;
    };
    const auto end = end_of_comparable();
    const auto equal = std::count_if(ranked_.begin(), end, [&](std::int64_t id) {
      return by.time(id) <= by.time(ranked_[0]) * as_fast;
    });
    std::string text = equal > 1 ? fmt::format("# as fast as the first: {} more\n", equal - 1) : "";
    const auto slower = std::find_if(ranked_.begin(), end, takes_longer);
    if (slower == end) return text;
    const double first = by.time(ranked_[0]), missing = by.time(*slower) - first;
    text += fmt::format("# the next takes {} ({:.1f} %) longer", to_string(Seconds(missing)),
                        100 * missing / first);
    if (port_.time(*slower) <= port_.time(ranked_[0])) {
      return text + " at flow, though not at port: the two are as good as each other\n";
    }
    return text + "; at port it would win " + words_of(break_even_with(*slower)) + "\n";
  }

  std::vector<ResourceFactor> break_even_with(std::int64_t slower) const {
    const SweepGrid& grid = port_.grid();
    return break_even(grid.unit(ranked_[0]), grid.unit(slower), options_.workers, options_.stop);
  }

  std::string header() const { return advice_header(port_.grid(), options_.version); }

  std::string ended_early() const {
    const bool over = elapsed() > options_.budget;
    const std::string text =
        why_ended({interrupted_(), over, std::ssize(analytic_.rows()), analytic_.grid().size()});
    return by_port_ ? text : text + "# none was simulated at port: the times are rough\n";
  }

  Printout printout() const {
    std::int64_t simulated = 0;
    for (const auto& [id, row] : analytic_.rows()) simulated += row.state == sweep_ok ? 1 : 0;
    Printout out;
    out.add(header());
    out.add(fmt::format(
        "# {} candidates: {} simulated at analytic, {} cannot be; {} at port, {} at flow\n"
        "# {:.0f} % sure that no other{} one{} is faster at port; {} of the others are slower for "
        "certain, by their bounds\n{}",
        analytic_.grid().size(), simulated, std::ssize(analytic_.rows()) - simulated, found_.runs,
        flow_.rows().size(), std::floor(100 * found_.sure), data_sheets_->any() ? " measured" : "",
        unseen() > 0 ? " of them" : "", found_.beaten, ended_early()));
    int told = 0;
    for (const SharedReason& reason : shared_reasons(analytic_.rows())) {
      if (++told > most_reasons) break;
      out.add(fmt::format("#   {}\n", reason.text()));
    }
    out.add(left_out_);
    std::vector<TableColumn> columns;
    for (const SweepAxis& axis : port_.grid().axes()) {
      columns.push_back({axis.name, TableColumn::Kind::key});
    }
    bool any_lossy = false, any_sheet = false;
    for (const SweepRow* row : shown_rows()) {
      any_lossy |= !text_in(*row, lossy_column).empty();
      any_sheet |= !data_sheets_->links(*row).empty();
    }
    columns.push_back({"lossy", TableColumn::Kind::words, 0, any_lossy});
    columns.push_back({"data sheet", TableColumn::Kind::words, 0, any_sheet});
    const bool steps = !text_in(shown_at().rows().at(ranked_[0]), "bound_by").empty();
    for (const char* name : {"time", "flow", "analytic", "memory"}) columns.push_back({name});
    columns.push_back({steps ? "bound by" : "critical path"});
    Table table("candidates", columns);
    for (std::size_t r = 0; r < std::min(ranked_.size(), shown()); ++r) {
      const std::int64_t id = ranked_[r];
      const SweepRow& row = shown_at().rows().at(id);
      auto& cells = table.rows.emplace_back();
      for (const AxisPoint* point : port_.grid().points(id)) cells.emplace_back(point->text);
      cells.emplace_back(text_in(row, lossy_column));
      cells.emplace_back(by_data_sheet(id));
      cells.push_back(by_port_ ? Cell(Seconds(port_.time(id))) : no_value("s"));
      cells.push_back(std::isnan(flow_.time(id)) ? no_value("s") : Cell(Seconds(flow_.time(id))));
      cells.emplace_back(Seconds(analytic_.time(id)));
      cells.emplace_back(Bytes(static_cast<std::int64_t>(memory_in(row))));
      cells.emplace_back(binding_in(row));
    }
    return out.add(table)
        .add(edges_of_ranges(port_.grid(), ranked_[0]))
        .add(best_by_data_sheet())
        .add(what_second_needs())
        .add(notes_of(shown_rows()))
        .add(degrees_of(port_.grid(), shown_rows()));
  }

  AdviseOptions options_;
  std::function<bool()> interrupted_;  // and not only out of time
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Candidates analytic_, port_, flow_;
  SearchEnd found_;
  std::vector<std::int64_t> ranked_;
  std::vector<std::int64_t> possible_;  // may win
  std::optional<DataSheets> data_sheets_;
  double until_ = 0;      // seconds; then the work at hand ends
  bool by_port_ = false;  // some were simulated at `port`
  std::string left_out_;  // lines about the ones that may not win
  bool by_flow_ = false;
};

}  // namespace

Printout advise(const SweepGrid& grid, const AdviseOptions& options) {
  return Adviser(grid, options).advice();
}

}  // namespace moesim
