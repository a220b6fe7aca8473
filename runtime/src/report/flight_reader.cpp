#include "report/flight_reader.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <map>

#include "meshrt/failure.h"
#include "meshrt/pipeline.h"
#include "report/flight_place.h"
#include "report/flight_recorder.h"
#include "system/descriptor.h"
#include "system/host_name.h"
#include "transport/fingerprint.h"

namespace meshrt {

namespace {

namespace fs = std::filesystem;

constexpr size_t shown_calls = 3;  // of each rank

template <size_t room>
std::string text_of(const char (&from)[room]) {
  return {from, strnlen(from, room)};
}

std::string describe(const FlightFile& file, const FlightCall& call) {
  Fingerprint print;
  print.kind = call.kind;
  print.type = call.type;
  print.reduce = call.reduce;
  print.count = call.count;
  const bool sends = call.peer >= 0;
  if (call.kind == Kind::message) {
    MessageShape message;
    message.sends = sends;
    message.micro_batch = call.micro_batch;
    print.shape = message.word();
  }
  std::string text = describe(print, text_of(call.value).c_str());
  if (call.kind == Kind::message)
    text += sends ? fmt::format(" to rank {}", call.peer) : fmt::format(" from rank {}", -1 - call.peer);
  if (call.site >= 0 && call.site < std::min<int32_t>(file.sites, flight_sites))
    if (const std::string line = text_of(file.site[call.site]); !line.empty()) text += " at " + line;
  return text;
}

bool is_known(const FlightCall& call) {
  const int64_t begun = call.begun.load(), ended = call.ended.load();
  return call.kind <= Kind::barrier && call.type <= Type::boolean && call.reduce <= Reduce::min && begun >= 0 &&
         (ended == 0 || ended >= begun);
}

std::string clock_time(int64_t nanoseconds) {
  const auto seconds = static_cast<std::time_t>(nanoseconds / 1'000'000'000);
  return fmt::format("{:%H:%M:%S}.{:03}", fmt::localtime(seconds), nanoseconds / 1'000'000 % 1000);
}

/// Recorders of ranks that are gone are moved to where they belong: their launcher was killed too.
void bring_home_if_over(const std::string& path, const Flight& flight) {
  if (flight.host == host_name() && kill(flight.pid, 0) != 0 && errno == ESRCH) bring_flight_home(path);
}

std::vector<Flight> read_flights(const std::string& folder, std::vector<std::string>& elsewhere) {
  std::vector<std::string> paths;
  std::error_code ignored;
  for (const fs::path& place : {fs::path(folder) / "flight", fs::path(folder)})
    for (const fs::directory_entry& entry : fs::directory_iterator(place, ignored))
      if (entry.path().filename().string().starts_with("rank-") && !entry.path().has_extension() &&
          paths.size() < 100'000)
        paths.push_back(entry.path().string());
  std::vector<Flight> flights;
  for (const std::string& path : paths) {
    if (auto flight = read_flight(path)) {
      bring_home_if_over(path, *flight);
      flights.push_back(std::move(*flight));
    } else if (const std::string memory = flight_elsewhere(path); !memory.empty()) {
      elsewhere.push_back(memory);
    }
  }
  std::ranges::sort(flights, {}, &Flight::rank);
  return flights;
}

/// The call that a rank waits in: one that it has started before, or the last.
std::string awaited_call(const std::vector<RecordedCall>& calls, uint64_t awaited) {
  const auto started = std::ranges::find(calls, awaited, &RecordedCall::number);
  if (awaited != 0 && started != calls.end() && started->ended == 0) return started->text;
  return !calls.empty() && calls.back().ended == 0 && !calls.back().started ? calls.back().text : "";
}

/// "in send of micro-batch 3 of 'x' (10 x f32) to rank 1", "after all_reduce of ..."
std::string place_of(const Flight& flight) {
  if (!flight.awaited.empty()) return "in " + flight.awaited;
  const RecordedCall& last = flight.calls.back();
  return (last.started && last.ended == 0 ? "after the start of " : "after ") + last.text;
}

std::string names_of(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

/// Who was where, in a sentence or two.
std::string verdict(const std::vector<Flight>& flights) {
  std::vector<int> finished, failed, missing, elsewhere;
  std::map<std::string, std::vector<int>> waiting;
  for (int rank = 0; rank < flights.front().ranks; ++rank)
    if (std::ranges::find(flights, rank, &Flight::rank) == flights.end()) missing.push_back(rank);
  for (const Flight& flight : flights) {
    if (flight.finished) finished.push_back(flight.rank);
    else if (!flight.failure.empty()) failed.push_back(flight.rank);
    else if (!flight.awaited.empty()) waiting[flight.awaited].push_back(flight.rank);
    else elsewhere.push_back(flight.rank);
  }
  if (finished.size() == flights.size() && missing.empty()) return "every rank has ended in order";
  std::vector<std::string> sentences;
  for (const Flight& flight : flights)
    if (!flight.failure.empty() && !flight.finished)
      sentences.push_back(fmt::format("rank {} failed: {}", flight.rank, flight.failure));
  if (!elsewhere.empty())
    sentences.push_back(fmt::format("{} ended without a word, outside of any call{}", names_of(elsewhere),
                                    waiting.empty() ? "" : ", while others waited: look there first"));
  for (const auto& [call, ranks] : waiting) sentences.push_back(fmt::format("{} ended in {}", names_of(ranks), call));
  if (!missing.empty()) sentences.push_back(fmt::format("of {} there is no record", names_of(missing)));
  return fmt::format("{}", fmt::join(sentences, "\n"));
}

}  // namespace

std::optional<Flight> read_flight(const std::string& path) {
  // The path may be what somebody has made up: no device, no pipe, nothing large.
  const Descriptor opened(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat status {};
  std::string bytes(sizeof(FlightFile), '\0');
  if (opened.get() < 0 || fstat(opened.get(), &status) != 0 || !S_ISREG(status.st_mode) ||
      status.st_size != sizeof(FlightFile) || pread(opened.get(), bytes.data(), bytes.size(), 0) != status.st_size ||
      std::memcmp(bytes.data(), flight_magic, sizeof(FlightFile::magic)) != 0)
    return std::nullopt;
  const auto storage = std::make_unique<std::byte[]>(sizeof(FlightFile) + alignof(FlightFile));
  std::memcpy(storage.get(), bytes.data(), bytes.size());
  const auto& file = *reinterpret_cast<const FlightFile*>(storage.get());
  Flight flight;
  flight.rank = file.rank;
  flight.ranks = std::clamp(file.ranks, 0, 1'000'000);
  flight.pid = file.pid;
  flight.host = text_of(file.host);
  flight.program = text_of(file.program);
  flight.failure = text_of(file.failure);
  flight.step = file.step.load();
  flight.finished = file.finished.load() == 1;
  for (const FlightCall& call : file.calls)
    if (call.number.load() != 0 && is_known(call))
      flight.calls.push_back({call.number.load(), call.begun.load(), call.ended.load(), call.step, call.started != 0,
                              describe(file, call)});
  std::ranges::sort(flight.calls, {}, &RecordedCall::number);
  flight.action = action_text(file.action.load());
  flight.awaited = awaited_call(flight.calls, file.awaited.load());
  return flight;
}

std::string last_words(const Flight& flight) {
  const std::string action = flight.action.empty() ? "" : fmt::format(", at {} of its row", flight.action);
  const std::string place = flight.calls.empty() ? "" : ", " + place_of(flight);
  if (flight.step == 0 && place.empty()) return "";
  return fmt::format("it was in step {}{}{}", flight.step, action, place);
}

std::string whereabouts(const std::vector<Flight>& flights) {
  std::map<std::string, std::vector<int>> places;
  for (const Flight& flight : flights)
    if (!flight.calls.empty())
      places[fmt::format("in step {}{} {}", flight.step, flight.action.empty() ? "" : " at " + flight.action,
                         place_of(flight))]
          .push_back(flight.rank);
  std::vector<std::string> parts;
  parts.reserve(places.size());
  for (const auto& [place, ranks] : places)
    parts.push_back(fmt::format("{} {} {}", names_of(ranks), ranks.size() == 1 ? "is" : "are", place));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string folder_of_recorder(const std::string& path) {
  return std::filesystem::path(path).parent_path().parent_path().string();
}

std::string postmortem(const std::string& folder) {
  std::vector<std::string> elsewhere;
  const std::vector<Flight> flights = read_flights(folder, elsewhere);
  std::ranges::sort(elsewhere);
  const std::string others =
      elsewhere.empty() ? "" : fmt::format("in the memory of their hosts are {}", fmt::join(elsewhere, ", "));
  if (flights.empty() && !others.empty())
    throw Failure(Cause::data, fmt::format("the flight recorders of `{}` are not here: {}", folder, others));
  if (flights.empty())
    throw Failure(Cause::data, fmt::format("`{}` holds no flight recorders: it is not the folder of a run (`meshrun "
                                           "postmortem runs/NAME-0001`)",
                                           folder));
  std::string text = verdict(flights) + "\n" + (others.empty() ? "" : others + "\n");
  for (const Flight& flight : flights) {
    text += fmt::format("\nrank {} (pid {} on {}), step {}: {}\n", flight.rank, flight.pid, flight.host, flight.step,
                        flight.finished          ? "ended in order"
                        : flight.failure.empty() ? "ended without a word"
                                                 : "failed");
    const size_t first = flight.calls.size() - std::min(shown_calls, flight.calls.size());
    for (size_t i = first; i < flight.calls.size(); ++i) {
      const RecordedCall& call = flight.calls[i];
      text += fmt::format("  {}  step {}  {}  {}\n", clock_time(call.begun), call.step, call.text,
                          call.ended == 0 ? "never done" : fmt::format("{} us", (call.ended - call.begun) / 1000));
    }
  }
  return text;
}

}  // namespace meshrt
