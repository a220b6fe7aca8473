#include "report/flight_recorder.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstring>
#include <exception>
#include <filesystem>
#include <string_view>
#include <vector>

#include "report/flight_place.h"
#include "system/descriptor.h"

namespace meshrt {

namespace {

int64_t now() {
  const auto time = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
}

template <size_t room>
void copy_text(char (&to)[room], const std::string& text) {
  std::strncpy(to, text.c_str(), room - 1);
}

FlightFile* map_file(const std::string& path) {
  const Descriptor file = make_flight_file(path, sizeof(FlightFile));
  if (file.get() < 0) return nullptr;
  void* memory = mmap(nullptr, sizeof(FlightFile), PROT_READ | PROT_WRITE, MAP_SHARED, file.get(), 0);
  return memory == MAP_FAILED ? nullptr : static_cast<FlightFile*>(memory);
}

}  // namespace

std::string flight_path(const std::string& folder, int rank) {
  return (std::filesystem::path(folder) / "flight" / fmt::format("rank-{:04}", rank)).string();
}

void drop_further_flights(const std::string& folder, int ranks) {
  namespace fs = std::filesystem;
  std::vector<std::string> further;
  std::error_code ignored;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(fs::path(flight_path(folder, 0)).parent_path(), ignored)) {
    const std::string name = entry.path().filename().string();
    constexpr std::string_view prefix = "rank-";
    if (!name.starts_with(prefix)) continue;
    int rank = 0;
    const char *begin = name.data() + prefix.size(), *end = name.data() + name.size();
    if (std::from_chars(begin, end, rank).ptr == end && begin != end && rank >= ranks)
      further.push_back(entry.path().string());
  }
  for (const std::string& path : further) drop_flight(path);
}

FlightRecorder*& FlightRecorder::current() {
  static thread_local FlightRecorder* recorder = nullptr;
  return recorder;
}

FlightRecorder::FlightRecorder(const std::string& folder, int rank, int ranks, const ProgramInfo& info)
    : before_(current()) {
  current() = this;
  if (folder.empty()) return;
  const std::string path = flight_path(folder, rank);
  file_ = map_file(path);
  if (!file_) return;
  path_ = std::filesystem::absolute(path).string();
  file_->rank = rank;
  file_->ranks = ranks;
  file_->pid = getpid();
  gethostname(file_->host, sizeof file_->host - 1);
  copy_text(file_->program, info.name);
  file_->sites = static_cast<int32_t>(std::min(info.sites.size(), flight_sites));
  for (int32_t s = 0; s < file_->sites; ++s)
    copy_text(file_->site[s],
              info.sites[s].line > 0 ? fmt::format("{}:{}", info.sites[s].file, info.sites[s].line) : "");
  std::memcpy(file_->magic, flight_magic, sizeof file_->magic);
}

FlightRecorder::~FlightRecorder() {
  current() = before_;
  if (!file_) return;
  const bool in_order = file_->finished.load(std::memory_order_relaxed) == 1;
  munmap(file_, sizeof *file_);
  // Where the disk is full, only what may explain a failure stays in memory.
  if (!bring_flight_home(path_) && in_order) drop_flight(path_);
}

FlightCall* FlightRecorder::begin(const Call& call, bool started) {
  if (!file_) return nullptr;
  FlightCall& place = file_->calls[calls_ % flight_calls];
  place.number.store(0, std::memory_order_release);
  place.begun.store(now(), std::memory_order_relaxed);
  place.ended.store(0, std::memory_order_relaxed);
  place.step = file_->step.load(std::memory_order_relaxed);
  place.count = call.count();
  place.group = static_cast<uint32_t>(call.members);
  place.site = call.site.id;
  place.micro_batch = call.message.micro_batch;
  place.peer = call.to >= 0 ? call.message.peer : -1 - call.message.peer;
  place.kind = call.kind;
  place.started = started ? 1 : 0;
  place.type = call.type;
  place.reduce = call.reduce;
  copy_text(place.value, call.site.value);
  place.number.store(++calls_, std::memory_order_release);
  return &place;
}

void FlightRecorder::end(FlightCall* call) {
  if (call) call->ended.store(now(), std::memory_order_release);
}

void FlightRecorder::finish(const std::string& failure) {
  if (!file_) return;
  copy_text(file_->failure, failure);
  file_->finished.store(failure.empty() ? 1 : 2, std::memory_order_release);
}

}  // namespace meshrt
