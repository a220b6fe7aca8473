// narrow.h: which types of 16 bits a program multiplies.
#pragma once

namespace meshrt {

struct Narrow {
  bool bf16 = false, f16 = false;
};

}  // namespace meshrt
