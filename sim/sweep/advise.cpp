// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/advise.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>

#include "sim/base/error.h"
#include "sim/base/units.h"
#include "sim/print/progress_line.h"
#include "sim/sweep/search.h"
#include "sim/sweep/worker_pool.h"

namespace moesim {
namespace {

constexpr std::int64_t fewest_runs = 12;  // of small grids
constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

class ListedClaims : public Claims {
 public:
  explicit ListedClaims(std::vector<std::int64_t> units) : units_(std::move(units)) {}
  std::optional<std::int64_t> next() override {
    if (next_ == units_.size()) return std::nullopt;
    return units_[next_++];
  }

 private:
  std::vector<std::int64_t> units_;
  std::size_t next_ = 0;
};

const SweepValue* figure_of(const SweepRow& row, const std::string& column) {
  const auto found = std::ranges::find(row.figures, column, &SweepFigure::column);
  return found == row.figures.end() ? nullptr : &found->value;
}

double number_in(const SweepRow& row, const std::string& column) {
  const SweepValue* value = figure_of(row, column);
  if (value == nullptr) return nothing;
  return value->kind == SweepValue::Kind::integer ? static_cast<double>(value->integer)
                                                  : value->real;
}

std::string text_in(const SweepRow& row, const std::string& column) {
  const SweepValue* value = figure_of(row, column);
  return value == nullptr ? "" : value->text;
}

double time_of(const SweepRow& row) {
  const double step = number_in(row, "step_s");
  return std::isnan(step) ? number_in(row, "iteration_s") : step;
}

double memory_of(const SweepRow& row) {
  const double steps = number_in(row, "peak_memory_bytes");
  return std::isnan(steps) ? number_in(row, "peak_memory.bytes") : steps;
}

/// What most of the critical path is bound by, and for how long.
std::pair<std::string, double> binding_of(const SweepRow& row) {
  const std::string prefix = "critical_path.bound_by_s.";
  std::pair<std::string, double> most{"", 0};
  for (const SweepFigure& figure : row.figures) {
    if (!figure.column.starts_with(prefix) || figure.value.real <= most.second) continue;
    most = {figure.column.substr(prefix.size()), figure.value.real};
  }
  return most;
}

/// One fidelity of a grid, candidate by candidate.
class Simulated {
 public:
  Simulated(const SweepGrid& grid, Fidelity fidelity, const AdviseOptions& options)
      : grid_(grid.at_fidelity(fidelity)),
        options_(options),
        runner_(grid_, GridTraces(options.folder), options.version) {}

  const SweepGrid& grid() const { return grid_; }
  const std::map<std::int64_t, SweepRow>& rows() const { return rows_; }

  /// Simulates them unless somebody stops it.
  void run(const std::vector<std::int64_t>& ids) {
    ListedClaims claims(ids);
    const int workers = static_cast<int>(std::min<std::int64_t>(options_.workers, std::ssize(ids)));
    WorkerPool pool({claims, [](std::int64_t) { return true; }, runner_, workers});
    while (!pool.done()) {
      for (SweepRow& row : pool.wait()) rows_[row.id] = std::move(row);
      if (options_.stop()) return;
    }
  }
  /// NaN where there is none.
  double time(std::int64_t id) const {
    const auto found = rows_.find(id);
    return found == rows_.end() ? nothing : time_of(found->second);
  }

 private:
  SweepGrid grid_;
  const AdviseOptions& options_;
  UnitRunner runner_;
  std::map<std::int64_t, SweepRow> rows_;
};

class Adviser {
 public:
  Adviser(const SweepGrid& grid, const AdviseOptions& options)
      : options_(options),
        analytic_(grid, Fidelity::analytic, options_),
        port_(grid, Fidelity::port, options_),
        flow_(grid, Fidelity::flow, options_) {
    options_.stop = [this, stop = options.stop] { return stop() || elapsed() > options_.budget; };
  }

  Printout advice() {
    std::vector<std::int64_t> all;
    for (std::int64_t id = 0; id < analytic_.grid().size(); ++id) all.push_back(id);
    analytic_.run(all);
    find();
    if (ranked_.empty()) throw_reasons();
    finals();
    return printout();
  }

 private:
  double elapsed() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
  }

  void find() {
    std::vector<SearchCandidate> candidates;
    for (std::int64_t id = 0; id < analytic_.grid().size(); ++id) {
      const auto row = analytic_.rows().find(id);
      const std::string policy =
          row == analytic_.rows().end() ? "" : text_in(row->second, "policy");
      candidates.push_back({analytic_.time(id), policy});
    }
    const auto count = std::ssize(candidates);
    const SearchOptions search_options{
        std::max<std::int64_t>(fewest_runs, static_cast<std::int64_t>(options_.most_part *
                                                                      static_cast<double>(count))),
        std::max<std::int64_t>(options_.workers, count / 50), 0.98, options_.stop};
    const auto exact = [this](const std::vector<std::size_t>& chosen) {
      std::vector<std::int64_t> ids(chosen.begin(), chosen.end());
      port_.run(ids);
      std::vector<double> times;
      for (const std::int64_t id : ids) times.push_back(port_.time(id));
      return times;
    };
    found_ = search(candidates, exact, search_options);
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (!std::isnan(found_.exact[i])) ranked_.push_back(static_cast<std::int64_t>(i));
    }
    std::ranges::stable_sort(ranked_, {}, [this](std::int64_t id) { return port_.time(id); });
  }

  /// The best few at `flow`, which then decides among them.
  void finals() {
    const auto few =
        std::min<std::size_t>(ranked_.size(), static_cast<std::size_t>(options_.finals));
    if (few < 2) return;
    const std::vector<std::int64_t> best(ranked_.begin(), ranked_.begin() + static_cast<long>(few));
    flow_.run(best);
    for (const std::int64_t id : best) {
      if (std::isnan(flow_.time(id))) return;
    }
    std::ranges::stable_sort(ranked_.begin(), ranked_.begin() + static_cast<long>(few), {},
                             [this](std::int64_t id) { return flow_.time(id); });
    by_flow_ = true;
  }

  [[noreturn]] void throw_reasons() const {
    std::map<std::string, int> reasons;
    for (const auto& [id, row] : analytic_.rows()) {
      if (!row.reason.empty()) ++reasons[row.reason];
    }
    std::vector<Diagnostic> all;
    for (const auto& [reason, count] : reasons) {
      all.push_back({Severity::error, "", 0, 0, reason, "", ""});
    }
    all.push_back({Severity::error, "", 0, 0, "no candidate could be simulated", "", ""});
    throw Error(all);
  }

  /// What would bring the second to the time of the first.
  std::string what_second_needs() const {
    if (ranked_.size() < 2) return "";
    const Simulated& by = by_flow_ ? flow_ : port_;
    const double first = by.time(ranked_[0]), second = by.time(ranked_[1]);
    const SweepRow& row = port_.rows().at(ranked_[1]);
    const auto [what, seconds] = binding_of(row);
    const double missing = second - first;
    if (missing <= 0) return "# the second is as fast\n";
    std::string text = fmt::format("# the second takes {} ({:.1f} %) longer",
                                   to_string(Seconds(missing)), 100 * missing / first);
    if (what.empty()) return text + "\n";
    text +=
        fmt::format("; {} of its critical path is bound by {}", to_string(Seconds(seconds)), what);
    if (seconds <= missing)
      return text + fmt::format(": even with none of that it would not win\n");
    return text + fmt::format(": it would win if that took {:.3g} times less\n",
                              seconds / (seconds - missing));
  }

  Printout printout() const {
    std::int64_t unsuitable = 0;
    for (const auto& [id, row] : analytic_.rows()) unsuitable += row.state == sweep_ok ? 0 : 1;
    Printout out;
    out.add(fmt::format(
        "# {} candidates: {} simulated at analytic ({} cannot be), {} at port, {} at flow\n"
        "# {:.0f} % sure that no other one is faster at port{}\n",
        analytic_.grid().size(), analytic_.rows().size(), unsuitable, found_.runs,
        flow_.rows().size(), std::floor(100 * found_.sure),
        elapsed() > options_.budget ? "; the time was over" : ""));
    std::vector<TableColumn> columns;
    for (const SweepAxis& axis : port_.grid().axes()) {
      columns.push_back({axis.name, TableColumn::Kind::key});
    }
    for (const char* name : {"time", "flow", "analytic", "memory", "bound by"}) {
      columns.push_back({name});
    }
    Table table("candidates", columns);
    for (std::size_t r = 0; r < ranked_.size() && r < static_cast<std::size_t>(options_.shown);
         ++r) {
      const std::int64_t id = ranked_[r];
      const SweepRow& row = port_.rows().at(id);
      auto& cells = table.rows.emplace_back();
      for (const AxisPoint* point : port_.grid().points(id)) cells.emplace_back(point->text);
      cells.emplace_back(Seconds(port_.time(id)));
      cells.push_back(std::isnan(flow_.time(id)) ? Cell("-") : Cell(Seconds(flow_.time(id))));
      cells.emplace_back(Seconds(analytic_.time(id)));
      cells.emplace_back(Bytes(static_cast<std::int64_t>(memory_of(row))));
      cells.emplace_back(binding_of(row).first);
    }
    return out.add(table).add(what_second_needs());
  }

  AdviseOptions options_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  Simulated analytic_, port_, flow_;
  SearchEnd found_;
  std::vector<std::int64_t> ranked_;
  bool by_flow_ = false;
};

}  // namespace

Printout advise(const SweepGrid& grid, const AdviseOptions& options) {
  return Adviser(grid, options).advice();
}

}  // namespace moesim
