// switched_off.h: what MESHRT_NO switches off, words with commas between them, to see what each brings.
#pragma once
#include <string_view>

namespace meshrt {

/// Throws Failure (Cause::usage) for a word that switches off nothing.
bool switched_off(std::string_view what);

}  // namespace meshrt
