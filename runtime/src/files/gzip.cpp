#include "files/gzip.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>
#ifndef MESHRT_WITHOUT_ZLIB
#include <zlib.h>
#endif

#include "meshrt/failure.h"

namespace meshrt {

bool is_gzip(std::span<const std::byte> bytes) {
  return bytes.size() >= 2 && bytes[0] == std::byte{0x1f} && bytes[1] == std::byte{0x8b};
}

#ifdef MESHRT_WITHOUT_ZLIB
bool unpack_gzip(const std::string& path, std::span<const std::byte>,
                 const std::function<bool(std::span<const std::byte>)>&) {
  throw Failure(Cause::environment,
                fmt::format("`{}` is packed, and this program was built without zlib: unpack it with gunzip", path));
}
#else
bool unpack_gzip(const std::string& path, std::span<const std::byte> packed,
                 const std::function<bool(std::span<const std::byte>)>& take) {
  std::vector<std::byte> piece(size_t{1} << 20);
  z_stream stream{};
  if (inflateInit2(&stream, 15 + 16) != Z_OK) throw Failure(Cause::memory, "no memory to unpack `" + path + "`");
  const std::unique_ptr<z_stream, int (*)(z_stream*)> end(&stream, inflateEnd);
  const auto fail = [&](const char* why) {
    throw Failure(Cause::data, fmt::format("`{}` is not a whole gzip file: {}", path, why));
  };
  for (size_t taken = 0;;) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<std::byte*>(packed.data() + taken));
    stream.avail_in = static_cast<uInt>(std::min<size_t>(packed.size() - taken, 1U << 30));
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    const uInt offered = stream.avail_in;
    const int status = inflate(&stream, Z_NO_FLUSH);
    taken += offered - stream.avail_in;
    if (!take(std::span(piece).first(piece.size() - stream.avail_out))) return false;
    if (status == Z_STREAM_END) {
      const std::span<const std::byte> rest = packed.subspan(taken);
      if (std::ranges::all_of(rest, [](std::byte byte) { return byte == std::byte{0}; })) return true;  // as of tapes
      if (!is_gzip(rest)) fail("something else stands behind its end");
      inflateReset(&stream);
    } else if (status == Z_BUF_ERROR || (status == Z_OK && taken == packed.size() && stream.avail_out > 0)) {
      fail("it ends too early");
    } else if (status != Z_OK) {
      fail(stream.msg != nullptr ? stream.msg : "damaged data");
    }
  }
}
#endif

}  // namespace meshrt
