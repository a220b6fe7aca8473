#include "meshrt/profile.h"

namespace meshrt {

StepProfile*& thread_profile() {
  static thread_local StepProfile* profile = nullptr;
  return profile;
}

}  // namespace meshrt
