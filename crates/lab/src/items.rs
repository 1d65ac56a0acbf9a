// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Items of long work that several runs of a program share.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Keeper of the results of long work that consists of numbered items, called by the threads that
/// do it. `()` keeps nothing: every item is run.
pub trait Items: Sync {
    /// Returns the result of an item: that of `run`, or the kept one; `None` if the item is not
    /// this run's.
    ///
    /// # Errors
    /// That of `run`.
    fn once<T: Serialize + DeserializeOwned, E>(
        &self,
        item: u64,
        run: impl FnOnce() -> Result<T, E>,
    ) -> Result<Option<T>, E>;
}

impl Items for () {
    fn once<T: Serialize + DeserializeOwned, E>(
        &self,
        _: u64,
        run: impl FnOnce() -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        run().map(Some)
    }
}

/// Items from this number on.
impl<I: Items> Items for (&I, u64) {
    fn once<T: Serialize + DeserializeOwned, E>(
        &self,
        item: u64,
        run: impl FnOnce() -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        self.0.once(self.1 + item, run)
    }
}
