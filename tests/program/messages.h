// messages.h: what the verifier says of programs that tests have broken.
#pragma once
#include <gmock/gmock.h>

#include <algorithm>
#include <string>

#include "codegen/program/verify_program.h"

namespace mesh::tests {

/// Whether one of the messages contains `part`.
inline bool tells(const Program& program, const std::string& part) {
  return std::ranges::any_of(verify_program(program),
                             [&](const std::string& message) { return message.find(part) != std::string::npos; });
}

inline void expect_message(const Program& broken, const std::string& part) {
  EXPECT_THAT(verify_program(broken), testing::Contains(testing::HasSubstr(part)));
}

}  // namespace mesh::tests
