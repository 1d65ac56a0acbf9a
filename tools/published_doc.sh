#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Rustdoc as cargo calls it for `make api-doc`: leaves out the crates that UNPUBLISHED names.
set -eu
for crate in $UNPUBLISHED; do
  name=$(echo "$crate" | tr - _)
  case " $* " in *" --crate-name $name "*) exit 0 ;; esac
done
exec rustdoc "$@"
