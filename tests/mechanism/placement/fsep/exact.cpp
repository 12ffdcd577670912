// SPDX-License-Identifier: Apache-2.0
#include "tests/mechanism/placement/fsep/exact.h"

#include <fmt/format.h>
#include <glpk.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "sim/base/error.h"

namespace moesim::fsep {
namespace {

/// The program in GLPK's terms. Columns, from 1: A[e][d], then S[i][e][d], then Z, in units of one
/// token-slot's computation so that the figures stay near 1.
class Program {
 public:
  Program(const LoadMatrix& loads, const SlotGrid& grid, const CostParameters& p)
      : loads_(loads), grid_(grid), p_(p), problem_(glp_create_prob(), &glp_delete_prob) {
    glp_set_obj_dir(problem_.get(), GLP_MIN);
    glp_add_cols(problem_.get(), load());
    add_columns();
    add_slot_rows();
    add_routing_rows();
    add_load_rows();
  }

  void solve(double relative_gap) {
    glp_iocp options;
    glp_init_iocp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.presolve = GLP_ON;
    options.mir_cuts = GLP_ON;
    options.mip_gap = relative_gap;
    const int terminal = glp_term_out(GLP_OFF);
    const int failed = glp_intopt(problem_.get(), &options);
    glp_term_out(terminal);
    const int status = glp_mip_status(problem_.get());
    const bool done = failed == 0 || failed == GLP_EMIPGAP;
    if (!done || (status != GLP_OPT && status != GLP_FEAS)) {
      throw std::runtime_error(
          fmt::format("GLPK found no placement: code {}, status {}", failed, status));
    }
  }

  ExactPlan plan() const {
    ExactPlan plan;
    plan.slots.resize(static_cast<std::size_t>(ranks()));
    plan.to_rank.assign(plan.slots.size(), LoadMatrix(ranks(), experts()));
    double byte_seconds = 0;
    std::vector<std::int64_t> received(plan.slots.size());
    for (int d = 0; d < ranks(); ++d) {
      const auto to = static_cast<std::size_t>(d);
      for (int e = 0; e < experts(); ++e) {
        if (integer(holds(e, d)) == 1) plan.slots[to].emplace_back(e);
        for (int i = 0; i < ranks(); ++i) {
          const std::int64_t sent = integer(sends(i, e, d));
          plan.to_rank[to].at(GpuId(i), ExpertId(e)) = sent;
          received[to] += sent;
          byte_seconds += static_cast<double>(sent) / bandwidth(i, d).value;
        }
      }
    }
    const auto most = static_cast<double>(*std::max_element(received.begin(), received.end()));
    plan.cost = {Seconds(4 * static_cast<double>(p_.token.value) * byte_seconds),
                 passes() * most * p_.per_token_slot};
    return plan;
  }

 private:
  int ranks() const { return grid_.ranks; }
  int experts() const { return loads_.experts(); }
  double passes() const { return p_.activation_checkpointing ? 4 : 3; }
  int holds(int e, int d) const { return 1 + e * ranks() + d; }
  int sends(int i, int e, int d) const {
    return 1 + experts() * ranks() + (i * experts() + e) * ranks() + d;
  }
  int load() const { return sends(ranks() - 1, experts() - 1, ranks() - 1) + 1; }
  std::int64_t integer(int column) const {
    return std::llround(glp_mip_col_val(problem_.get(), column));
  }
  double count(int i, int e) const { return static_cast<double>(loads_.at(GpuId(i), ExpertId(e))); }

  BytesPerSecond bandwidth(int i, int d) const {
    if (i == d) return p_.same_rank;
    return grid_.node_of(GpuId(i)) == grid_.node_of(GpuId(d)) ? p_.same_node : p_.other_node;
  }

  void add_columns() {
    glp_prob* problem = problem_.get();
    for (int d = 0; d < ranks(); ++d) {
      for (int e = 0; e < experts(); ++e) {
        glp_set_col_kind(problem, holds(e, d), GLP_BV);
        for (int i = 0; i < ranks(); ++i) {
          const int column = sends(i, e, d);
          const double seconds = static_cast<double>(p_.token.value) / bandwidth(i, d).value;
          const double most = count(i, e);
          glp_set_col_kind(problem, column, GLP_IV);
          glp_set_col_bnds(problem, column, most > 0 ? GLP_DB : GLP_FX, 0, most);
          glp_set_obj_coef(problem, column, 4 * seconds / p_.per_token_slot.value);
        }
      }
    }
    // The largest sum of integers: saying so spares the search most of its branches.
    glp_set_col_kind(problem, load(), GLP_IV);
    glp_set_col_bnds(problem, load(), GLP_LO, 0, 0);
    glp_set_obj_coef(problem, load(), passes());
  }

  /// Adds a row of columns and coefficients with a bound of the given type.
  void add_row(const std::vector<std::pair<int, double>>& terms, int type, double bound) {
    std::vector<int> columns = {0};  // GLPK counts from 1
    std::vector<double> values = {0};
    for (const auto& [column, value] : terms) {
      columns.push_back(column);
      values.push_back(value);
    }
    const int row = glp_add_rows(problem_.get(), 1);
    glp_set_row_bnds(problem_.get(), row, type, bound, bound);
    glp_set_mat_row(problem_.get(), row, static_cast<int>(terms.size()), columns.data(),
                    values.data());
  }

  void add_slot_rows() {
    for (int d = 0; d < ranks(); ++d) {
      std::vector<std::pair<int, double>> held;
      for (int e = 0; e < experts(); ++e) held.emplace_back(holds(e, d), 1);
      add_row(held, GLP_FX, grid_.slots_per_rank);
    }
  }

  void add_routing_rows() {
    for (int i = 0; i < ranks(); ++i) {
      for (int e = 0; e < experts(); ++e) {
        if (count(i, e) <= 0) continue;
        std::vector<std::pair<int, double>> all;
        for (int d = 0; d < ranks(); ++d) {
          all.emplace_back(sends(i, e, d), 1);
          add_row({{sends(i, e, d), 1}, {holds(e, d), -count(i, e)}}, GLP_UP, 0);
        }
        add_row(all, GLP_FX, count(i, e));
      }
    }
  }

  void add_load_rows() {
    for (int d = 0; d < ranks(); ++d) {
      std::vector<std::pair<int, double>> received = {{load(), -1}};
      for (int i = 0; i < ranks(); ++i) {
        for (int e = 0; e < experts(); ++e) received.emplace_back(sends(i, e, d), 1);
      }
      add_row(received, GLP_UP, 0);
    }
  }

  const LoadMatrix& loads_;
  SlotGrid grid_;
  CostParameters p_;
  std::unique_ptr<glp_prob, decltype(&glp_delete_prob)> problem_;
};

}  // namespace

ExactPlan exact_plan(const LoadMatrix& loads, const SlotGrid& grid, const CostParameters& p,
                     double relative_gap) {
  grid.check(loads.experts());
  if (loads.sources() != grid.ranks) {
    throw Error(fmt::format("loads of {} ranks on a grid of {}", loads.sources(), grid.ranks));
  }
  if (grid.slots_per_rank > loads.experts()) {
    throw Error(
        fmt::format("{} slots per rank, but only {} experts", grid.slots_per_rank, loads.experts()),
        "the exact plan puts no expert twice on a rank");
  }
  Program program(loads, grid, p);
  program.solve(relative_gap);
  return program.plan();
}

}  // namespace moesim::fsep
