// SPDX-License-Identifier: Apache-2.0
// Values, errors and deaths of workers as the parent sees them.
#include "sim/run/workers.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "sim/base/processes.h"
#include "sim/base/unsuitable.h"
#include "tests/run/terminal.h"

namespace moesim {
namespace {

using testing::ThrowsMessage;

struct Answer {
  int job = 0;
  std::vector<std::string> words;
  bool operator==(const Answer&) const = default;
};
using AnswerJob = WorkerJob<Answer>;

AnswerJob job_that(std::string name, const std::function<Answer()>& run) {
  return {std::move(name), [run](const JobProgress&) { return run(); }};
}

void sleep_for(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

AnswerJob killed_job(const std::string& name, int after) {
  return job_that(name, [after]() -> Answer {
    sleep_for(after);
    ::raise(SIGKILL);
    return {};
  });
}

/// What is thrown, with its type.
template <class Thrown>
std::vector<Diagnostic> diagnostics_of(const std::vector<AnswerJob>& jobs) {
  try {
    run_jobs(jobs, 2);
  } catch (const Thrown& e) {
    EXPECT_EQ(typeid(e), typeid(Thrown));
    return e.diagnostics();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

TEST(Workers, GiveResultsInJobOrderHoweverManyTheyAre) {
  std::vector<AnswerJob> jobs;
  std::vector<Answer> expected;
  for (int i = 0; i < 7; ++i) {
    expected.push_back({i, {"word", std::string(static_cast<std::size_t>(i) * 100'000, 'x')}});
    jobs.push_back(job_that("job", [i, answer = expected.back()] {
      sleep_for(3 * (7 - i));  // the last is through first
      return answer;
    }));
  }
  for (const int workers : {0, 1, 2, 3, 7, 20}) EXPECT_EQ(run_jobs(jobs, workers), expected);
  EXPECT_EQ(run_jobs(std::vector<AnswerJob>{}, 2), std::vector<Answer>{});
}

TEST(Workers, MayReportAsManyStepsAsTheyLike) {
  const AnswerJob job{"job", [](const JobProgress& progress) {
                        for (int i = 0; i < 10'000; ++i) progress(i, 10'000);
                        return Answer{1, {"done"}};
                      }};
  EXPECT_EQ(run_jobs(std::vector{job}, 1), (std::vector<Answer>{{1, {"done"}}}));
}

TEST(Workers, ShowTheirStepsOnATerminal) {
  const auto stepping = [](int milliseconds) {
    return [=](const JobProgress& progress) {
      for (int i = 1; i <= 2; ++i) sleep_for(milliseconds), progress(i, 2);
      return Answer{};
    };
  };
  const std::vector<AnswerJob> quick = {{"pair dedup", stepping(0)}};
  EXPECT_EQ(on_a_terminal([&] { run_jobs(quick, 1); }), "");
  const std::vector<AnswerJob> jobs = {{"pair dedup", stepping(1050)},
                                       {"pair alltoall", stepping(0)}};
  EXPECT_THAT(on_a_terminal([&] { run_jobs(jobs, 1); }),
              testing::MatchesRegex("\r.\\[K.1/2. pair dedup: step 2 of 2; 50 %, 0.9. steps/s, 3 s "
                                    "left\r.*\\[K"));
  EXPECT_EQ(on_a_terminal([] {}), "");
}

TEST(Workers, TellOfResultsAsTheyCome) {
  const std::vector<AnswerJob> jobs = {job_that("slow",
                                                [] {
                                                  return sleep_for(200), Answer{1, {"slow"}};
                                                }),
                                       job_that("fast", [] {
                                         return Answer{2, {"fast"}};
                                       })};
  std::vector<std::pair<std::size_t, Answer>> told;
  JobEvents<Answer> events;
  events.finished = [&](std::size_t job, const Answer& answer) { told.emplace_back(job, answer); };
  const JobResults<Answer> all = run_jobs(jobs, 2, events);
  EXPECT_EQ(all.signal, 0);
  EXPECT_THAT(all.results, testing::ElementsAre(Answer{1, {"slow"}}, Answer{2, {"fast"}}));
  EXPECT_THAT(told, testing::ElementsAre(std::pair(1u, Answer{2, {"fast"}}),
                                         std::pair(0u, Answer{1, {"slow"}})));
  events.finished = [](std::size_t, const Answer&) { throw std::runtime_error("enough"); };
  EXPECT_THAT([&] { run_jobs(jobs, 2, events); }, ThrowsMessage<std::runtime_error>("enough"));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
}

TEST(Workers, ProgressAndNotesAreHeardBeforeTheEnd) {
  const auto says = [](const JobProgress& progress) {
    progress.note("likely to take 1 s");
    progress(1, 4);
    return Answer{1, {"done"}};
  };
  std::vector<double> done;
  std::vector<std::string> notes;
  JobEvents<Answer> events;
  events.heard.progress = [&](double all) { done.push_back(all); };
  events.heard.note = [&](const std::string& job, const std::string& text) {
    notes.push_back(job + ": " + text);
  };
  run_jobs(std::vector<AnswerJob>{{"first", says}, {"second", says}}, 1, events);
  EXPECT_THAT(done,
              testing::ElementsAre(0.125, 0.625));  // a quarter of one, then one and a quarter
  EXPECT_THAT(notes,
              testing::ElementsAre("first: likely to take 1 s", "second: likely to take 1 s"));
}

TEST(Workers, OfNoStepsHaveDoneNothing) {
  const auto says = [](const JobProgress& progress) { return progress(0, 0), Answer{}; };
  std::vector<double> done;
  JobEvents<Answer> events;
  events.heard.progress = [&](double all) { done.push_back(all); };
  run_jobs(std::vector<AnswerJob>{{"job", says}}, 1, events);
  EXPECT_THAT(done, testing::ElementsAre(0));
}

TEST(Workers, OfOneStepAreAsFarAsTheirPart) {
  const auto says = [](const JobProgress& progress) {
    progress(0.25, 1);
    progress(1, 1);
    return Answer{};
  };
  std::vector<double> done;
  JobEvents<Answer> events;
  events.heard.progress = [&](double all) { done.push_back(all); };
  run_jobs(std::vector<AnswerJob>{{"job", says}}, 1, events);
  EXPECT_THAT(done, testing::ElementsAre(0.25, 1));
}

/// Signals its parent when the job before it is done, and would continue for ever.
std::vector<AnswerJob> signalling_jobs(int signal) {
  return {job_that("quick",
                   [] {
                     return Answer{1, {"done"}};
                   }),
          job_that("endless",
                   [signal]() -> Answer {
                     ::raise(signal);  // as a terminal would; workers leave it to their parent
                     ::kill(::getppid(), signal);
                     while (true) sleep_for(1000);
                   }),
          job_that("never", [] { return Answer{}; })};
}

TEST(Workers, KeepWhatIsDoneAfterASignal) {
  for (const int signal : {SIGINT, SIGTERM}) {
    struct sigaction before = {}, after = {};
    ::sigaction(signal, nullptr, &before);
    const JobResults<Answer> all = run_jobs(signalling_jobs(signal), 1, JobEvents<Answer>());
    EXPECT_EQ(all.signal, signal);
    EXPECT_THAT(all.results, testing::ElementsAre(Answer{1, {"done"}}, std::nullopt, std::nullopt));
    EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
    ::sigaction(signal, nullptr, &after);
    EXPECT_EQ(after.sa_handler, before.sa_handler);
  }
  EXPECT_THROW(run_jobs(signalling_jobs(SIGINT), 1), Interrupted);
  const auto quick = job_that("quick", [] { return Answer{1, {"done"}}; });
  EXPECT_EQ(run_jobs(std::vector{quick}, 1).size(), 1u);  // nothing of it is left
}

const std::vector<Diagnostic> two_places = {
    {Severity::error, "a.yaml", 3, 7, "no such key", "  keey: 1", "did you mean 'key'?"},
    {Severity::warning, "b.npy", 0, 0, "is empty", "", ""}};

TEST(Workers, HandErrorsOverWithFileAndLine) {
  const auto told =
      diagnostics_of<Error>({job_that("pair dedup", []() -> Answer { throw Error(two_places); })});
  std::vector<Diagnostic> expected = two_places;
  expected[0].message = "pair dedup: no such key";
  ASSERT_EQ(told.size(), 2u);
  for (std::size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(told[i].str(), expected[i].str());
    EXPECT_EQ(told[i].severity, expected[i].severity);
    EXPECT_EQ(told[i].file, expected[i].file);
    EXPECT_EQ(told[i].line, expected[i].line);
    EXPECT_EQ(told[i].column, expected[i].column);
    EXPECT_EQ(told[i].source_line, expected[i].source_line);
    EXPECT_EQ(told[i].hint, expected[i].hint);
  }
}

TEST(Workers, HandOverWhatIsUnsuitableAsThat) {
  const auto told = diagnostics_of<Unsuitable>(
      {job_that("pair dedup", []() -> Answer { throw Unsuitable("too many GPUs", "fewer"); })});
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0].message, "pair dedup: too many GPUs");
  EXPECT_EQ(told[0].hint, "fewer");
}

TEST(Workers, FailWithTheirNameAndMessage) {
  const auto failing = job_that("pair dedup", []() -> Answer { throw std::logic_error("lost"); });
  EXPECT_THAT([&] { run_jobs(std::vector{failing}, 1); },
              ThrowsMessage<std::runtime_error>("pair dedup: lost"));
}

TEST(Workers, FailAsTheFirstInJobOrderDoes) {
  const std::vector<AnswerJob> jobs = {
      job_that("fine", [] { return Answer{}; }),
      job_that("slow", []() -> Answer { sleep_for(50), throw Error("first in order"); }),
      job_that("fast", []() -> Answer { throw std::runtime_error("first in time"); })};
  EXPECT_THAT([&] { run_jobs(jobs, 3); }, ThrowsMessage<Error>("error: slow: first in order\n"));
}

TEST(Workers, ThatAreKilledEndTheOthers) {
  const auto endless = job_that("endless", []() -> Answer {
    while (true) sleep_for(1000);
  });
  const auto start = std::chrono::steady_clock::now();
  EXPECT_THAT(
      [&] {
        run_jobs(std::vector{endless, killed_job("short", 20)}, 2);
      },
      ThrowsMessage<std::runtime_error>(
          "short: the worker was killed by signal 9, as the kernel does if memory runs out"));
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_EQ(::waitpid(-1, nullptr, WNOHANG), -1);
  EXPECT_EQ(errno, ECHILD);
}

TEST(Workers, ThatEndBeforeTheyAreThroughAreNoticed) {
  for (const int status : {0, 3}) {
    const auto ending = job_that("early", [status]() -> Answer { ::_exit(status); });
    EXPECT_THAT([&] { run_jobs(std::vector{ending}, 1); },
                ThrowsMessage<std::runtime_error>(fmt::format(
                    "early: the worker ended with status {} and without a result", status)));
  }
}

}  // namespace
}  // namespace moesim
