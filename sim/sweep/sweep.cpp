// SPDX-License-Identifier: Apache-2.0
#include "sim/sweep/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "sim/base/error.h"
#include "sim/base/files.h"
#include "sim/print/progress_line.h"
#include "sim/run/worker_count.h"
#include "sim/sweep/parts.h"
#include "sim/sweep/stale.h"
#include "sim/sweep/unit_pool.h"

namespace moesim {
namespace {

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

std::optional<Launch> launch_by(const std::string& id, const char* rank, const char* size) {
  const std::string r = variable(rank), n = variable(size);
  if (id.empty() || r.empty() || n.empty()) return std::nullopt;
  Launch launch{id, std::atoi(r.c_str()), std::atoi(n.c_str())};
  for (char& c : launch.id) {
    if (c == '/' || c == ' ') c = '_';
  }
  if (launch.size < 2 || launch.rank < 0 || launch.rank >= launch.size) return std::nullopt;
  return launch;
}

SweepAbout about_of(const SweepGrid& grid) {
  SweepAbout about{grid.hash(), grid.file(), grid.size(), {}};
  for (const SweepAxis& axis : grid.axes()) about.axes.push_back(axis.name);
  return about;
}

/// Where a process writes: the sweep's file, or its own part.
std::string file_of(const SweepOptions& options) {
  if (options.launch) {
    return part_file(options.file, fmt::format("{}-{}", options.launch->id, options.launch->rank));
  }
  if (options.shard.of == 1) return options.file;
  return part_file(options.file, fmt::format("{}-of-{}", options.shard.number, options.shard.of));
}

std::string claims_folder(const SweepOptions& options) {
  return fmt::format("{}.claims/{}", options.file, options.launch->id);
}

/// Small enough that all ranks end together, and few enough files.
std::unique_ptr<Claims> claims_of(const SweepGrid& grid, const SweepOptions& options) {
  if (!options.launch) return own_claims(grid.units());
  std::filesystem::create_directories(claims_folder(options));
  constexpr std::int64_t per_rank = 50, most = 64;
  const std::int64_t chunk =
      std::clamp<std::int64_t>(grid.units() / (options.launch->size * per_rank), 1, most);
  return file_claims(grid.units(), claims_folder(options), chunk);
}

SweepEnd end_of(const std::string& file) {
  SweepEnd end;
  end.file = file;
  const SweepReader reader(file);
  for (const auto& row :
       reader.query("SELECT state, count(*) FROM scenarios GROUP BY state").rows) {
    end.states[row[0]->text] = row[1]->integer;
  }
  const auto reasons = reader.query(
      "SELECT reason, count(*) FROM scenarios WHERE reason IS NOT NULL GROUP BY reason");
  for (const auto& row : reasons.rows) end.reasons[row[0]->text] = row[1]->integer;
  end.scenarios = reader.about().scenarios;
  return end;
}

/// The last rank of a launch to come here merges what all of them wrote.
void end_launch(const SweepGrid& grid, const SweepOptions& options) {
  const std::string folder = claims_folder(options);
  for (int place = 0; place < options.launch->size; ++place) {
    if (!create_alone(fmt::format("{}/ended-{}", folder, place))) continue;
    if (place + 1 < options.launch->size) return;
    merge_sweep(grid, options.file, options.version);
    std::filesystem::remove_all(options.file + ".claims");
    return;
  }
}

class Sweep {
 public:
  Sweep(const SweepGrid& grid, const SweepOptions& options)
      : grid_(grid), options_(options), about_(about_of(grid)), runner_(grid, options.version) {}

  SweepEnd run() {
    const std::string file = file_of(options_);
    const bool alone = file == options_.file;
    bool stopped = false;
    {
      SweepStore store(file, about_);
      if (alone) merge_parts(options_.file, store, about_);
      remove_stale(file, store);
      done_ = ids_in(options_.file, about_, other_parts());
      std::ranges::copy(store.ids(), std::inserter(done_, done_.end()));
      count();
      stopped = run_units(store);
    }
    if (options_.launch && !stopped) end_launch(grid_, options_);
    const bool merged = options_.launch && !is_there(file);
    SweepEnd end =
        merged || alone || is_there(file) ? end_of(merged ? options_.file : file) : SweepEnd{};
    end.scenarios = wanted_;
    end.before = before_;
    end.run = run_;
    end.again = again_;
    end.stopped = stopped;
    return end;
  }

 private:
  /// Parts of this launch, or of other shards, which may be in the making.
  std::string other_parts() const {
    if (options_.launch) return part_file(options_.file, options_.launch->id + "-");
    return options_.shard.of > 1 ? part_file(options_.file, "") : "";
  }

  /// For a part, the rows of the whole sweep count as well, which it leaves as they are.
  void remove_stale(const std::string& file, SweepStore& store) {
    const std::string other = "-o names another file";
    if (file != options_.file && is_there(options_.file)) {
      const StaleRows whole = stale_rows(options_.file, grid_, runner_);
      if (!whole.ids.empty()) throw whole.error(options_.file, other);
    }
    const StaleRows stale = stale_rows(file, grid_, runner_);
    if (stale.ids.empty()) return;
    if (!options_.again) {
      throw stale.error(file,
                        (stale.unusable ? "put back or mend what it was made of, or "
                                        : "--again replaces these rows and keeps the others; ") +
                            other);
    }
    store.replace(to_run_again(stale.ids));
    again_ = std::ssize(stale.ids);
  }

  /// Rows in the place of stale ones, so that whoever asks before they have run, or after a kill,
  /// sees that they are missing, and the same command runs them.
  std::vector<SweepRow> to_run_again(const std::set<std::int64_t>& ids) const {
    std::vector<SweepRow> rows;
    for (const std::int64_t id : ids) {
      auto of_unit = runner_.not_run(id / grid_.unit_size(), sweep_failed,
                                     "not run again yet: what it was made of has changed");
      rows.push_back(std::move(of_unit[static_cast<std::size_t>(id % grid_.unit_size())]));
    }
    return rows;
  }

  bool of_shard(std::int64_t unit) const {
    return unit % options_.shard.of == options_.shard.number;
  }

  /// Whether all scenarios of a unit are: it runs as a whole.
  bool is_done(std::int64_t unit) const {
    for (std::int64_t f = 0; f < grid_.unit_size(); ++f) {
      if (!done_.contains(unit * grid_.unit_size() + f)) return false;
    }
    return true;
  }

  void count() {
    for (std::int64_t id = 0; id < grid_.size(); ++id) {
      if (!of_shard(id / grid_.unit_size())) continue;
      ++wanted_;
      if (is_done(id / grid_.unit_size())) ++before_;
    }
  }

  double part_done(const UnitPool& pool) const {
    if (options_.launch) {
      return static_cast<double>(pool.reached()) / static_cast<double>(grid_.units());
    }
    return static_cast<double>(run_) /
           static_cast<double>(std::max<std::int64_t>(1, wanted_ - before_));
  }

  /// Whether somebody stopped it.
  bool run_units(SweepStore& store) {
    const auto claims = claims_of(grid_, options_);
    const auto wanted = [this](std::int64_t unit) { return of_shard(unit) && !is_done(unit); };
    const auto left = (wanted_ - before_ + grid_.unit_size() - 1) / grid_.unit_size();
    const int workers = static_cast<int>(std::min<std::int64_t>(options_.workers, left));
    UnitPool pool({*claims, wanted, runner_, workers});
    ProgressLine progress;
    while (!pool.done()) {
      const auto rows = pool.wait();
      store.add(rows);
      run_ += std::ssize(rows);
      if (options_.stop()) return true;
      const bool shows = !options_.launch || options_.launch->rank == 0;
      if (!shows) continue;
      progress.show(fmt::format("{} of {} scenarios,", run_, wanted_ - before_), part_done(pool),
                    static_cast<double>(run_), "scenarios");
    }
    return false;
  }

  const SweepGrid& grid_;
  const SweepOptions& options_;
  SweepAbout about_;
  UnitRunner runner_;
  std::set<std::int64_t> done_;
  std::int64_t wanted_ = 0, before_ = 0, run_ = 0, again_ = 0;
};

}  // namespace

std::optional<Launch> launch_of_environment() {
  const std::string job = variable("SLURM_JOB_ID"), step = variable("SLURM_STEP_ID");
  // Outside srun there is no step: the script of a job is one process whatever tasks the job may
  // have.
  const std::string of_srun =
      job.empty() || step.empty()
          ? ""
          : fmt::format("slurm-{}.{}.{}", job, step, variable("SLURM_RESTART_COUNT"));
  if (const auto launch =
          launch_by(variable("PMIX_NAMESPACE"), "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")) {
    return launch;
  }
  return launch_by(of_srun, "SLURM_PROCID", "SLURM_STEP_NUM_TASKS");
}

int workers_of(const std::optional<Launch>& launch, int asked) {
  return launch && asked == 0 ? 1 : worker_count(asked);
}

SweepEnd run_sweep(const SweepGrid& grid, const SweepOptions& options) {
  return Sweep(grid, options).run();
}

SweepEnd merge_sweep(const SweepGrid& grid, const std::string& file, const std::string& version) {
  UnitRunner runner(grid, version);
  std::vector<std::string> all = part_files(file), left;
  std::erase_if(all, is_being_written);
  if (is_there(file)) all.push_back(file);
  for (const std::string& each : all) {
    const StaleRows stale = stale_rows(each, grid, runner);
    if (stale.ids.empty()) continue;
    throw stale.error(each, "run what it is of with --again, or remove it; nothing is merged yet");
  }
  {
    const SweepAbout about = about_of(grid);
    SweepStore store(file, about);
    left = merge_parts(file, store, about);
  }
  if (!left.empty()) {
    throw Error(fmt::format("{} is still being written; the other parts are merged", left.front()),
                "merge again when all have ended");
  }
  return end_of(file);
}

}  // namespace moesim
