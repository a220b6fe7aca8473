// dynamic_library.h: functions of libraries that are opened at run time, where a program must work without them.
#pragma once
#include <dlfcn.h>
#include <fmt/format.h>

#include "meshrt/failure.h"

namespace meshrt {

/// Points `function` to the library's function of this name. Throws Failure (Cause::environment) that calls the library
/// by `product`.
template <class Function>
void find_function(void* library, const char* product, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) throw Failure(Cause::environment, fmt::format("this version of {} has no {}", product, name));
}

}  // namespace meshrt
