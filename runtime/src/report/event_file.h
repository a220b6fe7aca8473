// event_file.h: metrics for TensorBoard. An event file is a sequence of records (TFRecord: length, bytes, and a masked
// CRC-32C of each), and every record a protocol buffer of type `Event`. Both formats are small and fixed; Debian has no
// library that writes them, and theirs would be another thing that a program needs on the machine it runs on.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "system/growing_file.h"

namespace meshrt {

struct Scalar {
  std::string tag;  ///< "loss/train": TensorBoard groups by what stands before the slash
  double value;
};

class EventFile {
 public:
  /// Begins the file `path`. Throws Failure (Cause::environment) when it cannot be made.
  explicit EventFile(const std::string& path);

  /// The numbers of a step. `seconds` since 1970.
  void write(int64_t step, double seconds, std::span<const Scalar> scalars);

 private:
  GrowingFile file_;
};

/// CRC-32C (Castagnoli), as iSCSI and TFRecord use it; zlib's CRC is another.
uint32_t crc32c(std::string_view bytes);

}  // namespace meshrt
