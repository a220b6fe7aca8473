#include "files/file_bytes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#ifndef MESHRT_WITHOUT_ZLIB
#include <zlib.h>
#endif

#include "meshrt/failure.h"

namespace meshrt {

namespace {

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

#ifdef MESHRT_WITHOUT_ZLIB
std::vector<std::byte> unpack(const std::string& path, std::span<const std::byte>) {
  throw Failure(Cause::environment,
                fmt::format("`{}` is packed, and this program was built without zlib: unpack it with gunzip", path));
}
#else
// All members of a gzip file, one after the other.
std::vector<std::byte> unpack(const std::string& path, std::span<const std::byte> packed) {
  constexpr size_t step = size_t{1} << 20;
  std::vector<std::byte> result;
  size_t used = 0;
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw Failure(Cause::memory, "no memory to unpack `" + path + "`");
  const auto fail = [&](const char* why) {
    inflateEnd(&stream);
    throw Failure(Cause::data, fmt::format("`{}` is not a whole gzip file: {}", path, why));
  };
  size_t taken = 0;
  while (true) {
    if (result.size() - used < step / 2) result.resize(std::max(result.size() * 2, step));
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + taken));
    stream.avail_in = static_cast<uInt>(std::min<size_t>(packed.size() - taken, 1U << 30));
    stream.next_out = reinterpret_cast<Bytef*>(result.data() + used);
    stream.avail_out = static_cast<uInt>(std::min<size_t>(result.size() - used, 1U << 30));
    const uInt offered = stream.avail_in, room = stream.avail_out;
    const int status = inflate(&stream, Z_NO_FLUSH);
    taken += offered - stream.avail_in;
    used += room - stream.avail_out;
    if (status == Z_STREAM_END) {
      if (!is_gzip(packed.subspan(taken))) break;
      inflateReset(&stream);
    } else if (status == Z_BUF_ERROR || (status == Z_OK && taken == packed.size() && stream.avail_out > 0)) {
      fail("it ends too early");
    } else if (status != Z_OK) {
      fail(stream.msg != nullptr ? stream.msg : "damaged data");
    }
  }
  inflateEnd(&stream);
  result.resize(used);
  return result;
}
#endif

}  // namespace

std::shared_ptr<const FileBytes> FileBytes::open(const std::string& path, Compression compression) {
  const auto fail = [&](const char* why) {
    throw Failure(Cause::data, fmt::format("cannot read `{}`: {}", path, why));
  };
  std::shared_ptr<FileBytes> file(new FileBytes(path));
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) fail(std::strerror(errno));
  struct stat status {};
  if (fstat(descriptor, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(descriptor);
    fail(S_ISDIR(status.st_mode) ? "it is a folder" : "it is not a regular file");
  }
  file->mapped_ = static_cast<size_t>(status.st_size);
  if (file->mapped_ > 0) {
    void* mapping = mmap(nullptr, file->mapped_, PROT_READ, MAP_PRIVATE, descriptor, 0);
    const int reason = errno;
    close(descriptor);
    if (mapping == MAP_FAILED) fail(std::strerror(reason));
    file->mapping_ = mapping;
    file->told_.emplace(std::span(static_cast<const std::byte*>(mapping), file->mapped_), path);
  } else {
    close(descriptor);
  }
  file->bytes_ = {static_cast<const std::byte*>(file->mapping_), file->mapped_};
  if (compression == Compression::detect && is_gzip(file->bytes_)) {
    file->unpacked_ = unpack(path, file->bytes_);
    file->told_.reset();
    munmap(file->mapping_, file->mapped_);
    file->mapping_ = nullptr;
    file->bytes_ = file->unpacked_;
  }
  return file;
}

FileBytes::~FileBytes() {
  told_.reset();
  if (mapping_ != nullptr) munmap(mapping_, mapped_);
}

void write_file(const std::string& path, std::span<const std::span<const std::byte>> parts) {
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
