#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# install.sh ARCHIVE PREFIX [DESTDIR]: links libcrosslane.so from the archive that cargo has built,
# and installs it with the archive, the headers and the pkg-config file. Needs a C compiler. The
# environment may name another folder for libraries (LIBDIR, an absolute path), and libraries that an
# archive with the gateware needs (LDLIBS).
#
# rustc cannot link it by itself: it passes the linker a version script without names, beside which
# no other one may stand. Here only the symbols of crosslane.map leave the library, with versions.
set -eu
archive=$1
prefix=$2
libdir=${LIBDIR:-$prefix/lib}
root=${3:-}$prefix
libraries=${3:-}$libdir
here=$(cd "$(dirname "$0")" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' "$here/../../Cargo.toml" | head -n 1)
soname=libcrosslane.so.${version%%.*}

mkdir -p "$libraries/pkgconfig" "$root/include"
symbols=$(sed -n 's/^[[:space:]]*\(crosslane_[a-z0-9_]*\);$/-Wl,-u,\1/p' "$here/crosslane.map")
# shellcheck disable=SC2086 # one word a symbol, one a library
"${CC:-cc}" -shared -o "$libraries/libcrosslane.so.$version" $symbols "$archive" \
	-Wl,-soname,"$soname" -Wl,--version-script="$here/crosslane.map" -Wl,--gc-sections \
	-Wl,-z,defs -Wl,-z,relro,-z,now -Wl,--strip-debug -Wl,--as-needed \
	${LDLIBS:-} -lgcc_s -lutil -lrt -lpthread -lm -ldl -lc
ln -sf "libcrosslane.so.$version" "$libraries/$soname"
ln -sf "$soname" "$libraries/libcrosslane.so"
install -m 644 "$archive" "$libraries/libcrosslane.a"
cp -R "$here"/include/. "$root/include/"
sed -e "s|@PREFIX@|$prefix|" -e "s|@LIBDIR@|$libdir|" -e "s|@VERSION@|$version|" "$here/crosslane.pc.in" \
	> "$libraries/pkgconfig/crosslane.pc"
