#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# tsan.sh ARCHIVE RUNTIME PROGRAM FOLDER: runs the test of threads under ThreadSanitizer, with a card of a lab
# and with one that PROGRAM serves. ARCHIVE is the C library, compiled with the sanitizer, as Rust's
# own library has to be: it sees what locks order only in code that it has compiled. RUNTIME is the
# sanitizer's archive of the same Rust; the C compiler's own lacks what that calls.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
archive=$1
runtime=$2
program=$3
folder=$4
mkdir -p "$folder"
test=$folder/threads
socket=$folder/card
"${CC:-cc}" -std=c11 -D_GNU_SOURCE -g -O1 -fsanitize=thread -I "$here/include" "$here/tests/c/threads.c" \
	-c -o "$test.o"
"${CC:-cc}" "$test.o" "$archive" -Wl,--whole-archive "$runtime" -Wl,--no-whole-archive -o "$test" -lgcc_s -lutil -lrt -lpthread -lm -ldl \
	-lresolv
export TSAN_OPTIONS="halt_on_error=1 exitcode=66 ${TSAN_OPTIONS:-}"
"$test"
rm -f "$socket"
"$program" lab serve kc705:crosslane --device kc705 --socket "$socket" >"$folder/server.log" 2>&1 &
server=$!
trap 'kill $server' EXIT
until [ -e "$socket" ]; do
	kill -0 $server
	sleep 0.1
done
"$test" "vfio-user:$socket"
