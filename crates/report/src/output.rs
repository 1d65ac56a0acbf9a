// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Output files. Each is tried before the work begins, never replaces a file that is something
//! else, and appears under its name when it is complete.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use thiserror::Error;

use crate::GENERATOR;

/// Name of a report in its folder.
const PAGE: &str = "index.html";
/// Names of files that this program has open, whatever they are: nothing takes their place.
const OPEN_FILES: [&str; 4] = ["/dev/stdout", "/dev/stderr", "/dev/fd", "/proc/self/fd"];
/// Bytes of a file that tell what it is.
const HEAD_BYTES: u64 = 4096;

/// Files and folders that are removed where the program ends before its time.
static TEMPORARY: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn remember(path: &Path) {
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
}

fn forget(path: &Path) {
    TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner).remove(path);
}

/// Removes unfinished files and empty folders that were made for them, and ends the program before
/// any of them can still get its name.
pub fn end_without_unfinished(end: impl FnOnce()) {
    let temporary = TEMPORARY.lock().unwrap_or_else(PoisonError::into_inner);
    // The deepest first; a folder goes only if it is empty, and what is gone is gone.
    for path in temporary.iter().rev() {
        let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
    }
    end();
}

/// Reason for which a file cannot be an output.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OutputError {
    /// The file cannot be written.
    #[error("{path} cannot be written: {source}", path = .path.display())]
    File {
        /// Path of the file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The folder of a report cannot be made.
    #[error("the folder {path} cannot be made: {source}", path = .path.display())]
    Folder {
        /// Path of the folder.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A file of another origin has that name.
    #[error(
        "{path} is there and is not {kind}: it is not replaced. Remove it, or name another {named}",
        path = .path.display()
    )]
    Foreign {
        /// Path of the file or folder.
        path: PathBuf,
        /// The expected content.
        kind: &'static str,
        /// `file` or `folder`.
        named: &'static str,
    },
}

impl OutputError {
    /// Makes the error of a file that cannot be written.
    pub fn file(path: &Path, source: io::Error) -> Self {
        Self::File { path: path.to_owned(), source }
    }
}

/// Content of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A report.
    Page,
    /// Rows of a sweep as comma-separated values.
    Rows,
    /// A tree of a lab.
    Drawing,
    /// A lab file that a command has made.
    Lab,
    /// A Perfetto trace.
    Trace,
    /// A page of the program's manual.
    Manual,
    /// Bytes of a card: the file that is named is replaced, whatever it is.
    Data,
}

impl Kind {
    const fn words(self) -> &'static str {
        match self {
            Self::Page => "a page that crosslane has written",
            Self::Rows => "the rows of a sweep",
            Self::Drawing => "a drawing that crosslane has made",
            Self::Lab => "a lab file that crosslane has written",
            Self::Trace => "a Perfetto trace",
            Self::Manual => "a page of crosslane's manual",
            Self::Data => "data",
        }
    }

    /// Whether a file that begins so is of this kind. An empty one may be anything.
    fn is_own(self, head: &[u8]) -> bool {
        let text = String::from_utf8_lossy(head);
        let first = text.lines().next().unwrap_or_default();
        head.is_empty()
            || match self {
                Self::Page => {
                    text.contains(&format!("<meta name=\"generator\" content=\"{GENERATOR}\">"))
                }
                Self::Rows => first.ends_with("bytes,us"),
                Self::Drawing => first.starts_with("<svg ") && first.contains("class=\"tree\""),
                Self::Lab => text.lines().any(|line| {
                    let words = line.strip_prefix("# ").and_then(|line| line.split_once(' '));
                    matches!(words, Some(("Made" | "Changed" | "Written" | "Calibrated", by))
                        if by.starts_with("by `crosslane "))
                }),
                // A packet: field 1, of bytes.
                Self::Trace => head[0] == 0x0a,
                Self::Manual => text.starts_with("# crosslane") || text.contains("\n.TH crosslane"),
                Self::Data => true,
            }
    }
}

/// A place where a file can be written.
#[derive(Debug)]
pub struct OutputFile {
    /// Path as the user named it, for words.
    path: PathBuf,
    /// The file itself: links are followed.
    target: PathBuf,
    /// A device, a pipe: nothing to be renamed.
    is_special: bool,
    /// The folders that were made for it.
    _made: MadeFolders,
}

/// Folders that were made, the outermost first: those that are empty at the end go again.
#[derive(Debug, Default)]
struct MadeFolders(Vec<PathBuf>);

impl Drop for MadeFolders {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            // One with something in it stays.
            let _ = fs::remove_dir(path);
            forget(path);
        }
    }
}

fn cannot(path: &Path) -> impl Fn(io::Error) -> OutputError {
    move |source| OutputError::file(path, source)
}

impl OutputFile {
    /// Tries whether a file can be written; nothing is, yet.
    ///
    /// # Errors
    /// It cannot be, or something else is there.
    pub fn file(path: &Path, kind: Kind) -> Result<Self, OutputError> {
        Self::tried(path, path, kind)
    }

    /// Tries whether a report can be written into a folder, which is made if it is missing.
    ///
    /// # Errors
    /// It cannot be, or a page that is somebody else's is there.
    pub fn report(folder: &Path) -> Result<Self, OutputError> {
        let missing = folder.ancestors().take_while(|path| !path.as_os_str().is_empty());
        let missing = missing.take_while(|path| fs::symlink_metadata(path).is_err());
        let mut made: Vec<PathBuf> = missing.map(Path::to_owned).collect();
        made.reverse();
        let cannot = |source| OutputError::Folder { path: folder.to_owned(), source };
        if made.is_empty() && !folder.is_dir() {
            return Err(cannot(io::ErrorKind::NotADirectory.into()));
        }
        made.iter().for_each(|path| remember(path));
        let made = MadeFolders(made);
        fs::create_dir_all(folder).map_err(cannot)?;
        let output = Self::tried(&folder.join(PAGE), folder, Kind::Page)?;
        Ok(Self { _made: made, ..output })
    }

    fn tried(path: &Path, named: &Path, kind: Kind) -> Result<Self, OutputError> {
        let cannot = cannot(path);
        let mut output = Self {
            path: path.to_owned(),
            target: path.to_owned(),
            is_special: OPEN_FILES.iter().any(|open| path.starts_with(open)),
            _made: MadeFolders::default(),
        };
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(cannot(io::ErrorKind::IsADirectory.into()));
            }
            Ok(metadata) if metadata.is_file() && !output.is_special => {
                output.target = fs::canonicalize(path).map_err(&cannot)?;
                if kind != Kind::Data {
                    let mut head = Vec::new();
                    let file = File::open(&output.target).map_err(&cannot)?;
                    file.take(HEAD_BYTES).read_to_end(&mut head).map_err(&cannot)?;
                    if !kind.is_own(&head) {
                        let named = if named == path { "file" } else { "folder" };
                        let (path, kind) = (path.to_owned(), kind.words());
                        return Err(OutputError::Foreign { path, kind, named });
                    }
                }
                // One that may not be written is not replaced either.
                OpenOptions::new().write(true).open(&output.target).map_err(&cannot)?;
            }
            Ok(_) => output.is_special = true,
            // A link that leads to nothing.
            Err(_) if fs::symlink_metadata(path).is_ok() => {
                return Err(cannot(io::ErrorKind::NotFound.into()));
            }
            Err(_) => {}
        }
        if !output.is_special {
            // The file goes when its temporary name is dropped.
            output.begin()?;
        }
        Ok(output)
    }

    /// Writes all of it.
    ///
    /// # Errors
    /// It cannot be written; what was there before still is.
    pub fn write(&self, bytes: &[u8]) -> Result<(), OutputError> {
        let (mut file, unfinished) = self.begin()?;
        file.write_all(bytes).map_err(cannot(&self.path))?;
        unfinished.finish(&file)
    }

    /// Begins the file under a temporary name, to be written piece by piece.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn begin(&self) -> Result<(File, Unfinished), OutputError> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let cannot = cannot(&self.path);
        let (path, target) = (self.path.clone(), self.target.clone());
        if self.is_special {
            let file = OpenOptions::new().append(true).open(&self.target).map_err(cannot)?;
            return Ok((file, Unfinished { path, target, temporary: None }));
        }
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!(".crosslane-{}-{number}", std::process::id());
        let temporary = self.target.with_file_name(name);
        remember(&temporary);
        let unfinished = Unfinished { path, target, temporary: Some(temporary.clone()) };
        let file = OpenOptions::new().write(true).create_new(true).open(&temporary);
        Ok((file.map_err(cannot)?, unfinished))
    }

    /// The file, as it was named.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// A file that has a temporary name until it is complete. Dropped before, it is removed.
#[derive(Debug)]
pub struct Unfinished {
    path: PathBuf,
    target: PathBuf,
    temporary: Option<PathBuf>,
}

impl Unfinished {
    /// Gives the file, all of which has been written, its name.
    ///
    /// # Errors
    /// It cannot be written or renamed.
    pub fn finish(mut self, file: &File) -> Result<(), OutputError> {
        let cannot = cannot(&self.path);
        let Some(temporary) = self.temporary.take() else { return Ok(()) };
        let renamed = || {
            file.sync_all()?;
            if let Ok(before) = fs::metadata(&self.target) {
                fs::set_permissions(&temporary, before.permissions())?;
            }
            fs::rename(&temporary, &self.target)
        };
        let result = renamed().map_err(cannot);
        if result.is_err() {
            let _ = fs::remove_file(&temporary);
        }
        forget(&temporary);
        result
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = fs::remove_file(temporary);
            forget(temporary);
        }
    }
}

/// Names the files that an interrupted command has not written, behind the sentence that says so.
pub fn not_written<'a>(outputs: impl IntoIterator<Item = &'a Option<OutputFile>>) -> String {
    let outputs = outputs.into_iter().flatten();
    outputs.map(|output| format!("; {} was not written", output.path().display())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_by_how_files_begin() {
        let page = format!("<!DOCTYPE html><meta name=\"generator\" content=\"{GENERATOR}\">");
        for (kind, head, is_own) in [
            (Kind::Page, page.as_str(), true),
            (Kind::Page, "<!DOCTYPE html><title>mine</title>", false),
            (Kind::Page, "", true),
            (Kind::Rows, "way,generation,width,bytes,us\nwrite,2,4,64,1\n", true),
            (Kind::Rows, "name,price\n", false),
            (Kind::Drawing, "<svg xmlns=\"x\" class=\"tree\" role=\"img\">", true),
            (Kind::Drawing, "<?xml version=\"1.0\"?>\n<svg class=\"tree\">", false),
            (Kind::Lab, "# Written by `crosslane torture --seeds 17`.\n[lab]\n", true),
            (Kind::Lab, "# My notes\n# Rates are measured by `crosslane bench`.\n", false),
            (Kind::Lab, "[lab]\nname = \"mine\"\n", false),
            (Kind::Trace, "\n\u{5}", true),
            (Kind::Trace, "[lab]\n", false),
            (Kind::Data, "anything", true),
        ] {
            assert_eq!(kind.is_own(head.as_bytes()), is_own, "{kind:?}: {head}");
        }
    }
}
