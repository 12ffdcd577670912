// SPDX-License-Identifier: Apache-2.0
// A test of nccl-tests as a log tells of it, whether in text or in JSON.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/base/error.h"
#include "sim/linkfit/logs/rank_places.h"
#include "sim/linkfit/logs/read_log.h"

namespace moesim {

/// One result of nccl-tests as printed.
struct NcclRow {
  double size, microseconds, algbw, busbw;  // bytes, us, GB/s
  int line = 0;                             // of the file; 0 when it has none
};

/// What the rows of a table show of the collective, apart from its name.
struct NcclMarks {
  bool redop_column = false, blank_redop = false, rooted = false;
  bool reduces = false;      // redop is sum, max ...
  bool whole_count = false;  // count x width is the size, not a rank's part of it
  bool checked = false, checked_in_place = false;
};

/// What a log says of one test. Nothing is decided yet: what is missing may come from LogChoice.
struct NcclTest {
  int line = 0;         // where it begins; 0 when the file has no lines
  std::string program;  // "alltoall_perf_mpi"; empty when unknown
  int program_line = 0;
  RankPlaces ranks;
  std::set<std::string> rank_tags;           // what is before the lines of ranks
  std::optional<bool> nvlink_between_hosts;  // as NCCL says (MNNVL)
  std::set<int> nvlink_domains;              // GPUs of each, as NCCL says (cliqueSize)
  std::optional<int> nvlink_set;             // between hosts, by NCCL_MNNVL_ENABLE
  std::string gpu, library, date;
  bool has_table = false;
  bool checked = true;  // each row was compared with the right result
  std::vector<NcclRow> rows;
  NcclMarks marks;     // of the last row; only texts tell
  bool ended = false;  // with the summary
  std::string cause;   // the line that says why it did not
  int cause_line = 0;
  int cut_line = 0;  // of a last row that is not whole
  std::vector<std::string> notes;
  std::optional<Error> fault;  // the first mistake, which makes its times useless
};

/// The collective of a table without a name, by its marks and bandwidths; nothing when several have
/// the same.
std::optional<Collective> collective_by_figures(const NcclTest& test, int ranks);

/// Throws Error unless bandwidths and time agree within rounding: with columns mixed up they do
/// not.
void check_row(const std::string& file, const Setting& setting, const NcclRow& row);

/// Throws Error for a list of ranks that is not whole, for groups of ranks that are not alike, and
/// for another --ranks: bandwidths with the most digits tell how many ran.
void check_ranks(const std::string& file, const Setting& setting, const NcclTest& test);

/// Whether the bandwidths may be of that setting: those with the most digits tell how many ranks
/// ran.
bool figures_fit(const NcclTest& test, const Setting& setting);

/// Throws Error if bandwidths tell that more ranks ran than the list has.
void check_list(const std::string& file, const Setting& setting, const NcclTest& test);

/// What the test measured. `only`: the file has no other. Throws Error for a test whose times
/// cannot be used.
Setting setting_of(const NcclTest& test, const std::string& file, const LogChoice& choice,
                   bool only);

/// What --ranks and --hosts say in place of the ranks' lines.
std::vector<std::string> notes_on_setting(const NcclTest& test, const Setting& setting);

/// The times of the tests that are chosen as one log. Of several settings, takes the one nearest to
/// what MoE layers send (all-to-all first, then the most ranks) and notes the others. Leaves
/// `file`, `hash` and `kind` to its caller. Throws Error when no test can be taken.
Log log_of(const std::vector<NcclTest>& tests, const std::string& file, const LogChoice& choice);

}  // namespace moesim
