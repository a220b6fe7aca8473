// refused_onednn.h: on a processor for which oneDNN multiplies no bf16, who asks for it is told so.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "kernels/onednn.h"
#include "kernels/product_choice.h"
#include "kernels/product_onednn.h"
#include "meshrt/failure.h"

namespace meshrt {

/// Whether oneDNN is asked for where it multiplies no bf16. Then `use`, which needs that, has to fail and say so.
template <class Use>
bool is_refused_bf16(Use use) {
  if (wanted_implementation() != Implementation::onednn || multiplies_bf16(onednn())) return false;
  try {
    use();
    ADD_FAILURE() << "not refused";
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.what(),
              "MESHRT_GEMM asks for oneDNN, but " + onednn().name + " multiplies no bf16; leave MESHRT_GEMM out");
  }
  return true;
}

}  // namespace meshrt
