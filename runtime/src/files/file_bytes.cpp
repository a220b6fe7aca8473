#include "files/file_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "files/gzip.h"
#include "meshrt/failure.h"
#include "meshrt/output_path.h"
#include "system/descriptor.h"

namespace meshrt {

namespace {

/// Packed files from this size on are unpacked once for all ranks of a host.
constexpr size_t worth_sharing = size_t{1} << 20;

}  // namespace

std::shared_ptr<const FileBytes> FileBytes::open(const std::string& path, Compression compression) {
  const auto fail = [&](const char* why) {
    throw Failure(Cause::data, fmt::format("cannot read `{}`: {}", path, why));
  };
  std::shared_ptr<FileBytes> file(new FileBytes(path));
  const Descriptor descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // a pipe waits for no writer
  if (descriptor.get() < 0) fail(std::strerror(errno));
  struct stat status {};
  if (fstat(descriptor.get(), &status) != 0 || !S_ISREG(status.st_mode))
    fail(S_ISDIR(status.st_mode) ? "it is a folder" : "it is not a regular file");
  file->map(descriptor.get());
  if (compression == Compression::detect && is_gzip(file->bytes_)) file->unpack(descriptor.get());
  return file;
}

void FileBytes::map(int descriptor) {
  struct stat status {};
  fstat(descriptor, &status);
  mapped_ = static_cast<size_t>(status.st_size);
  if (mapped_ > 0) {
    void* mapping = mmap(nullptr, mapped_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    if (mapping == MAP_FAILED)
      throw Failure(Cause::data, fmt::format("cannot read `{}`: {}", path_, std::strerror(errno)));
    mapping_ = mapping;
    told_.emplace(std::span(static_cast<const std::byte*>(mapping), mapped_), path_);
  }
  bytes_ = {static_cast<const std::byte*>(mapping_), mapped_};
}

void FileBytes::unmap() {
  told_.reset();
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
  mapping_ = nullptr;
}

void FileBytes::unpack(int descriptor) {
  if (bytes_.size() >= worth_sharing) shared_ = UnpackedFile::open(path_, descriptor, bytes_);
  if (shared_ == nullptr)
    unpack_gzip(path_, bytes_, [&](std::span<const std::byte> piece) {
      unpacked_.insert(unpacked_.end(), piece.begin(), piece.end());
      return true;
    });
  unmap();
  if (shared_ != nullptr) map(shared_->descriptor());
  else bytes_ = unpacked_;
}

FileBytes::~FileBytes() { unmap(); }

void write_file(const std::string& name, std::span<const std::span<const std::byte>> parts) {
  const std::string path = output_path(name);
  const std::string unfinished = path + ".unfinished";
  const auto fail = [&]() {
    const int reason = errno;
    unlink(unfinished.c_str());
    throw Failure(Cause::environment, fmt::format("cannot write `{}`: {}", path, std::strerror(reason)));
  };
  std::FILE* file = std::fopen(unfinished.c_str(), "wb");
  if (file == nullptr) fail();
  bool good = true;
  for (const std::span<const std::byte> part : parts)
    good = good && std::fwrite(part.data(), 1, part.size(), file) == part.size();
  if (std::fclose(file) != 0 || !good) fail();
  if (std::rename(unfinished.c_str(), path.c_str()) != 0) fail();
}

}  // namespace meshrt
