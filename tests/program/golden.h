// golden.h: texts that a test compares with files in goldens/. UPDATE_GOLDENS=1 writes the files anew.
#pragma once
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace mesh::tests {

inline void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(GOLDENS) + "/" + name + ".txt";
  if (std::getenv("UPDATE_GOLDENS")) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream expected;
  expected << file.rdbuf();
  EXPECT_EQ(text, expected.str()) << path << ": run with UPDATE_GOLDENS=1 to accept";
}

}  // namespace mesh::tests
