#!/bin/sh
# SPDX-License-Identifier: Apache-2.0 OR MIT
# Cargo as maturin calls it, for `make wheel`: instead of the Python package alone it builds what BUILD
# says, all that is released. With one crate only, dependencies have other features, and all are
# compiled anew. The package needs no interpreter when it is built (abi3), so what maturin says of
# one is left out: it, too, would have it compiled anew.
set -eu
[ "$1" = rustc ] || exec cargo "$@"
unset PYO3_BUILD_EXTENSION_MODULE PYO3_CONFIG_FILE PYO3_ENVIRONMENT_SIGNATURE PYO3_PYTHON
# shellcheck disable=SC2086 # a command and its arguments
exec $BUILD --message-format json-render-diagnostics
