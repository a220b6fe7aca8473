#include "launch/munge.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>

#include "meshrt/failure.h"
#include "system/dynamic_library.h"

namespace meshrt {

namespace {

// As munge.h(3) has them: the header is not needed to build this, and the library is opened when a job asks for it.
struct MungeContext;
constexpr int munge_success = 0, option_socket = 8, option_uid_restriction = 9;
constexpr int no_daemon = 6;  // EMUNGE_SOCKET

struct MungeLibrary {
  MungeContext* (*create)();
  void (*destroy)(MungeContext*);
  int (*set)(MungeContext*, int option, ...);
  int (*encode)(char** credential, MungeContext*, const void* bytes, int length);
  int (*decode)(const char* credential, MungeContext*, void** bytes, int* length, uid_t*, gid_t*);
  const char* (*error_text)(int);
};

void* munge_library() {
  static void* library = dlopen("libmunge.so.2", RTLD_NOW | RTLD_LOCAL);
  return library;
}

MungeLibrary munge_functions() {
  if (!munge_library()) throw Failure(Cause::environment, fmt::format("cannot use MUNGE: {}", dlerror()));
  MungeLibrary munge{};
  find_function(munge_library(), "MUNGE", "munge_ctx_create", munge.create);
  find_function(munge_library(), "MUNGE", "munge_ctx_destroy", munge.destroy);
  find_function(munge_library(), "MUNGE", "munge_ctx_set", munge.set);
  find_function(munge_library(), "MUNGE", "munge_encode", munge.encode);
  find_function(munge_library(), "MUNGE", "munge_decode", munge.decode);
  find_function(munge_library(), "MUNGE", "munge_strerror", munge.error_text);
  return munge;
}

const char* munge_socket() {
  const char* path = std::getenv("MESHRT_MUNGE_SOCKET");
  return path && *path ? path : nullptr;
}

class Munge {
 public:
  Munge() : munge_(munge_functions()), context_(munge_.create()) {
    if (!context_) throw Failure(Cause::memory, "MUNGE has no memory");
    if (const char* path = munge_socket()) munge_.set(context_, option_socket, path);
    munge_.set(context_, option_uid_restriction, geteuid());
  }
  ~Munge() { munge_.destroy(context_); }
  Munge(const Munge&) = delete;
  Munge& operator=(const Munge&) = delete;

  std::string encode(const std::string& text) const {
    char* credential = nullptr;
    if (const int error = munge_.encode(&credential, context_, text.data(), static_cast<int>(text.size())))
      throw trouble(error);
    std::string result = credential;
    std::free(credential);
    return result;
  }

  std::optional<std::string> decode(const std::string& credential) const {
    void* bytes = nullptr;
    int length = 0;
    uid_t user = 0;
    gid_t group = 0;
    const int error = munge_.decode(credential.c_str(), context_, &bytes, &length, &user, &group);
    std::optional<std::string> text;
    if (error == munge_success && user == geteuid() && bytes) text = std::string(static_cast<char*>(bytes), length);
    std::free(bytes);
    if (error == no_daemon) throw trouble(error);
    return text;
  }

 private:
  Failure trouble(int error) const {
    return {Cause::environment, fmt::format("MUNGE, by which the hosts of this job know each other, fails: {}; is its "
                                            "daemon running on every host?",
                                            munge_.error_text(error))};
  }

  MungeLibrary munge_;
  MungeContext* context_;
};

}  // namespace

bool munge_is_there() {
  const char* path = munge_socket();
  return access(path ? path : "/run/munge/munge.socket.2", W_OK) == 0 && munge_library() != nullptr;
}

std::string munge_encode(const std::string& text) { return Munge().encode(text); }
std::optional<std::string> munge_decode(const std::string& credential) { return Munge().decode(credential); }

}  // namespace meshrt
