#include "files/mapped_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <mutex>

#include "meshrt/failure.h"

namespace meshrt {

/// All of them, where a handler of signals can read them: it must neither lock nor allocate.
struct MappedFiles {
  static constexpr size_t most = 512;
  static inline std::array<std::atomic<const MappedFile*>, most> all{};

  static void tell_fault(int signal, siginfo_t* fault, void*) {
    const auto* at = static_cast<const std::byte*>(fault->si_addr);
    for (const auto& place : all) {
      const MappedFile* file = place.load();
      if (file == nullptr || at < file->bytes_.data() || at >= file->bytes_.data() + file->bytes_.size()) continue;
      // What cannot be written cannot be helped here.
      [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, file->told_.data(), file->told_.size());
      _exit(exit_code(Cause::data));
    }
    std::signal(signal, SIG_DFL);  // the fault comes again
  }

  static void listen() {
    struct sigaction action {};
    action.sa_sigaction = tell_fault;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    sigaction(SIGBUS, &action, nullptr);
  }
};

MappedFile::MappedFile(std::span<const std::byte> bytes, const std::string& path)
    : told_(fmt::format("error: cannot read `{}` any more: it was cut short, or its disk failed, after it was opened\n",
                        path)),
      bytes_(bytes) {
  static std::once_flag once;
  std::call_once(once, MappedFiles::listen);
  for (auto& place : MappedFiles::all) {
    const MappedFile* nobody = nullptr;
    if (!place.compare_exchange_strong(nobody, this)) continue;
    place_ = &place;
    break;
  }
}

MappedFile::~MappedFile() {
  if (place_ != nullptr) place_->store(nullptr);
}

}  // namespace meshrt
