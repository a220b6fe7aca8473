#!/bin/sh
# Builds libmeshrt.a and meshrun beside this file, without Meson: what a bundle has in place of an installed runtime.
#   sh build.sh        needs a C++20 compiler and the headers of UCX; fmt, nlohmann-json and CLI11 from ./headers, or where
#                      the compiler finds them. zlib and PMIx are used where they are there. CXX, CXXFLAGS and UCX (a folder with
#                      include/ucp) may be set.
# What meson.build says of sources and instruction sets holds here too: kernels are built once a set, chosen at run time.
set -eu
cd "$(dirname "$0")"
cxx=${CXX:-c++}
jobs=$(nproc 2>/dev/null || echo 2)
fail() {
  echo "error: $1" >&2
  exit 3
}
command -v "$cxx" >/dev/null || fail "there is no C++ compiler \`$cxx\`: install g++ 12 or newer, or set CXX"

mkdir -p objects
# compiles TEXT OPTIONS...: whether a program of this text compiles and links.
compiles() {
  printf '%s\n' "$1" >objects/try.cpp
  shift
  "$cxx" $flags objects/try.cpp -o objects/try "$@" 2>objects/try.log
}
flags="-std=c++20 -O2 -ffp-contract=off -fno-math-errno -pthread -DFMT_HEADER_ONLY -Iinclude -Isrc"
if [ -d headers ]; then flags="$flags -isystem headers"; fi
if [ -n "${UCX:-}" ]; then flags="$flags -I$UCX/include"; fi
flags="$flags ${CXXFLAGS:-}"
compiles 'int main() { auto f = [](auto x) requires true { return x; }; return f(0); }' ||
  fail "\`$cxx\` does not compile C++20: install g++ 12 or newer, or set CXX"
compiles '#include <ucp/api/ucp.h>
int main() {}' || fail "there are no headers of UCX (ucp/api/ucp.h): install libucx-dev or ucx-devel, or set UCX to its folder"
# PMIx, which mpirun and srun offer, is opened at run time where its headers were there.
pmix=$(pkg-config --cflags pmix 2>/dev/null || true)
if compiles '#include <pmix.h>
int main() {}' $pmix; then pmix="-DMESHRT_HAS_PMIX $pmix"; else pmix=; fi
zlib=-lz
compiles '#include <zlib.h>
int main() { return zlibVersion() == nullptr; }' -lz || { flags="$flags -DMESHRT_WITHOUT_ZLIB"; zlib=; }

machine=$("$cxx" $flags -dumpmachine)
# A line for each object: its name, the source, further options.
list() {
  for source in $(find src -name '*.cpp' | LC_ALL=C sort); do
    case $source in
      src/meshrun.cpp | src/files/yaml_text.cpp | src/data/tokenizer_sentencepiece.cpp) ;;
      src/launch/bootstrap_pmix.cpp) echo "$(name "$source") $source $pmix" ;;
      src/kernels/*_kernel.cpp | src/kernels/attention_forward.cpp | src/kernels/attention_backward.cpp) each "$source" ISA -march=x86-64-v3 '-march=x86-64-v4 -mprefer-vector-width=512' '-DMESHRT_NEON -fno-schedule-insns' ;;
      src/collectives/vector_ops.cpp) each "$source" VARIANT -mavx2 '-mavx512f -mavx512bw -mprefer-vector-width=512' ;;
      *) echo "$(name "$source") $source" ;;
    esac
  done
}
name() { echo "$1" | sed 's,^src/,,; s,/,.,g; s,\.cpp$,,'; }
# each SOURCE MACRO AVX2 AVX512 [NEON]: the object of every instruction set of the processor that is compiled for.
each() {
  echo "$(name "$1").portable $1 -O3 -DMESHRT_$2=portable"
  case $machine in
    x86_64-*)
      echo "$(name "$1").avx2 $1 -O3 -DMESHRT_$2=avx2 $3"
      echo "$(name "$1").avx512 $1 -O3 -DMESHRT_$2=avx512 $4"
      case $1 in
        src/kernels/gemm_kernel.cpp | src/kernels/attention_*ward.cpp) # of bf16, with the instruction for it
          echo "$(name "$1").avx512_bf16 $1 -O3 -DMESHRT_$2=avx512_bf16 $4 -mavx512bf16"
          ;;
      esac
      ;;
    aarch64-*) # the loops of collectives have its registers without being asked
      if [ -n "${5:-}" ]; then echo "$(name "$1").neon $1 -O3 -DMESHRT_$2=neon $5"; fi
      ;;
  esac
}

list | sed 's, *$,,' >objects/list # for xargs, a line that ends in a blank goes on in the next
echo "compiling the runtime: $(wc -l <objects/list) files, $jobs at a time" >&2
export cxx flags
xargs -P "$jobs" -L 1 sh -c 'object=objects/$1.o source=$2; shift 2
  [ "$object" -nt "$source" ] || exec "$cxx" $flags "$@" -c "$source" -o "$object"' sh <objects/list ||
  fail "the runtime does not compile"
rm -f libmeshrt.a
ar rcs libmeshrt.a $(sed 's,^\([^ ]*\).*,objects/\1.o,' objects/list)
"$cxx" $flags src/meshrun.cpp libmeshrt.a -ldl $zlib -o meshrun
echo "-ldl $zlib -pthread" >objects/libraries
