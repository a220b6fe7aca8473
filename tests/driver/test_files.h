// test_files.h: a folder of files that lives as long as a test.
#pragma once
#include <gtest/gtest.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "meshrt/failure.h"

namespace meshrt {

class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "meshrt-test-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string path(const std::string& name) const { return (path_ / name).string(); }

  std::string write(const std::string& name, std::string_view content) const {
    std::filesystem::create_directories(std::filesystem::path(path(name)).parent_path());
    std::ofstream(path(name), std::ios::binary) << content;
    return path(name);
  }

  template <class T>
  std::string write(const std::string& name, const std::vector<T>& numbers) const {
    return write(name, std::string_view(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)));
  }

  std::string write_gz(const std::string& name, std::string_view content) const {
    gzFile file = gzopen(path(name).c_str(), "wb");
    gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
    gzclose(file);
    return path(name);
  }

  std::string read(const std::string& name) const {
    std::ifstream file(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  /// `text` without this folder's name, which differs from run to run.
  std::string without_folder(std::string text) const {
    const std::string folder = path_.string() + "/";
    for (size_t at = 0; (at = text.find(folder)) != std::string::npos;) text.erase(at, folder.size());
    return text;
  }

 private:
  std::filesystem::path path_;
};

/// What `body` fails with; a test fails when it does not.
template <class Body>
std::string failure_of(Body body) {
  try {
    body();
  } catch (const Failure& failure) {
    return failure.what();
  }
  ADD_FAILURE() << "no failure";
  return "";
}

/// Bytes of big-endian or little-endian numbers one after the other.
template <class T>
std::string bytes_of(std::initializer_list<T> numbers, bool big_endian = false) {
  std::string result;
  for (const T number : numbers) {
    std::string bytes(reinterpret_cast<const char*>(&number), sizeof number);
    if (big_endian) bytes = std::string(bytes.rbegin(), bytes.rend());
    result += bytes;
  }
  return result;
}

}  // namespace meshrt
