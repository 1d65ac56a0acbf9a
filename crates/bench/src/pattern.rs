// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The generator's pattern in host memory.
