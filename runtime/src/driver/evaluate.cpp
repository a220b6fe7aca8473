// Metrics of a model over an evaluation set, without training.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "driver/model_files.h"
#include "driver/read_once.h"
#include "driver/same_job.h"
#include "driver/start.h"
#include "driver/validator.h"
#include "meshrt/driver.h"
#include "meshrt/log.h"
#include "meshrt/program.h"
#include "system/tell.h"

namespace meshrt {

namespace {

/// Every digit of the metrics, a line each.
std::string metrics_text(const std::vector<std::string>& names, std::span<const double> metrics) {
  size_t width = 0;
  for (const std::string& name : names) width = std::max(width, name.size());
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) text += fmt::format("{:<{}}  {}\n", names[i], width, metrics[i]);
  return text;
}

}  // namespace

int evaluate(Rank& rank, Program& program, const RunFile& run, const ModelFiles& files, bool json,
             const DriverOptions& options) {
  const ProgramInfo& info = program.info();
  heed_timeout(rank, run);
  check_same_job(rank, info, run);
  prepare(rank, program);
  const std::unique_ptr<ProgressThread> progress = progress_thread(rank);
  Validator validator(program, run, evaluation_set(run));
  const LoadedModel model = load_model(rank, program, run, files);
  if (rank.rank() == 0 && !model.note.empty()) tell("note: {}\n", model.note);

  const auto start = std::chrono::steady_clock::now();
  std::vector<double> metrics(info.metrics.size());
  const Moment& moment = model.moment;
  validator.run({.step = moment.step, .steps = moment.steps, .seed = moment.seed}, metrics);
  const auto bad = std::ranges::find_if_not(metrics, [](double metric) { return std::isfinite(metric); });
  const bool told = bad != metrics.end() && run.log.nonfinite != Nonfinite::ignore;
  const int code = told && run.log.nonfinite == Nonfinite::stop ? exit_code(Cause::numeric) : 0;
  if (rank.rank() != 0) return code;
  if (told)
    tell("{}: `{}` is {}; `log.nonfinite=ignore` takes it as it is\n", code == 0 ? "warning" : "error",
         info.metrics[static_cast<size_t>(bad - metrics.begin())], *bad);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  if (json) {
    nlohmann::ordered_json named = nlohmann::ordered_json::object();
    for (size_t i = 0; i < metrics.size(); ++i) named[info.metrics[i]] = metrics[i];
    const nlohmann::ordered_json object = {{"schema", 1},
                                           {"metrics", named},
                                           {"section", validator.section()},
                                           {"samples", validator.samples()},
                                           {"batches", validator.count()},
                                           {"params", model.from},
                                           {"step", moment.step},
                                           {"seconds", seconds.count()}};
    tell_on(options.out, "{}\n", object.dump(2));
    return code;
  }
  tell_on(options.out, "{}{}{} batch{} of `{}` in {:.1f} s{}\n", metrics_text(info.metrics, metrics),
          validator.samples() > 0 ? fmt::format("{} samples, ", grouped(validator.samples())) : "",
          grouped(validator.count()), validator.count() == 1 ? "" : "es", validator.section(), seconds.count(),
          origin_text(model));
  return code;
}

}  // namespace meshrt
