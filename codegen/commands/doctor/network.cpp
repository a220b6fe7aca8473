// network.cpp: what ranks of several hosts would talk over.
#include <dlfcn.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <filesystem>
#include <set>
#include <string>

#include "codegen/commands/doctor/findings.h"
#include "meshrt/listening.h"

namespace mesh {

namespace {

/// UCX is opened by jobs that ask for it (runtime/src/transport/ucx_library.h); here only its version is asked for.
Finding ucx() {
  void* library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr)
    return {Health::slow, "UCX", "not installed",
            "apt-get install libucx0: without it ranks share one host (MESHRT_TRANSPORT=arena)"};
  using Version = void (*)(unsigned*, unsigned*, unsigned*);
  const auto version = reinterpret_cast<Version>(dlsym(library, "ucp_get_version"));
  unsigned major = 0, minor = 0, release = 0;
  if (version != nullptr) version(&major, &minor, &release);
  return {Health::good, "UCX", fmt::format("{}.{}.{}", major, minor, release), ""};
}

std::string joined(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Finding interfaces() {
  std::set<std::string> names;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) == 0) {
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
      const bool up = (one->ifa_flags & IFF_UP) != 0 && (one->ifa_flags & IFF_LOOPBACK) == 0;
      if (up && one->ifa_addr != nullptr &&
          (one->ifa_addr->sa_family == AF_INET || one->ifa_addr->sa_family == AF_INET6))
        names.insert(one->ifa_name);
    }
    freeifaddrs(all);
  }
  if (!names.empty()) return {Health::good, "interfaces", joined(names), ""};
  return {Health::slow, "interfaces", "only loopback", "ranks of other hosts cannot be reached from here"};
}

Finding infiniband() {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& device : std::filesystem::directory_iterator("/sys/class/infiniband", none))
    names.insert(device.path().filename());
  return {Health::good, "InfiniBand, RoCE", names.empty() ? "none" : joined(names), ""};
}

}  // namespace

std::vector<Finding> look_at_network() {
  std::vector<Finding> findings = {ucx(), interfaces(), infiniband()};
  for (const meshrt::Listening& one : meshrt::what_listens())
    findings.push_back({Health::good, one.job, one.where, one.advice});
  return findings;
}

}  // namespace mesh
