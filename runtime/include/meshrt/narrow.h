// narrow.h: which types of 16 bits a program multiplies.
#pragma once

namespace meshrt {

struct Narrow {
  bool bf16, f16;
  constexpr Narrow(bool bf16 = false, bool f16 = false) : bf16(bf16), f16(f16) {}
};

}  // namespace meshrt
