#include "report/summary.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

#include "meshrt/collectives.h"
#include "meshrt/log.h"
#include "report/gather.h"
#include "report/memory_use.h"
#include "system/host_name.h"
#include "transport/transport.h"

namespace meshrt {

namespace {

using Json = nlohmann::ordered_json;

std::string time_text(double seconds) {
  return seconds >= 1      ? fmt::format("{:.2f} s", seconds)
         : seconds >= 1e-3 ? fmt::format("{:.2f} ms", seconds * 1e3)
                           : fmt::format("{:.0f} us", seconds * 1e6);
}

/// Bytes of each rank: its two blocks, and its share of what else its process has for itself, but for `copies` of each
/// rank. Ranks that are threads have one process together.
std::vector<int64_t> memory_of_ranks(Rank& rank, const MemoryUse& use, int64_t copies) {
  const int64_t arena = resident(rank.arena(), rank.arena_bytes()), own = resident(rank.own(), rank.own_bytes());
  const Json here = {{"process", fmt::format("{} of {}", getpid(), host_name())},
                     {"blocks", arena + own},
                     {"private", copies + (rank.transport().shares_arenas() ? own : arena + own)},
                     {"all", use.own}};
  std::vector<Json> ranks;
  struct Process {
    int64_t blocks = 0, ranks = 0;
  };
  std::map<std::string, Process> processes;
  for (const std::string& text : gather_texts(rank, "memory", here.dump())) {
    ranks.push_back(Json::parse(text));
    Process& process = processes[ranks.back()["process"]];
    process.blocks += ranks.back()["private"].get<int64_t>();
    ++process.ranks;
  }
  std::vector<int64_t> bytes;
  for (const Json& one : ranks) {
    const Process& process = processes[one["process"]];
    const int64_t beside = std::max<int64_t>(0, one["all"].get<int64_t>() - process.blocks);
    bytes.push_back(one["blocks"].get<int64_t>() + beside / process.ranks);
  }
  return bytes;
}

}  // namespace

std::optional<Predicted> read_prediction(const std::string& plan_json) {
  const Json plan = Json::parse(plan_json, nullptr, false);
  if (!plan.is_object() || !plan.contains("predicted_seconds") || !plan.contains("communication_bytes"))
    return std::nullopt;
  Predicted predicted;
  predicted.seconds = plan["predicted_seconds"].get<double>();
  predicted.memory = plan["memory"].value("peak", int64_t{0});
  predicted.sent = plan["communication_bytes"].get<int64_t>();
  return predicted;
}

Measured most_of_all(Rank& rank, double seconds, int64_t sent, int64_t copies) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const MemoryUse use = memory_use();
  const std::vector<int64_t> of_ranks = memory_of_ranks(rank, use, copies);
  std::array numbers = {seconds,
                        static_cast<double>(sent),
                        static_cast<double>(of_ranks[static_cast<size_t>(rank.rank())]),
                        static_cast<double>(use.libraries),
                        static_cast<double>(use.files),
                        static_cast<double>(copies),
                        static_cast<double>(usage.ru_maxrss) * 1024};
  all_reduce(rank, world(rank), {-1, "summary"}, numbers.data(), numbers.size(), Type::f64, Reduce::max);
  const auto bytes = [&](size_t i) { return static_cast<int64_t>(numbers[i]); };
  return {numbers[0], bytes(1), bytes(2), bytes(3), bytes(4), bytes(5), bytes(6), of_ranks};
}

std::string summary_text(const std::optional<Predicted>& predicted, const Measured& measured) {
  const auto pair = [&](const char* what, const std::string& before, const std::string& after) {
    return predicted ? fmt::format("{} {} predicted, {} measured", what, before, after)
                     : fmt::format("{} {}", what, after);
  };
  const Predicted p = predicted.value_or(Predicted{});
  const std::string copies =
      measured.copies > 0 ? fmt::format(", {} of copies for checkpoints", bytes_text(measured.copies)) : "";
  return fmt::format("{}; {}; {}, beside {} of libraries{} and {} of files",
                     pair("a step", time_text(p.seconds), time_text(measured.seconds)),
                     pair("sent by a rank", bytes_text(p.sent), bytes_text(measured.sent)),
                     pair("memory of a rank", bytes_text(p.memory), bytes_text(measured.memory)),
                     bytes_text(measured.libraries), copies, bytes_text(measured.files));
}

std::string summary_json(const std::optional<Predicted>& predicted, const Measured& measured,
                         const std::vector<TopLine>& lines, const ProgramInfo& info) {
  Json summary = {{"schema", 1}, {"program", info.name}, {"spec_hash", info.spec_hash}, {"machine", info.machine}};
  const auto numbers = [](const auto& of) {
    return Json{{"seconds_per_step", of.seconds}, {"bytes_sent_per_step", of.sent}, {"memory_bytes", of.memory}};
  };
  if (predicted) summary["predicted"] = numbers(*predicted);
  summary["measured"] = numbers(measured);
  summary["measured"]["libraries_bytes"] = measured.libraries;
  summary["measured"]["files_bytes"] = measured.files;
  summary["measured"]["checkpoint_copies_bytes"] = measured.copies;
  summary["measured"]["resident_bytes"] = measured.resident;
  summary["measured"]["memory_bytes_of_ranks"] = measured.memory_of_ranks;
  for (const TopLine& line : lines)
    summary["lines"].push_back({{"file", line.place.substr(0, line.place.rfind(':'))},
                                {"line", std::stoi(line.place.substr(line.place.rfind(':') + 1))},
                                {"value", value_named_by(line.text)},
                                {"text", line.text},
                                {"seconds_per_step", line.per_step.seconds},
                                {"share", line.share},
                                {"products", line.per_step.products},
                                {"attention", line.per_step.attention},
                                {"collectives", line.per_step.collectives},
                                {"waiting", line.per_step.waiting}});
  return summary.dump(2) + "\n";
}

}  // namespace meshrt
