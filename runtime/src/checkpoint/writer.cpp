#include "checkpoint/writer.h"

#include <fmt/format.h>
#include <sched.h>
#include <sys/stat.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include "checkpoint/output_file.h"
#include "meshrt/failure.h"
#include "meshrt/threads.h"
#include "report/gather.h"
#include "system/seconds_since.h"
#include "transport/transport.h"

namespace meshrt {
namespace {

constexpr int64_t bytes_of_a_thread = int64_t(1) << 18;  // that are copied while another thread wakes

}  // namespace

void Background::start(std::function<void()> work) {
  join();
  error_.clear();
  running_.store(true, std::memory_order_relaxed);
  thread_ = std::thread([this, work = std::move(work)] {
    // The rank's thread may be kept on one core, which it needs for itself.
    cpu_set_t any;
    std::memset(&any, 0xff, sizeof any);
    sched_setaffinity(0, sizeof any, &any);
    try {
      work();
    } catch (const std::exception& error) {
      error_ = error.what();
    }
    running_.store(false, std::memory_order_release);
  });
}

void Background::join() {
  if (thread_.joinable()) thread_.join();
}

bool is_saved(const Tensor& tensor) {
  return tensor.role == Role::parameter || tensor.role == Role::optimizer || tensor.role == Role::state;
}

void sum_over_ranks(Rank& rank, Site site, std::span<uint64_t> hashes) {
  // Halves, so that sums of signed numbers stay far from their ends.
  std::vector<int64_t> halves;
  for (const uint64_t hash : hashes)
    halves.insert(halves.end(), {static_cast<int64_t>(hash & 0xffffffff), static_cast<int64_t>(hash >> 32)});
  all_reduce(rank, world(rank), site, halves.data(), static_cast<int64_t>(halves.size()), Type::i64, Reduce::sum);
  for (size_t i = 0; i < hashes.size(); ++i)
    hashes[i] = static_cast<uint64_t>(halves[2 * i]) + (static_cast<uint64_t>(halves[2 * i + 1]) << 32);
}

CheckpointWriter::CheckpointWriter(Rank& rank, const ProgramInfo& info, std::span<const Tensor> tensors,
                                   Options options)
    : rank_(rank), info_(info), options_(std::move(options)), folder_(options_.folder, options_.run) {
  size_t copied = 0;
  for (const Tensor& tensor : tensors) {
    if (!is_saved(tensor)) continue;
    const Share share = share_of(tensor, info.mesh, rank.rank());
    if (share.count() > 0) pieces_.push_back({&tensor, shapes_.size(), share, copied});
    copied += static_cast<size_t>(share.count()) * size_of(tensor.type);
    copied = (copied + 63) / 64 * 64;
    shapes_.push_back({tensor.name, tensor.type, sizes_of(tensor), tensor.role == Role::optimizer});
    for (const LocalDim& dim : tensor.dims) dims_[tensor.name].push_back(dim.name);
  }
  plan_ = plan_files(shapes_, options_.file_bytes);
  if (!options_.asynchronous) return;
  const size_t here = rank.transport().placement().neighbours(rank.rank()).size();
  require_memory(round_to_huge(copied) * here,
                 "the copies of an asynchronous checkpoint (`checkpoint.async=false` does without them)");
  barrier(rank, world(rank), checkpoint_site);  // what a neighbour takes now was counted
  copy_ = Mapping(copied, -1);
  touch(copy_.data(), copy_.bytes());
}

const std::byte* CheckpointWriter::numbers(const Piece& piece) const {
  if (options_.asynchronous) return copy_.data() + piece.copy;
  const auto* data = static_cast<const std::byte*>(piece.tensor->data);
  return data + static_cast<size_t>(piece.share.first) * size_of(piece.tensor->type);
}

void CheckpointWriter::begin(const Moment& moment, const Course& course, bool best) {
  moment_ = moment;
  course_ = course;
  best_ = best;
  started_ = std::chrono::steady_clock::now();
  if (options_.asynchronous)
    for (const Piece& piece : pieces_) {
      const size_t size = size_of(piece.tensor->type);
      const auto* from =
          static_cast<const std::byte*>(piece.tensor->data) + static_cast<size_t>(piece.share.first) * size;
      share(piece.share.count() * static_cast<int64_t>(size), bytes_of_a_thread, [&](int64_t begin, int64_t end) {
        std::memcpy(copy_.data() + piece.copy + begin, from + begin, static_cast<size_t>(end - begin));
      });
    }
  work(Stage::making);
}

// Goes on to `stage`, on a thread of its own.
void CheckpointWriter::work(Stage stage) {
  stage_ = stage;
  background_.start([this, stage] {
    const bool first = rank_.rank() == 0;
    if (stage == Stage::making && first) make_files();
    if (stage == Stage::writing) write_share();
    if (stage == Stage::publishing && first) publish();
  });
}

// By one rank alone: others that made what they do not find would write where nobody reads, or what another run has
// taken away.
void CheckpointWriter::make_files() const {
  const std::filesystem::path folder = folder_.unfinished(moment_.step);
  if (mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
    throw Failure(Cause::environment, fmt::format("cannot write `{}`: {}", folder.string(), std::strerror(errno)));
  for (const FilePlan::File& planned : plan_.files) {
    OutputFile file((folder / planned.name).string());
    file.reserve(planned.bytes);
    file.write(0, std::as_bytes(std::span(planned.head)));
    file.sync();
  }
}

void CheckpointWriter::write_share() {
  folder_.require_unfinished(moment_.step);
  const std::filesystem::path folder = folder_.unfinished(moment_.step);
  std::vector<std::optional<OutputFile>> files(plan_.files.size());
  hashes_.assign(shapes_.size(), 0);
  for (const Piece& piece : pieces_) {
    const auto size = static_cast<int64_t>(size_of(piece.tensor->type));
    const std::byte* from = numbers(piece);
    const FilePlan::Place& place = plan_.places[piece.index];
    std::optional<OutputFile>& file = files[place.file];
    if (!file) file.emplace((folder / plan_.files[place.file].name).string(), OutputFile::Is::there);
    uint64_t& hash = hashes_[piece.index];
    for_each_run(extents_of(*piece.tensor), piece.share.first, piece.share.last,
                 [&](int64_t whole, int64_t at, int64_t count) {
                   const std::span run(from + (at - piece.share.first) * size, static_cast<size_t>(count * size));
                   file->write(place.offset + whole * size, run);
                   hash += hash_elements(run, static_cast<size_t>(size), whole);
                 });
  }
  for (auto& file : files)
    if (file) file->sync();
}

void CheckpointWriter::publish() const {
  folder_.require_unfinished(moment_.step);
  Manifest manifest;
  manifest.moment = moment_;
  manifest.order = folder_.next_order();
  manifest.course = course_;
  manifest.program = info_.name;
  manifest.spec = info_.spec;
  manifest.spec_hash = info_.spec_hash;
  manifest.layout = info_.layout;
  manifest.precision = info_.precision;
  manifest.rate = options_.rate;
  manifest.optimizer = info_.optimizer;
  manifest.settings.insert(info_.settings.begin(), info_.settings.end());
  manifest.job = options_.job;
  manifest.data = options_.data;
  manifest.data_files = options_.data_files;
  manifest.dims = dims_;
  for (const MeshAxis& axis : info_.mesh) manifest.mesh.emplace_back(axis.name, axis.size);
  for (const FilePlan::File& file : plan_.files) manifest.files[file.name] = file.bytes;
  for (size_t t = 0; t < shapes_.size(); ++t) manifest.hashes[shapes_[t].name] = hashes_[t];
  const std::filesystem::path folder = folder_.unfinished(moment_.step);
  for (const FilePlan::Index& index : plan_.indexes) write_durably((folder / index.name).string(), index.text);
  write_durably((folder / manifest_name).string(), manifest_text(manifest));
  folder_.publish(moment_.step);
  if (best_) folder_.mark_best(moment_.step);
  if (options_.keep > 0) folder_.keep(options_.keep, moment_.step);
}

std::optional<CheckpointWriter::Outcome> CheckpointWriter::advance() {
  background_.join();
  std::string error = first_error();
  if (error.empty() && stage_ != Stage::publishing) {
    if (stage_ == Stage::writing) sum_over_ranks(rank_, checkpoint_site, hashes_);
    work(stage_ == Stage::making ? Stage::writing : Stage::publishing);
    return std::nullopt;
  }
  if (!error.empty() && rank_.rank() == 0) folder_.abandon(moment_.step);
  stage_ = Stage::idle;
  Outcome outcome{moment_.step, std::move(error), 0, 0};
  for (const FilePlan::File& file : plan_.files) outcome.bytes += file.bytes;
  outcome.seconds = seconds_since(started_);
  return outcome;
}

// The error of the first rank that has one, on every rank.
std::string CheckpointWriter::first_error() {
  constexpr size_t length = 512;
  std::vector<uint8_t> mine(length, 0), all(length * static_cast<size_t>(rank_.ranks()));
  std::memcpy(mine.data(), background_.error().data(), std::min(length - 1, background_.error().size()));
  std::vector<int64_t> begin;
  for (int r = 0; r <= rank_.ranks(); ++r) begin.push_back(r);
  all_gather(rank_, world(rank_), checkpoint_site, mine.data(), all.data(), {1, begin, static_cast<int64_t>(length)},
             Type::u8);
  for (int r = 0; r < rank_.ranks(); ++r)
    if (all[static_cast<size_t>(r) * length] != 0)
      return reinterpret_cast<const char*>(all.data()) + static_cast<size_t>(r) * length;
  return "";
}

}  // namespace meshrt
