#include "meshrt/profile.h"

namespace meshrt {

StepProfile*& thread_profile() {
  static thread_local StepProfile* profile = nullptr;
  return profile;
}

void LineCosts::begin(const char* line, const StepProfile& so_far) {
  const auto now = std::chrono::steady_clock::now();
  const LineCost parts{0, so_far.products, so_far.attention, so_far.collectives, so_far.waiting};
  if (line_ != nullptr) {
    LineCost& cost = lines_[line_];
    cost.seconds += std::chrono::duration<double>(now - start_).count();
    for (double LineCost::*part :
         {&LineCost::products, &LineCost::attention, &LineCost::collectives, &LineCost::waiting})
      cost.*part += parts.*part - before_.*part;
  }
  line_ = line;
  start_ = now;
  before_ = parts;
}

}  // namespace meshrt
