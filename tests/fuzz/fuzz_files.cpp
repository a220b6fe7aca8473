// fuzz_files KIND SEED FIRST COUNT SECONDS FOLDER [FILES...]   reads mutants FIRST to FIRST + COUNT of files of a kind,
// for
//                                                     at most so many seconds; run files begin as FILES
// fuzz_files --write I KIND SEED FOLDER [FILES...]    leaves mutant I in the folder
//
// KIND is run_file, run_json (in the program with json_text.cpp), names, safetensors, llm_c, raw, megatron, idx, npy,
// gzip or flight (a flight recorder's file). A mutant is read or refused with a Failure; another exception, a crash,
// what the sanitizers find and ten seconds without an answer end the run with exit code 1 and the mutant's number. The
// address and undefined sanitizers are built in.
#include <fmt/format.h>
#include <zlib.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>

#include "meshrt/checkpoint.h"
#include "meshrt/data.h"
#include "meshrt/failure.h"
#include "meshrt/npy.h"
#include "meshrt/rename_map.h"
#include "meshrt/run_file.h"
#include "meshrt/run_keys.h"
#include "meshrt/safetensors.h"
#include "mutate_bytes.h"
#include "report/flight_reader.h"
#include "report/flight_recorder.h"
#include "rounds.h"
#include "watchdog.h"

namespace {

using mesh::fuzz::Random, mesh::fuzz::below;
using meshrt::FileType, meshrt::NumberFile, meshrt::Type;

template <class T>
std::string bytes_of(std::initializer_list<T> numbers) {
  std::string bytes;
  for (const T number : numbers) bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  return bytes;
}

std::string reversed(std::string bytes) { return {bytes.rbegin(), bytes.rend()}; }

std::string some_numbers(size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count; ++i) bytes += static_cast<char>(i * 37);
  return bytes;
}

// ---- what is right: a kind's files, by their names

using Files = std::map<std::string, std::string>;

std::string safetensors_seed() {
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},)"
      R"("b.c":{"dtype":"I64","shape":[],"data_offsets":[24,32]},"d":{"dtype":"BF16","shape":[0,4],"data_offsets":[32,32]}})";
  return bytes_of<uint64_t>({header.size()}) + header + some_numbers(32);
}

std::string llm_c_seed() {
  std::string header = bytes_of<int32_t>({20240520, 1, 20});
  header.resize(1024);
  return header + some_numbers(40);
}

Files megatron_seed() {
  std::string index("MMIDIDX\0\0", 9);
  index += bytes_of<uint64_t>({1}) + '\x08' + bytes_of<uint64_t>({3, 3}) + bytes_of<int32_t>({4, 5, 6});
  index += bytes_of<int64_t>({0, 8, 18}) + bytes_of<int64_t>({0, 2, 3});
  return {{"a.idx", index}, {"a.bin", some_numbers(30)}};
}

std::string idx_seed() {
  return std::string("\0\0\x08\x03", 4) + reversed(bytes_of<uint32_t>({5})) + reversed(bytes_of<uint32_t>({2})) +
         reversed(bytes_of<uint32_t>({3})) + some_numbers(30);
}

std::string npy_seed(bool fortran) {
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': {}, 'shape': (3, 4), }}", fortran ? "True" : "False");
  header.resize(117, ' ');
  header += '\n';
  return std::string("\x93NUMPY\x01\x00", 8) + bytes_of<uint16_t>({static_cast<uint16_t>(header.size())}) + header +
         some_numbers(48);
}

std::string packed(const std::string& plain) {
  std::string packed(1000, '\0');
  z_stream stream{};
  if (deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK) std::abort();
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(plain.data()));
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// Two members.
std::string gzip_seed() { return packed(idx_seed().substr(0, 20)) + packed(idx_seed().substr(20)); }

/// Every key once, with values of its kind.
std::string run_file_seed() {
  return R"(data:
  token: { mix: [{file: a.bin, weight: 0.7, from: 1}, {file: a.bin, weight: 3e-1, type: u16}], window: seq, to: 95% }
  target: { of: token, shift: 1 }
  src: { file: a.bin, pad: 0, start: 1, end: 2, long: cut, from: 3, to: 12.5% }
  text: { file: a.bin, tokenizer: a.bin, type: bytes }
validation: { every: 5, whole: true, token: { from: 95% } }
train: { steps: 5_000, seed: 7, shuffle: true, lr: 3.0e-4, params: a.bin, names: a.bin, partial: true, timeout: 60, max_time: "1-23:50:00" }
checkpoint: { dir: out/ckpt, every: 500, keep: 3, resume: auto, async: false, file_size: 5 GB }
log:
  every: 10
  trace: { steps: 10..12, file: out/trace.json }
  jsonl: &file "out/m.jsonl"
  watch: [grad_norm, 'layer.attn.wq']
  nonfinite: warn
  profile: false
output: { u: {every: 100, file: "out/u_{step}.npy"} }
run: { dir: out/run }
)";
}

std::string run_json_seed() {
  return R"({ // the same in JSON
  "data": { "token": { "mix": [{"file": "a.bin", "weight": 0.7, "from": 1}, {"file": "a.bin", "type": "u16"}], "window": "seq", "to": "95%" },
            "target": { "of": "token", "shift": 1 }, "src": { "file": "a.bin", "pad": 0, "start": 1, "end": 2, "long": "cut" } },
  "validation": { "every": 5, "whole": true, "token": { "from": "95%" } }, /* and so on */
  "train": { "steps": 5000, "seed": 7, "shuffle": true, "lr": 3.0e-4, "max_time": "1-23:50:00", "timeout": 60 },
  "checkpoint": { "dir": "out/ckpt", "resume": "auto", "async": false, "file_size": "5 GB" },
  "log": { "every": 10, "watch": ["grad_norm"], "nonfinite": "warn", "trace": {"steps": "10..12"} }, "run": null
})";
}

std::string names_seed() {
  return "wte: wte.weight\nlayer.attn.w: h.{layer}.attn.c_attn.weight [embed, three * heads * head_dim]\n\"a\": "
         "'b.{i}'\n";
}

/// A recorder of four with three calls, the last under way.
std::string flight_seed() {
  const auto file = std::make_unique<meshrt::FlightFile>();
  std::memcpy(file->magic, meshrt::flight_magic, sizeof file->magic);
  file->rank = 1, file->ranks = 4, file->pid = 4711, file->sites = 1;
  std::strcpy(file->host, "node1");
  std::strcpy(file->program, "gpt");
  std::strcpy(file->site[0], "gpt.mesh:52");
  file->step = 12;
  for (int i = 0; i < 3; ++i) {
    meshrt::FlightCall& call = file->calls[i];
    call.begun = 1'800'000'000'000'000'000 + i, call.ended = i < 2 ? call.begun + 500 : 0;
    call.step = 12, call.count = 64, call.group = 2, call.site = 0;
    call.kind = meshrt::Kind::all_reduce, call.type = Type::f32, call.reduce = meshrt::Reduce::sum;
    std::strcpy(call.value, "grad(w)");
    call.number = i + 1;
  }
  return {reinterpret_cast<const char*>(file.get()), sizeof *file};
}

std::vector<Files> seeds(const std::string& kind, const std::vector<std::string>& texts) {
  if (kind == "safetensors") return {{{"a.safetensors", safetensors_seed()}}};
  if (kind == "llm_c") return {{{"a.bin", llm_c_seed()}}};
  if (kind == "raw") return {{{"a.bin", some_numbers(41)}}, {{"a.bin", llm_c_seed()}}};
  if (kind == "megatron") return {megatron_seed()};
  if (kind == "idx") return {{{"a.idx", idx_seed()}}};
  if (kind == "npy") return {{{"a.npy", npy_seed(false)}}, {{"a.npy", npy_seed(true)}}};
  if (kind == "gzip") return {{{"a.gz", gzip_seed()}}};
  if (kind == "flight") return {{{"rank-0001", flight_seed()}}};
  if (kind == "names") return {{{"names.yaml", names_seed()}}};
  if (kind == "run_json") return {{{"run.yaml", run_json_seed()}}};
  std::vector<Files> all = {{{"run.yaml", run_file_seed()}}};
  for (const std::string& text : texts) all.push_back({{"run.yaml", text}});
  return all;
}

Files mutant(const std::vector<Files>& right, uint64_t seed, uint64_t number) {
  Random random(seed * 1'000'003 + number);
  Files files = right[below(random, right.size())];
  std::vector<std::string> others;
  others.reserve(right.size());
  for (const Files& one : right) others.push_back(one.begin()->second);
  const size_t changes = below(random, 6);  // none, too: what is right is read
  for (size_t i = 0; i < changes; ++i)
    mesh::fuzz::change(std::next(files.begin(), static_cast<int64_t>(below(random, files.size())))->second, random,
                       others);
  return files;
}

// ---- reading one

uint64_t touched = 0;  // keeps what is read from being left out

template <class Byte>
void touch(std::span<const Byte> bytes) {
  for (const Byte byte : bytes) touched += static_cast<uint64_t>(byte);
}

void read_numbers(const NumberFile& file) {
  for (const auto& [type, size] : {std::pair{Type::f64, 8}, {Type::i32, 4}, {Type::u8, 1}}) {
    try {
      file.require(type, "the fuzzer");
      std::vector<std::byte> numbers(static_cast<size_t>(file.elements()) * static_cast<size_t>(size));
      file.read(0, file.elements(), type, type == Type::i32 ? 1000 : -1, "the fuzzer", numbers.data());
      touch<std::byte>(numbers);
    } catch (const meshrt::Failure&) {}
  }
  std::vector<std::byte> few(80);
  for (const int64_t first : {int64_t{-1}, file.elements() - 1, file.elements(), INT64_MAX - 2}) {
    try {
      file.read(first, 10, Type::f64, -1, "the fuzzer", few.data());
    } catch (const meshrt::Failure&) {}
  }
}

void read(const std::string& kind, const std::string& folder, const std::string& name, const std::string& content) {
  const std::string path = folder + "/" + name;
  if (kind.starts_with("run_")) {
    touched += meshrt::parse_run_file("run.yaml", content, folder).data.size();
  } else if (kind == "names") {
    const meshrt::RenameMap map = meshrt::RenameMap::read(path);
    const float number = 1;
    for (const std::string& tensor : map.tensors())
      touched += renamed({tensor, Type::f32, {1, 1}, std::as_bytes(std::span(&number, 1))}, map).size();
  } else if (kind == "flight") {
    touched += meshrt::postmortem(folder).size();
  } else if (kind == "safetensors") {
    const meshrt::SavedTensors saved = meshrt::SavedTensors::open(path);
    for (const meshrt::NamedArray& tensor : saved.tensors()) {
      touch(tensor.data);
      touched += numbers_as(Type::f64, tensor).size();
    }
  } else {
    const FileType type = kind == "llm_c"      ? FileType::llm_c
                          : kind == "megatron" ? FileType::megatron
                          : kind == "idx"      ? FileType::idx
                          : kind == "npy"      ? FileType::npy
                                               : FileType::detect;
    if (kind == "raw")
      for (const FileType one : {FileType::u16, FileType::i32, FileType::bytes})
        read_numbers(NumberFile::open(path, one));
    else read_numbers(NumberFile::open(path, type));
    if (kind == "npy") touched += meshrt::read_npy(path).data.size();
  }
}

void write_files(const std::string& folder, const Files& files) {
  for (const auto& [name, content] : files)
    std::ofstream(std::filesystem::path(folder) / name, std::ios::binary) << content;
}

bool read_mutant(const std::string& kind, const std::string& folder, const Files& files) {
  if (!kind.starts_with("run_")) write_files(folder, files);
  try {
    read(kind, folder, files.begin()->first, files.begin()->second);
    return true;
  } catch (const meshrt::Failure& failure) {
    touched += std::strlen(failure.what());
    return false;
  }
}

std::vector<std::string> read_texts(char** begin, char** end) {
  std::vector<std::string> texts;
  for (; begin < end; ++begin) {
    std::stringstream text;
    text << std::ifstream(*begin, std::ios::binary).rdbuf();
    texts.push_back(text.str());
  }
  return texts;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc >= 6 && std::string(argv[1]) == "--write") {
    write_files(argv[5],
                mutant(seeds(argv[3], read_texts(argv + 6, argv + argc)), std::stoull(argv[4]), std::stoull(argv[2])));
    return 0;
  }
  if (argc < 7) return 2;
  const std::string kind = argv[1], folder = argv[6];
  const uint64_t seed = std::stoull(argv[2]), first = std::stoull(argv[3]), count = std::stoull(argv[4]);
  const std::vector<Files> right = seeds(kind, read_texts(argv + 7, argv + argc));
  write_files(folder, {{"a.bin", "0123"}});  // what run files name
  mesh::fuzz::watch({SIGABRT});              // the sanitizer has the others
  const int code =
      mesh::fuzz::run_rounds(first, count, std::chrono::seconds(std::stoll(argv[5])),
                             [&](uint64_t number) { return read_mutant(kind, folder, mutant(right, seed, number)); });
  return touched == 1 ? 3 : code;
}
