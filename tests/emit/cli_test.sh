#!/bin/sh
# The command line of meshc: help of every command, exit codes, what goes where. cli_test.sh MESHC ROOT
set -u
meshc=$(realpath "$1")
root=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# expect CODE PATTERN COMMAND...: the exit code, and a pattern that stdout or stderr holds.
expect() {
  code=$1
  pattern=$2
  shift 2
  "$@" >"$work/out" 2>"$work/err" </dev/null
  got=$?
  if [ "$got" != "$code" ]; then
    echo "FAILED: $*: exit code $got, expected $code"
    sed 's/^/  /' "$work/out" "$work/err"
    failed=1
  elif [ -n "$pattern" ] && ! cat "$work/out" "$work/err" | grep -q -- "$pattern"; then
    echo "FAILED: $*: no \`$pattern\` in"
    sed 's/^/  /' "$work/out" "$work/err"
    failed=1
  fi
}

expect 0 'Commands:' "$meshc" --help
expect 0 '^meshc [0-9]' "$meshc" --version
expect 2 'Commands:' "$meshc"
commands=$("$meshc" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
[ -n "$commands" ] || { echo "FAILED: no commands in the help"; failed=1; }
for command in $commands; do
  expect 0 '^Examples:' "$meshc" "$command" --help
  expect 2 'error:' "$meshc" "$command" --no-such-option
done
expect 2 "error: there is no command" "$meshc" no-such-command
expect 2 "did you mean .fetch.?" "$meshc" fech

cat >"$work/good.mesh" <<'SPEC'
dim batch = 4, io = 3
model Fit {
  input x, t : real[batch, io]
  param w : real[io] = zeros
  loss = mean[batch, io]((x * w - t) ^ 2)
  minimize loss with sgd(lr: 0.1)
}
mesh line { data: 2 }
layout default on line { batch -> data }
SPEC
sed 's/\[io\] = zeros/[oi] = zeros/' "$work/good.mesh" >"$work/bad.mesh"
expect 0 '' "$meshc" check "$work/good.mesh"
expect 1 'error\[E0201\]' "$meshc" check "$work/bad.mesh"
expect 1 'bad.mesh:4' "$meshc" check "$work/bad.mesh"
expect 1 '"code": "E0201"' "$meshc" check --json "$work/bad.mesh"
expect 1 '^{.*"code":.*E0201' "$meshc" check --diagnostics json "$work/bad.mesh"
expect 1 'E0130' "$meshc" check "$work/missing.mesh"
expect 1 'did you mean .*/good.mesh' "$meshc" check "$work/goood.mesh"
expect 2 'did you mean `train.steps=10`?' "$meshc" run "$work/good.mesh" train.steps:10
expect 2 'KEY=VALUE: did you mean `train.lr=VALUE`?' "$meshc" run "$work/good.mesh" lr 10
expect 2 'the size of a dim is set by `--set DIM=N`' "$meshc" check "$work/good.mesh" batch=8
head -c 100 "$meshc" >"$work/data.unknown"
expect 1 '`--from TYPE` for `meshc data`' "$meshc" data show "$work/data.unknown"
expect 2 'no lint called' "$meshc" check -D nonsense "$work/good.mesh"
expect 2 'expected NAME=N' "$meshc" check --set batch=many "$work/good.mesh"
expect 1 'E0208' "$meshc" check --set batsch=2 "$work/good.mesh"
expect 0 'dot\|map\|read' "$meshc" ir "$work/good.mesh" graph
expect 0 'int main' "$meshc" ir "$work/good.mesh" cpp
expect 2 'the passes are' "$meshc" ir "$work/good.mesh" nonsense
expect 0 'sums over' "$meshc" explain E0301
expect 0 'E0101' "$meshc" explain
expect 2 'no diagnostic' "$meshc" explain E9999

# Every code that the compiler can report is explained.
for code in $(grep -rhoE '"E[0-9]{4}"' "$root/frontend" "$root/codegen" | tr -d '"' | sort -u); do
  expect 0 "^$code:" "$meshc" explain "$code"
done

# Colours only where they are wanted.
"$meshc" check --color always "$work/bad.mesh" 2>&1 | grep -q "$(printf '\033')" || { echo "FAILED: no colour"; failed=1; }
CLICOLOR_FORCE=1 "$meshc" check "$work/bad.mesh" 2>&1 | grep -q "$(printf '\033')" || { echo "FAILED: no forced colour"; failed=1; }
NO_COLOR=1 "$meshc" check "$work/bad.mesh" 2>&1 | grep -q "$(printf '\033')" && { echo "FAILED: unwanted colour"; failed=1; }

# A program is built, the same twice, and runs.
expect 0 'built' "$meshc" build "$work/good.mesh" -o "$work/one"
expect 0 'built' "$meshc" build "$work/good.mesh" -o "$work/two"
cmp -s "$work/one/good.cpp" "$work/two/good.cpp" || { echo "FAILED: two builds differ"; failed=1; }
expect 0 'Fit' "$work/one/good" --info
# What is as it was is not compiled again, unless the runtime is newer or the user says how to compile.
made=$(stat -c %y "$work/one/good")
expect 0 'built' "$meshc" build "$work/good.mesh" -o "$work/one"
[ "$made" = "$(stat -c %y "$work/one/good")" ] || { echo "FAILED: compiled twice"; failed=1; }
expect 0 'built' env CXXFLAGS=-O0 "$meshc" build "$work/good.mesh" -o "$work/one"
[ "$made" != "$(stat -c %y "$work/one/good")" ] || { echo "FAILED: not compiled with other flags"; failed=1; }
touch -d 2001-01-01 "$work/one/good"
expect 0 'built' "$meshc" build "$work/good.mesh" -o "$work/one"
stat -c %y "$work/one/good" | grep -q '^2001' && { echo "FAILED: not compiled with a newer runtime"; failed=1; }
expect 0 '' "$work/one/good" -n 2 --dry-run
expect 2 'keys of the run file are given to' "$meshc" build "$work/good.mesh" train.steps=2
expect 0 'built' "$meshc" build "$work/good.mesh" 'log.watch=["**"]' -o "$work/watching"
expect 0 'watches    w' "$work/watching/good" --info
grep -q "meshc build good.mesh 'log.watch=" "$work/watching/good.cpp" || { echo "FAILED: the command that makes it again"; failed=1; }
expect 1 'x' env XDG_CACHE_HOME="$work/cache" "$meshc" run "$work/good.mesh" train.steps=2
[ ! -e "$work/cache" ] || { echo "FAILED: compiled before the run file was looked at"; failed=1; }
# Built from within the spec's folder, the run file still finds its data.
printf 'data:\n  x: { file: x.npy }\n  t: { file: x.npy }\ntrain: { steps: 1, params: w.safetensors }\n' >"$work/good.yaml"
: >"$work/w.safetensors"
expect 0 'built' sh -c "cd '$work' && '$meshc' build good.mesh -o here"
expect 1 'did you mean .grad_norm.' "$meshc" build "$work/good.mesh" log.watch=[grad_nrm] -o "$work/never"
grep -q 'file: ../x.npy' "$work/here/good.yaml" || { echo "FAILED: here/good.yaml names another file"; failed=1; }
grep -q 'params: ../w.safetensors' "$work/here/good.yaml" || { echo "FAILED: here/good.yaml names other parameters"; failed=1; }
for list in '[ w.safetensors, "a/b.safetensors" ], names: n.yaml }' "
  params:   # two
    - w.safetensors
    - 'a/b.safetensors'
  names: n.yaml"; do
  mkdir -p "$work/a"
  : >"$work/a/b.safetensors"
  : >"$work/n.yaml"
  case $list in [[]*) list="{ steps: 1, params: $list" ;; esac
  printf 'data:\n  x: { file: x.npy }\n  t: { file: x.npy }\ntrain: %s\n' "$list" >"$work/good.yaml"
  expect 0 'built' sh -c "cd '$work' && '$meshc' build good.mesh -o here"
  for file in ../w.safetensors ../a/b.safetensors 'names: ../n.yaml'; do
    grep -q "$file" "$work/here/good.yaml" || { echo "FAILED: here/good.yaml lacks $file"; cat "$work/here/good.yaml"; failed=1; }
  done
done
# What programs include is parsed already, whatever the level of optimization; with flags of another kind it is parsed anew.
build_folder=$(dirname "$meshc")/../..
if [ -e "$build_folder/runtime/precompiled/meshrt/emitted.h.gch" ]; then
  expect 0 '! .*/precompiled/meshrt/emitted.h.gch' env MESHRT="$build_folder" CXXFLAGS='-H -O1' sh "$work/here/build.sh"
  expect 0 'x .*/precompiled/meshrt/emitted.h.gch' env MESHRT="$build_folder" CXXFLAGS='-H -O1 -fno-exceptions' sh "$work/here/build.sh"
fi
expect 0 'wrote the bundle' "$meshc" build "$work/good.mesh" -o "$work/bundle" --bundle --target x86-64-v3
sh -n "$work/bundle/build.sh" && sh -n "$work/bundle/runtime/build.sh" || { echo "FAILED: a script of the bundle"; failed=1; }
grep -q x86-64-v3 "$work/bundle/build.sh" || { echo "FAILED: --target is not in build.sh"; failed=1; }
grep -q '"file": "../x.npy"' "$work/bundle/good.json" || { echo "FAILED: the run file of the bundle"; failed=1; }
expect 2 'is expected' "$meshc" build "$work/good.mesh" -o "$work/bundle" --target 'a b'
expect 70 'internal error' env CXXFLAGS=-DTensorTable=0 "$meshc" build "$work/good.mesh" -o "$work/broken"
expect 3 'no C++ compiler' env CXX=/nonexistent "$meshc" build "$work/good.mesh" -o "$work/none"

exit $failed
