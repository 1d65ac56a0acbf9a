// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Runs on all cores, with results in the order of what is run.
//!
//! All go through one loop over indexes that knows neither items nor results: Rayon's iterators
//! over them are compiled anew for each call, ten KB of code a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use crosslane_host::lock;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

fn each(count: usize, run: &(dyn Fn(usize) + Sync)) {
    (0..count).into_par_iter().for_each(run);
}

/// Applies `run` to all items, on all cores.
///
/// # Panics
/// If `run` does, as soon as those under way have ended.
pub fn map<T: Sync, R: Send>(items: &[T], run: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let places: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    each(items.len(), &|at| {
        let done = Some(run(&items[at]));
        *lock(&places[at]) = done;
    });
    let done = |place: Mutex<_>| place.into_inner().unwrap_or_else(PoisonError::into_inner);
    places.into_iter().filter_map(done).collect()
}

/// Applies `run` to all items, on all cores, until one fails.
///
/// # Errors
/// The first error in the order of the items, of those that were reached.
pub fn try_map<T: Sync, R: Send, E: Send>(
    items: &[T],
    run: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let has_failed = AtomicBool::new(false);
    let reached = map(items, |item| {
        let done = (!has_failed.load(Ordering::Relaxed)).then(|| run(item))?;
        has_failed.fetch_or(done.is_err(), Ordering::Relaxed);
        Some(done)
    });
    reached.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_have_the_order_of_the_items() {
        let items: Vec<u64> = (0..1000).collect();
        let squares: Vec<u64> = items.iter().map(|one| one * one).collect();
        assert_eq!(map(&items, |one| one * one), squares);
        assert_eq!(try_map(&items, |one| Ok::<_, ()>(one * one)), Ok(squares));
        assert!(map(&[0_u8; 0], |one| *one).is_empty());
    }

    #[test]
    fn failure_ends_the_work_with_its_error() {
        let run = |one: &u64| if *one < 500 { Ok(*one) } else { Err(*one) };
        let items: Vec<u64> = (0..1000).collect();
        assert!(try_map(&items, run).is_err_and(|one| one >= 500));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        assert_eq!(pool.install(|| try_map(&items, run)), Err(500));
    }
}
