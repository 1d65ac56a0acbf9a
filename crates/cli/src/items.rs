// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Items of long work that several machines share: `--items FOLDER --shard I/N` runs every N-th
//! item and keeps its result in a file, `crosslane merge FOLDER` shows all of them.
//!
//! Read first: [`Items`]. `merge` runs the command of the files again with every item taken from
//! them, so that what it shows is that of one run.
//!
//! A file begins with its [`Header`]; each further line is an item. A line counts when its newline
//! is there: a process that is killed in the middle leaves at most a part of one, which the next
//! run of the same shard removes.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use clap::{Args, Parser, ValueHint};
use crosslane::host::hex;
use crosslane::lab;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use serde::de::{DeserializeOwned, IgnoredAny};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::arguments::Cli;
use crate::error::{CommandError, Result, usage};
use crate::files::cannot_read;
use crate::interrupt::Watch;
use crate::output::print_hint;
use crate::shard::{Shard, ShardArgument, parse_shard, shard_of};

/// Most items: `merge` has all of them in memory, some 500 B each.
const MAX_ITEMS: u64 = 10_000_000;
/// Number of the format of the files.
const FORMAT: u32 = 1;
/// The first bytes of every file.
const BEGIN: &[u8] = b"{\"crosslane_items\":";
/// Missing items, and shards with some, that a sentence names at most.
const MOST_NAMED: usize = 12;

/// Options of a command whose items several machines can share.
#[derive(Args, Clone, Debug, Default)]
pub struct ItemsArguments {
    /// Keep the result of each item in a file of this folder as soon as it is there, skip items
    /// that are there already, and print nothing: `crosslane merge FOLDER` shows the result.
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub items: Option<PathBuf>,
    /// Run every N-th item from I on, I from 0; /N takes I from SLURM_ARRAY_TASK_ID or
    /// JOB_COMPLETION_INDEX [default: that of Slurm's job array if it runs in one, else 0/1].
    #[arg(long, value_name = "I/N", requires = "items", value_parser = parse_shard)]
    pub shard: Option<ShardArgument>,
    /// Whether the items of all shards are shown, and none is run.
    #[arg(skip)]
    pub is_merge: bool,
}

/// The first line of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    crosslane_items: u32,
    /// Version of the program.
    version: String,
    /// The command line, without the name of the program and what differs between shards.
    command: Vec<String>,
    /// Hash of the labs and measurements that it reads.
    inputs: String,
    /// Number of items of all shards.
    items: u64,
    /// This shard, from 0, and their number.
    shard: u64,
    shards: u64,
}

impl Header {
    /// Says what makes the items of two headers those of different work.
    fn difference(&self, file: &Self) -> Option<String> {
        let line = |command: &[String]| format!("crosslane {}", command.join(" "));
        if file.version != self.version {
            let (theirs, own) = (&file.version, &self.version);
            Some(format!("version {theirs} of crosslane wrote it, and this is version {own}"))
        } else if file.command != self.command {
            let (theirs, own) = (line(&file.command), line(&self.command));
            Some(format!("it has items of `{theirs}`, not of `{own}`"))
        } else if (&file.inputs, file.items) != (&self.inputs, self.items) {
            Some("the lab or the measurements have changed since".to_owned())
        } else {
            None
        }
    }
}

/// A line behind the first.
#[derive(Serialize, Deserialize)]
struct Line<T> {
    item: u64,
    /// Its name in words.
    name: String,
    result: T,
}

/// Lines of items, each with its number in the file.
type Lines = BTreeMap<u64, (usize, String)>;

/// Contents of a file that end with a newline.
struct Contents {
    /// None if the file has no item: then it may become that of other work.
    header: Option<Header>,
    /// The items, each with the number of its line and the line itself.
    lines: Lines,
    /// Their bytes: what is behind them is a part of a line.
    whole_bytes: u64,
}

fn damaged(path: &Path, line: usize, problem: &dyn fmt::Display) -> CommandError {
    let (path, problem) = (path.display(), problem.to_string());
    // The parser sees a single line.
    let problem = problem.split(" at line ").next().unwrap_or_default();
    CommandError::Failed(format!(
        "{path}:{line} is damaged: {problem}. Remove the line, or the file, and run its shard again"
    ))
}

impl Contents {
    /// Reads a file; `shard` is that of its name.
    ///
    /// # Errors
    /// A file that cannot be read or is something else, and a line that is wrong.
    fn read(path: &Path, shard: Shard, file: &mut File) -> Result<Self> {
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).map_err(|error| cannot_read(path, &error))?;
        let begins = bytes.len().min(BEGIN.len());
        if bytes[..begins] != BEGIN[..begins] {
            return Err(foreign(path));
        }
        let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
        let mut contents = Self { header: None, lines: Lines::new(), whole_bytes: whole as u64 };
        let lines = bytes[..whole].split_inclusive(|&byte| byte == b'\n');
        for (line, number) in lines.zip(1..) {
            let wrong = |problem: &dyn fmt::Display| damaged(path, number, problem);
            let text = str::from_utf8(line).map_err(|_| wrong(&"it is not text (UTF-8)"))?;
            let Some(header) = &contents.header else {
                let header: Header = serde_json::from_str(text).map_err(|error| wrong(&error))?;
                if header.crosslane_items != FORMAT {
                    let format = header.crosslane_items;
                    return Err(wrong(&format!("its format is {format}, not {FORMAT}")));
                }
                if (header.shard, header.shards) != (shard.index, shard.count) {
                    let (index, count) = (header.shard, header.shards);
                    return Err(wrong(&format!("the file is that of shard {index}/{count}")));
                }
                contents.header = Some(header);
                continue;
            };
            let line: Line<IgnoredAny> = serde_json::from_str(text).map_err(|it| wrong(&it))?;
            if line.item >= header.items || !shard.has(line.item) {
                return Err(wrong(&format!("item {} is not of shard {shard}", line.item)));
            }
            // A line is written once; a second one is a copy.
            let text = text.to_owned();
            if let Some((first, other)) = contents.lines.insert(line.item, (number, text.clone()))
                && other != text
            {
                return Err(wrong(&format!("line {first} has another result of the same item")));
            }
        }
        if contents.lines.is_empty() {
            (contents.header, contents.whole_bytes) = (None, 0);
        }
        Ok(contents)
    }
}

fn foreign(path: &Path) -> CommandError {
    CommandError::Failed(format!(
        "{} is not a file of --items: keep nothing else in that folder",
        path.display()
    ))
}

/// Lists the files of a folder with their shards.
///
/// # Errors
/// A folder that cannot be read, and something else in it. Hidden files may be the file system's.
fn files_of(folder: &Path) -> Result<Vec<(Shard, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(|error| cannot_read(folder, &error))? {
        let path = entry.map_err(|error| cannot_read(folder, &error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match Shard::of_file(&name) {
            Some(shard) if path.is_file() => files.push((shard, path)),
            _ if name.starts_with('.') => {}
            _ => return Err(foreign(&path)),
        }
    }
    files.sort_by_key(|(shard, _)| (shard.count, shard.index));
    match &files[..] {
        [(first, _), .., (last, path)] if first.count != last.count => {
            Err(other_count(path, last.count, first.count))
        }
        _ => Ok(files),
    }
}

fn other_count(path: &Path, count: u64, own: u64) -> CommandError {
    CommandError::Failed(format!(
        "{} is of {count} shards, not of {own}: all shards of a folder have the same number N",
        path.display()
    ))
}

fn open_to_read(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| cannot_read(path, &error))
}

/// Returns the first header of a folder's items, with its file.
///
/// # Errors
/// A folder without one, and what [`files_of`] and [`Contents::read`] reject.
fn header_of(folder: &Path) -> Result<(PathBuf, Header)> {
    for (shard, path) in files_of(folder)? {
        let contents = Contents::read(&path, shard, &mut open_to_read(&path)?)?;
        if let Some(header) = contents.header {
            return Ok((path, header));
        }
    }
    let folder = folder.display();
    Err(CommandError::Failed(format!("{folder} has no items: no shard has finished one")))
}

/// Rejects a file whose items are those of other work.
fn check_same(own: &Header, file: &Header, path: &Path) -> Result<()> {
    match own.difference(file) {
        None => Ok(()),
        Some(difference) => Err(CommandError::Failed(format!(
            "{}: {difference}: name another folder, or remove the files of this one",
            path.display()
        ))),
    }
}

/// The command line without `--items`, `--shard` and `--wide`.
///
/// # Errors
/// One that is not text.
fn own_command() -> Result<Vec<String>> {
    let mut command = Vec::new();
    let mut arguments = std::env::args_os().skip(1);
    while let Some(argument) = arguments.next() {
        let argument = argument.into_string().map_err(|argument| {
            usage(format!("{}: with --items all arguments are text (UTF-8)", argument.display()))
        })?;
        match argument.split('=').next() {
            Some("--items" | "--shard") => {
                if !argument.contains('=') {
                    arguments.next();
                }
            }
            Some("--wide") => {}
            _ => command.push(argument),
        }
    }
    Ok(command)
}

/// Work that consists of items, as a command knows it.
pub struct Work<'a> {
    /// Number of its items.
    pub items: u64,
    /// The texts of all labs and measurements that it reads.
    pub inputs: Vec<String>,
    /// Returns an item in words.
    pub name: &'a (dyn Fn(u64) -> String + Sync),
}

impl Work<'_> {
    fn header(&self, command: Vec<String>, shard: Shard) -> Header {
        let mut hash = Sha256::new();
        for text in &self.inputs {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        Header {
            crosslane_items: FORMAT,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            inputs: hex(&hash.finalize()[..16]),
            items: self.items,
            shard: shard.index,
            shards: shard.count,
        }
    }
}

/// The items of a command.
pub struct Items<'a> {
    work: Work<'a>,
    from: Origin,
}

/// Origin of results.
enum Origin {
    /// All are run, and none is kept.
    Run,
    /// Those of one shard are run and kept.
    Shard { shard: Shard, path: PathBuf, kept: Lines, file: Mutex<Keeper> },
    /// All were kept, in one file for each shard.
    Files {
        shards: u64,
        paths: BTreeMap<u64, PathBuf>,
        kept: Lines,
        wrong: Mutex<Option<CommandError>>,
    },
}

/// The file of a shard.
struct Keeper {
    file: File,
    /// Bytes of whole lines.
    whole_bytes: u64,
    /// Items kept by this run.
    count: u64,
    /// The reason for which nothing more is kept.
    failed: Option<io::Error>,
}

impl Keeper {
    fn write(&mut self, line: &str) {
        if self.failed.is_some() {
            return;
        }
        match self.file.write_all(line.as_bytes()) {
            Ok(()) => {
                self.whole_bytes += line.len() as u64;
                self.count += 1;
            }
            Err(error) => {
                // A part of a line would be read as none, too.
                let _ = self.file.set_len(self.whole_bytes);
                self.failed = Some(error);
            }
        }
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl lab::Items for Items<'_> {
    fn once<T: Serialize + DeserializeOwned, E>(
        &self,
        item: u64,
        run: impl FnOnce() -> Result<T, E>,
    ) -> Result<Option<T>, E> {
        match &self.from {
            Origin::Run => run().map(Some),
            Origin::Shard { shard, kept, file, .. } => {
                if !shard.has(item) || kept.contains_key(&item) || locked(file).failed.is_some() {
                    return Ok(None);
                }
                let result = run()?;
                let line = Line { item, name: (self.work.name)(item), result };
                let mut text = serde_json::to_string(&line).expect("results are plain data");
                text.push('\n');
                locked(file).write(&text);
                Ok(Some(line.result))
            }
            Origin::Files { shards, paths, kept, wrong } => {
                let Some((number, text)) = kept.get(&item) else { return Ok(None) };
                match serde_json::from_str::<Line<T>>(text) {
                    Ok(line) => Ok(Some(line.result)),
                    Err(error) => {
                        let path = &paths[&(item % shards)];
                        locked(wrong).get_or_insert_with(|| damaged(path, *number, &error));
                        Ok(None)
                    }
                }
            }
        }
    }
}

impl<'a> Items<'a> {
    /// Opens the folder of `--items`, if it is given.
    ///
    /// # Errors
    /// A shard that is not known, a folder that cannot be written or has other items, and a shard
    /// that another process is running.
    pub fn open(arguments: &ItemsArguments, work: Work<'a>) -> Result<Self> {
        if arguments.items.is_some() && work.items > MAX_ITEMS {
            let count = work.items;
            return Err(usage(format!("--items: {count} items: at most {MAX_ITEMS} are possible")));
        }
        let from = match &arguments.items {
            None => Origin::Run,
            Some(folder) if arguments.is_merge => merged(folder, &work)?,
            Some(folder) => {
                let shard = shard_of(arguments.shard, |name| std::env::var(name).ok())?;
                kept(folder, shard, &work)?
            }
        };
        Ok(Self { work, from })
    }

    /// Whether the results of all items are shown, which were run elsewhere.
    pub const fn is_merge(&self) -> bool {
        matches!(self.from, Origin::Files { .. })
    }

    /// Returns how many of some items will be run now.
    pub fn left(&self, items: Range<u64>) -> u64 {
        match &self.from {
            Origin::Run => items.end - items.start,
            Origin::Shard { shard, kept, .. } => {
                let is_left = |item: &u64| shard.has(*item) && !kept.contains_key(item);
                items.filter(is_left).count() as u64
            }
            Origin::Files { .. } => 0,
        }
    }

    /// Says what was kept, or which items are missing. Returns whether there is something to show.
    ///
    /// # Errors
    /// A file that could not be written, an interruption of a shard, missing items.
    pub fn end(&self, watch: &Watch) -> Result<bool> {
        match &self.from {
            Origin::Run => Ok(true),
            Origin::Shard { shard, path, kept, file } => {
                let keeper = &mut *locked(file);
                if let Some(error) = keeper.failed.take() {
                    let count = keeper.count;
                    return Err(CommandError::Failed(format!(
                        "{} cannot be written: {error}; {count} items were kept before",
                        path.display()
                    )));
                }
                watch.end("; those that were finished are kept")?;
                let (new, before) = (keeper.count, kept.len());
                let folder = path.parent().unwrap_or(Path::new("")).display();
                print_hint(&format!(
                    "shard {shard}: {new} items run, {before} were there before; `crosslane merge \
                     {folder}` shows those of all shards"
                ));
                Ok(false)
            }
            Origin::Files { shards, kept, wrong, .. } => match locked(wrong).take() {
                Some(wrong) => Err(wrong),
                None => self.check_complete(*shards, kept),
            },
        }
    }

    /// Rejects missing items.
    fn check_complete(&self, shards: u64, kept: &Lines) -> Result<bool> {
        let all = self.work.items;
        let count = all - kept.len() as u64;
        if count == 0 {
            return Ok(true);
        }
        let missing = || (0..all).filter(|item| !kept.contains_key(item));
        let mut of_shards: Vec<u64> = missing().map(|item| item % shards).collect();
        of_shards.sort_unstable();
        of_shards.dedup();
        let names = missing().take(MOST_NAMED).map(|item| (self.work.name)(item));
        let names = listed(names.collect(), count as usize);
        let count_of_shards = of_shards.len();
        let named = of_shards.into_iter().take(MOST_NAMED);
        let named = named.map(|index| Shard { index, count: shards }.to_string()).collect();
        Err(CommandError::Failed(format!(
            "{count} of {all} items are missing: {names}. Run again: shard {}",
            listed(named, count_of_shards)
        )))
    }
}

/// Lists the first of `count` names.
fn listed(names: Vec<String>, count: usize) -> String {
    let more = count - names.len();
    let names = names.join(", ");
    if more > 0 { format!("{names} and {more} more") } else { names }
}

/// Reads all files of a folder.
fn merged(folder: &Path, work: &Work<'_>) -> Result<Origin> {
    let (_, first) = header_of(folder)?;
    let own = work.header(first.command.clone(), Shard { index: 0, count: first.shards });
    let (mut paths, mut kept) = (BTreeMap::new(), BTreeMap::new());
    for (shard, path) in files_of(folder)? {
        let contents = Contents::read(&path, shard, &mut open_to_read(&path)?)?;
        if let Some(header) = &contents.header {
            check_same(&own, header, &path)?;
        }
        kept.extend(contents.lines);
        paths.insert(shard.index, path);
    }
    Ok(Origin::Files { shards: first.shards, paths, kept, wrong: Mutex::default() })
}

/// Opens the file of a shard, and reads what an earlier run has kept in it.
fn kept(folder: &Path, shard: Shard, work: &Work<'_>) -> Result<Origin> {
    let own = work.header(own_command()?, shard);
    let failed = |path: &Path, error: &dyn fmt::Display| {
        CommandError::Failed(format!("{} cannot be written: {error}", path.display()))
    };
    fs::create_dir_all(folder).map_err(|error| failed(folder, &error))?;
    let path = folder.join(shard.file());
    let files = files_of(folder)?;
    if let Some((other, path)) = files.iter().find(|(other, _)| other.count != shard.count) {
        return Err(other_count(path, other.count, shard.count));
    }
    if let Some((other, path)) = files.iter().find(|(other, _)| *other != shard) {
        let mut file = open_to_read(path)?;
        if let Some(header) = Contents::read(path, *other, &mut file)?.header {
            check_same(&own, &header, path)?;
        }
    }
    let cannot = |error: io::Error| failed(&path, &error);
    let file = OpenOptions::new().read(true).append(true).create(true).open(&path);
    let mut file = file.map_err(cannot)?;
    // Some file systems have no locks: any other error.
    if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
        return Err(failed(&path, &"another process is running this shard"));
    }
    let mut contents = Contents::read(&path, shard, &mut file)?;
    file.set_len(contents.whole_bytes).map_err(cannot)?;
    match &contents.header {
        Some(header) => check_same(&own, header, &path)?,
        None => {
            let mut text = serde_json::to_string(&own).expect("a header is plain data");
            text.push('\n');
            file.write_all(text.as_bytes()).map_err(cannot)?;
            contents.whole_bytes = text.len() as u64;
        }
    }
    let keeper = Keeper { file, whole_bytes: contents.whole_bytes, count: 0, failed: None };
    Ok(Origin::Shard { shard, path, kept: contents.lines, file: Mutex::new(keeper) })
}

/// Returns the command line that has made the items of a folder, to be given the results.
///
/// # Errors
/// A folder without items, and a file that is something else or damaged.
pub fn merged_command(folder: &Path) -> Result<Cli> {
    let (path, header) = header_of(folder)?;
    let words = std::iter::once("crosslane").chain(header.command.iter().map(String::as_str));
    let words = words.map(OsStr::new).chain([OsStr::new("--items"), folder.as_os_str()]);
    Cli::try_parse_from(words).map_err(|error| {
        let error = error.to_string();
        damaged(&path, 1, &error.lines().next().unwrap_or_default())
    })
}
