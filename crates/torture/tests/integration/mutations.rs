// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The lists of mutations stay valid: each text is found, each kind of fault and each checker has
//! one, and without them their seeds are green. `make mutations` applies them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crosslane_torture::{Check, Fault, Setup, run_seed, run_torus};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    mutation: Vec<Mutation>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Mutation {
    name: String,
    /// Names of the faults and checkers that it proves.
    proves: Vec<String>,
    /// The rule that it violates.
    must: String,
    /// The bug.
    what: String,
    file: String,
    find: String,
    replace: String,
    /// The seed that goes red, and the checker that finds it.
    seed: u64,
    found_by: String,
    /// Whether the seed is a torus.
    #[serde(default)]
    tori: bool,
    /// Whether the seed must be run twice to find it.
    #[serde(default)]
    twice: bool,
}

fn mutations() -> Vec<Mutation> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("mutations");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let lists = files.map(|file| -> List {
        let text = fs::read_to_string(&file).unwrap();
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    });
    lists.flat_map(|list| list.mutation).collect()
}

#[test]
fn the_text_of_each_mutation_is_there_once() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut names = BTreeSet::new();
    for mutation in mutations() {
        let Mutation { name, file, find, replace, .. } = &mutation;
        assert!(names.insert(name.clone()), "two mutations are called {name}");
        let text = fs::read_to_string(root.join(file)).unwrap();
        assert_eq!(text.matches(find.as_str()).count(), 1, "{name}: its text in {file}");
        assert_ne!(find, replace, "{name} changes nothing");
        let says = [&mutation.must, &mutation.what];
        assert!(says.iter().all(|text| !text.is_empty()), "{name} does not say what it is");
        assert!(!mutation.twice || mutation.found_by == Check::Determinism.word(), "{name}");
    }
}

#[test]
fn each_fault_and_each_checker_is_proven() {
    let mut proven: BTreeSet<String> = BTreeSet::new();
    let mut finders: BTreeSet<String> = BTreeSet::new();
    for Mutation { name, proves, found_by, .. } in mutations() {
        let is_check = |word: &&String| Check::ALL.iter().any(|check| check.word() == *word);
        let mut checks = proves.iter().filter(is_check);
        assert!(checks.all(|word| *word == found_by), "{name} is found by {found_by}: {proves:?}");
        proven.extend(proves);
        finders.insert(found_by);
    }
    let faults: BTreeSet<String> = Fault::ALL.iter().map(|fault| fault.word().into()).collect();
    let checks: BTreeSet<String> = Check::ALL.iter().map(|check| check.word().into()).collect();
    let missing: Vec<_> = faults.difference(&proven).collect();
    assert!(missing.is_empty(), "no mutation proves {missing:?}");
    // A checker is proven only by its own findings.
    let missing: Vec<_> = checks.difference(&finders).collect();
    assert!(missing.is_empty(), "no mutation is found by {missing:?}");
    let unknown: Vec<_> = proven.iter().filter(|word| !faults.contains(*word)).collect();
    let unknown: Vec<_> = unknown.into_iter().filter(|word| !checks.contains(*word)).collect();
    assert!(unknown.is_empty(), "{unknown:?} is neither a fault nor a checker");
}

#[test]
fn without_a_mutation_its_seed_is_green() {
    let seeds: BTreeSet<(bool, u64)> =
        mutations().iter().map(|mutation| (mutation.tori, mutation.seed)).collect();
    for (tori, seed) in seeds {
        let violation = match tori {
            true => run_torus(seed, &Setup::default()).err(),
            false => run_seed(seed, &Setup::default()).err(),
        };
        assert_eq!(violation, None, "seed {seed}, torus: {tori}");
    }
}
